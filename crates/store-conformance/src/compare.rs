//! Comparing a store with the model, and saying briefly where they differ: values may be large.

use std::fmt::Write as _;

use bytes::Bytes;
use indelible_store::backend::{BackendSnapshot, Direction};
use indelible_store::{Page, Read, Scan, Table};

use crate::model::State;

/// All rows of these tables, as something that can be read shows them.
pub(crate) fn dump(from: &impl Read, tables: &[Table]) -> State {
    let mut state = State::default();
    for table in tables {
        let mut scan = Scan::all(*table, 100);
        loop {
            let page = from.scan(&scan).unwrap().value;
            let last = page.rows.last().map(|(key, _)| key.clone());
            for (key, value) in page.rows {
                state.insert(*table, key, value);
            }
            match last {
                Some(last) if page.more => scan = scan.after(last),
                _ => break,
            }
        }
    }
    state
}

/// All rows of these tables, as a backend's snapshot shows them.
pub(crate) fn dump_backend(from: &dyn BackendSnapshot, tables: &[Table]) -> State {
    use std::ops::{Bound::Unbounded, ControlFlow};
    let mut state = State::default();
    for table in tables {
        let mut take = |key, value| {
            state.insert(*table, key, value);
            ControlFlow::Continue(())
        };
        from.scan(table, &(Unbounded, Unbounded), Direction::Forward, &mut take).unwrap();
    }
    state
}

/// Fails where two states differ, and says where first.
#[track_caller]
pub(crate) fn assert_same(got: &State, expected: &State, what: &str) {
    if got == expected {
        return;
    }
    let differs = |(got, expected): &(Option<_>, Option<_>)| got != expected;
    let (mut got, mut expected) = (got.all(), expected.all());
    let pairs = std::iter::repeat_with(move || (got.next(), expected.next()));
    let (got, expected) = { pairs }.find(differs).expect("they differ somewhere");
    let row = |row: Option<(&str, &Bytes, &Bytes)>| match row {
        None => "the end".to_owned(),
        Some((table, key, value)) => format!("{table} {} = {}", brief(key), brief(value)),
    };
    panic!("{what}: got {}, expected {}", row(got), row(expected));
}

/// Fails where two pages differ, and shows both.
#[track_caller]
pub(crate) fn assert_same_page(got: &Page, expected: &Page, what: impl Fn() -> String) {
    if got == expected {
        return;
    }
    let show = |page: &Page| {
        let row = |(key, value): &(Bytes, Bytes)| format!("{}={} ", brief(key), brief(value));
        let rows: String = page.rows.iter().map(row).collect();
        format!("{} rows {rows}{}", page.rows.len(), if page.more { "and more" } else { "" })
    };
    panic!("{}: got {}, expected {}", what(), show(got), show(expected));
}

/// The beginning of some bytes, and how many there are.
pub(crate) fn brief(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for byte in bytes.iter().take(12) {
        _ = match byte {
            b'a'..=b'z' => write!(text, "{}", char::from(*byte)),
            byte => write!(text, "\\{byte:02x}"),
        };
    }
    text.push('\'');
    if bytes.len() > 12 {
        _ = write!(text, "…({})", bytes.len());
    }
    text
}
