//! What the tests of the state machine share: a second, slow statement of the rules, and journals
//! that were made with it alone.

pub(crate) mod checker;
pub(crate) mod generate;
pub(crate) mod make;
pub(crate) mod mutate;
pub(crate) mod propose;

use std::fmt::Write as _;

use indelible_journal::{JournalKey, Record};

/// A journal as text, one event a line: what a failing test shows.
pub(crate) fn render(key: &JournalKey, journal: &[Record]) -> String {
    let mut text = format!("{key:#}\n");
    for (index, record) in journal.iter().enumerate() {
        let Record { sequence, timestamp, event } = record;
        writeln!(text, "[{index}] seq {sequence} at {timestamp}: {event:?}")
            .expect("a string takes everything");
    }
    text
}
