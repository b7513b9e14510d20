//! A tree of calls with branches, as people draw them. Pure.

use std::collections::BTreeMap;

use indelible_client::api::execution::Execution;
use indelible_journal::{JournalKey, Timestamp};

use super::list::took;
use super::state::{tone, word};
use crate::columns::{self, Cell, Column};
use crate::remote::target::name;
use crate::screen::{Screen, Tone};
use crate::text::plain;

/// A name is at most 255 bytes.
const NAME_WIDTH_MAX: usize = 255;

const COLUMNS: [Column; 5] = [
    Column::left("").or_narrow(16),
    Column::left(""),
    Column::left(""),
    Column::right(""),
    Column::left(""),
];

/// The children of each execution by their caller, in the order of their numbers and attempts.
type Children<'a> = BTreeMap<Option<BranchPosition>, BTreeMap<(u32, u32), &'a Execution>>;

/// An execution's position in the tree: its path, and the attempts down to it.
type BranchPosition = (Vec<u32>, Vec<u32>);

/// The tree of these executions; those whose caller is not among them are at the top.
pub(super) fn lines(executions: &[Execution], now: Timestamp, screen: Screen) -> Vec<String> {
    let places: BTreeMap<BranchPosition, &Execution> =
        executions.iter().filter_map(|one| Some((place(one)?, one))).collect();
    let mut children: Children<'_> = BTreeMap::new();
    for ((path, attempts), execution) in &places {
        let own = (path.last().copied().unwrap_or(0), attempts.last().copied().unwrap_or(1));
        // An execution whose caller is not among these is at the top.
        let caller = caller(path, attempts).filter(|caller| places.contains_key(caller));
        children.entry(caller).or_default().insert(own, execution);
    }
    let mut rows = Vec::new();
    let mut drawing = BranchDrawing { children: &children, now, rows: &mut rows };
    drawing.below(None, "", false);
    columns::lines(&COLUMNS, &rows, screen)
}

fn place(execution: &Execution) -> Option<BranchPosition> {
    let key = format!("{}@{}", execution.execution_id, execution.attempts);
    let key: JournalKey = key.parse().ok()?;
    let attempts = key.attempts().as_slice().iter().map(|attempt| attempt.get()).collect();
    Some((key.execution_id().path().to_vec(), attempts))
}

fn caller(path: &[u32], attempts: &[u32]) -> Option<BranchPosition> {
    let (_, path) = path.split_last()?;
    let (_, attempts) = attempts.split_last()?;
    Some((path.to_vec(), attempts.to_vec()))
}

struct BranchDrawing<'a> {
    children: &'a Children<'a>,
    now: Timestamp,
    rows: &'a mut Vec<[Cell; 5]>,
}

impl BranchDrawing<'_> {
    /// Draws the calls of `caller`; `stem` is drawn before their branches.
    fn below(&mut self, caller: Option<&BranchPosition>, stem: &str, faint: bool) {
        let Some(called) = self.children.get(&caller.cloned()) else { return };
        for ((number, attempt), execution) in called {
            let last = called.range((*number, *attempt)..).nth(1).is_none();
            let latest = called.range((*number, *attempt)..=(*number, u32::MAX)).nth(1).is_none();
            let (branch, next) = match (caller, last) {
                (None, _) => ("", ""),
                (Some(_), false) => ("├─ ", "│  "),
                (Some(_), true) => ("└─ ", "   "),
            };
            let faint = faint || !latest;
            let several = *attempt > 1 || !latest;
            self.row(execution, &format!("{stem}{branch}"), faint, several.then_some(*attempt));
            let place = place(execution);
            self.below(place.as_ref(), &format!("{stem}{next}"), faint);
        }
    }

    fn row(&mut self, execution: &Execution, stem: &str, faint: bool, attempt: Option<u32>) {
        let function = plain(&execution.function, NAME_WIDTH_MAX);
        let cell = |text: String| match faint {
            true => Cell::toned(Tone::Faint, text),
            false => Cell::new(text),
        };
        let tone = if faint { Tone::Faint } else { tone(execution.state) };
        self.rows.push([
            cell(format!("{stem}{function}")),
            cell(name(&execution.execution_id)),
            Cell::toned(tone, word(execution.state)),
            cell(took(execution, self.now)),
            cell(attempt.map_or_else(String::new, |attempt| format!("attempt {attempt}"))),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use indelible_client::api::execution::State;

    use super::super::list::tests::execution;
    use super::*;

    fn call(path: &str, attempts: &str, function: &str, state: State) -> Execution {
        let one = execution("9c4f1a2b", function, state);
        Execution {
            execution_id: format!("{}{path}", one.execution_id),
            attempts: attempts.to_owned(),
            ..one
        }
    }

    fn drawn(executions: &[Execution], screen: Screen) -> Vec<String> {
        lines(executions, "2026-03-14T09:30:00Z".parse().unwrap(), screen)
    }

    /// Children are drawn below their caller, in order; an earlier attempt is drawn with its own
    /// calls.
    #[test]
    fn a_tree_of_calls() {
        use State::{Blocked, Completed, Failed};
        let tree = [
            call("", "1", "order", Failed),
            call("", "2", "order", Blocked),
            call(".0", "1.1", "reserve", Completed),
            call(".0", "2.1", "reserve", Failed),
            call(".0", "2.2", "reserve", Completed),
            call(".0.0", "2.2.1", "倉庫", Completed),
            call(".2", "2.1", "ship", Completed),
            call(".10", "2.1", "note", Completed),
        ];
        assert_eq!(
            drawn(&tree, Screen::new(None, None)),
            [
                "order       9c4f1a2b      failed     12.5ms  attempt 1",
                "└─ reserve  9c4f1a2b.0    completed  12.5ms",
                "order       9c4f1a2b      blocked     3m07s  attempt 2",
                "├─ reserve  9c4f1a2b.0    failed     12.5ms  attempt 1",
                "├─ reserve  9c4f1a2b.0    completed  12.5ms  attempt 2",
                "│  └─ 倉庫  9c4f1a2b.0.0  completed  12.5ms",
                "├─ ship     9c4f1a2b.2    completed  12.5ms",
                "└─ note     9c4f1a2b.10   completed  12.5ms",
            ]
        );
        let screen = Screen { colours: true, ..Screen::new(Some(80), None) };
        let painted = drawn(&tree, screen);
        assert!(painted[1].starts_with("\u{1b}[2m└─ reserve"), "{painted:#?}");
        assert!(painted[4].starts_with("├─ reserve"), "{painted:#?}");
    }

    /// Nonsense from a server does no harm.
    #[test]
    fn nonsense_is_left_out() {
        let odd = call(".x", "1.1", "\u{1b}[2J", State::Running);
        let orphan = call(".3.1", "1.1.1", "\u{1b}[2J", State::Running);
        let drawn = drawn(&[odd, orphan], Screen::new(None, None));
        assert_eq!(drawn, ["\u{fffd}[2J  9c4f1a2b.3.1  running  3m07s"]);
    }
}
