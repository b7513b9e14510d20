//! Executions as a table. Pure: the executions and the time are passed in.

use std::collections::HashSet;

use indelible_client::api::execution::{Execution, State};
use indelible_journal::Timestamp;

use super::state::{tone, word};
use super::time::{ago, told};
use crate::columns::{self, Cell, Column};
use crate::screen::{Screen, Tone};
use crate::text::{duration, plain};

/// As many digits of an id as people need.
const DIGITS: usize = 8;
/// A name is at most 255 bytes.
const NAME_WIDTH_MAX: usize = 255;
/// The reason why an execution is stuck or failed can be long; `indelible show` prints all of it.
const WHY_WIDTH_MAX: usize = 200;

const COLUMNS: [Column; 9] = [
    Column::left("id"),
    Column::left("namespace").or_narrow(10),
    Column::left("function").or_narrow(12),
    Column::left("key").or_narrow(10),
    Column::left("state"),
    Column::right("started"),
    Column::right("took"),
    Column::right("attempt"),
    Column::left("why").or_narrow(10),
];

/// A row for each execution, in the order given.
pub(super) fn lines(executions: &[Execution], now: Timestamp, screen: Screen) -> Vec<String> {
    let digits = digits(executions);
    let mut namespaces = executions.iter().map(|one| one.namespace.as_str());
    let first = namespaces.next();
    let several = namespaces.any(|namespace| Some(namespace) != first);
    let row = |one: &Execution| {
        let namespace = if several { one.namespace.as_str() } else { "" };
        row(one, namespace, digits, now)
    };
    let rows: Vec<[Cell; 9]> = executions.iter().map(row).collect();
    columns::lines(&COLUMNS, &rows, screen)
}

fn row(execution: &Execution, namespace: &str, digits: usize, now: Timestamp) -> [Cell; 9] {
    let started = told(execution.started_at());
    let id: String = execution.execution_id.chars().take(digits).collect();
    [
        Cell::new(plain(&id, NAME_WIDTH_MAX)),
        Cell::new(plain(namespace, NAME_WIDTH_MAX)),
        Cell::new(plain(&execution.function, NAME_WIDTH_MAX)),
        Cell::new(plain(&called(execution), NAME_WIDTH_MAX)),
        Cell::toned(tone(execution.state), word(execution.state)),
        Cell::new(started.map_or_else(|| "?".to_owned(), |started| ago(started, now))),
        Cell::new(took(execution, now)),
        Cell::new(match execution.attempts.as_str() {
            "1" => String::new(),
            attempts => plain(attempts, NAME_WIDTH_MAX),
        }),
        why(execution),
    ]
}

/// What its caller calls it: its idempotency key, or its first label.
fn called(execution: &Execution) -> String {
    match (&execution.key, execution.labels.first_key_value()) {
        (Some(key), _) => key.clone(),
        (None, Some((name, value))) => format!("{name}={value}"),
        (None, None) => String::new(),
    }
}

/// Why it is stuck, or did not return.
fn why(execution: &Execution) -> Cell {
    let tone = match execution.state {
        State::Stuck | State::Indeterminate => Tone::Warn,
        State::Failed => Tone::Bad,
        _ => Tone::Faint,
    };
    let error = execution.error.as_ref().map(|error| format!("{}: {}", error.kind, error.message));
    let why = execution.stuck.clone().or(error).unwrap_or_default();
    Cell::toned(tone, plain(&why, WHY_WIDTH_MAX))
}

/// How long the execution took, or has been going.
pub(super) fn took(execution: &Execution, now: Timestamp) -> String {
    let until = match execution.state.is_over() {
        true => told(&execution.updated_at),
        false => Some(now),
    };
    match (told(execution.started_at()), until) {
        (Some(from), Some(until)) => {
            // For an execution that goes on, seconds are precise enough.
            let micros = until.saturating_since(from).get();
            let whole = if execution.state.is_over() { 1 } else { 1_000_000 };
            duration(micros / whole * whole)
        }
        _ => "?".to_owned(),
    }
}

/// How many digits tell all ids apart.
fn digits(executions: &[Execution]) -> usize {
    let ids: HashSet<&str> = executions.iter().map(|one| one.execution_id.as_str()).collect();
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or(0);
    let told_apart = |digits: usize| {
        let mut seen = HashSet::new();
        ids.iter().all(|id| seen.insert(id.get(..digits).unwrap_or(id)))
    };
    (DIGITS..longest).find(|digits| told_apart(*digits)).unwrap_or(longest.max(DIGITS))
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use indelible_client::api::call::Failed;

    use super::*;

    const NOW: &str = "2026-03-14T09:30:00Z";

    pub(crate) fn execution(id: &str, function: &str, state: State) -> Execution {
        Execution {
            execution_id: format!("{id:0<64}"),
            namespace: "default".to_owned(),
            function: function.to_owned(),
            component_digest: "f7".repeat(32),
            state,
            created_at: "2026-03-14T09:26:53.000000Z".to_owned(),
            updated_at: "2026-03-14T09:26:53.012500Z".to_owned(),
            attempts: "1".to_owned(),
            first_created_at: None,
            events: 7,
            stuck: None,
            key: None,
            labels: BTreeMap::new(),
            error: None,
        }
    }

    fn shown(executions: &[Execution], terminal: Option<usize>) -> Vec<String> {
        lines(executions, NOW.parse().unwrap(), Screen::new(terminal, None))
    }

    /// A finished execution shows how long it took, an open one for how long, a stuck one why.
    #[test]
    fn a_row_says_how_it_stands() {
        let stuck = Execution {
            stuck: Some("its journal does not fit: \u{1b}[2J".to_owned()),
            ..execution("02", "order", State::Stuck)
        };
        let all = [stuck, execution("01", "支払い", State::Completed)];
        assert_eq!(
            shown(&all, None),
            [
                "id        function  state        started    took  why",
                "02000000  order     stuck      3 min ago   3m07s  its journal does not fit: \u{fffd}[2J",
                "01000000  支払い    completed  3 min ago  12.5ms",
            ]
        );
        for line in shown(&all, Some(60)) {
            assert!(crate::text::width(&line) <= 60, "{line:?}");
        }
    }

    /// What a later attempt brought to its end was started with the first one, and took as long as
    /// all of them.
    #[test]
    fn a_row_counts_from_the_first_attempt() {
        let again = Execution {
            attempts: "3".to_owned(),
            first_created_at: Some("2026-03-14T09:25:00.000000Z".to_owned()),
            ..execution("01", "order", State::Indeterminate)
        };
        assert_eq!(
            shown(&[again], None),
            [
                "id        function  state            started   took  attempt",
                "01000000  order     indeterminate  5 min ago  1m53s        3",
            ]
        );
    }

    /// A row has the key, or the first label, and why it failed; the namespace only if there are
    /// several.
    #[test]
    fn a_row_says_what_it_is_called() {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let labels: BTreeMap<_, _> = [label("tenant", "x"), label("order", "1\u{7}")].into();
        let error =
            Some(Failed { kind: "UserError".into(), message: "no\nluck".into(), detail: None });
        let mut all = [
            Execution {
                key: Some("order-7".to_owned()),
                labels: labels.clone(),
                error,
                ..execution("02", "order", State::Failed)
            },
            Execution { labels, ..execution("01", "order", State::Completed) },
        ];
        assert_eq!(
            shown(&all, None),
            [
                "id        function  key       state        started    took  why",
                "02000000  order     order-7   failed     3 min ago  12.5ms  UserError: no luck",
                "01000000  order     order=1\u{fffd}  completed  3 min ago  12.5ms",
            ]
        );
        all[1].namespace = "shop".to_owned();
        let shown = shown(&all, None);
        assert!(shown[0].starts_with("id        namespace  function"), "{shown:#?}");
        assert!(shown[2].starts_with("01000000  shop       order"), "{shown:#?}");
    }

    /// All ids have the same number of digits, enough to tell them apart.
    #[test]
    fn ids_are_told_apart() {
        let ids = ["0123456789aa", "0123456789ab", "ff"];
        let all = ids.map(|id| execution(id, "f", State::Running));
        let shown = shown(&all, None);
        assert!(shown[1].starts_with("0123456789aa  f"), "{shown:#?}");
        assert!(shown[3].starts_with("ff0000000000  f"), "{shown:#?}");
    }

    /// Nonsense from a server is shown as it is, and breaks nothing.
    #[test]
    fn nonsense_is_shown_as_it_is() {
        let odd = Execution {
            execution_id: "\u{1b}]0;日本語日本語".to_owned(),
            created_at: "soon".to_owned(),
            ..execution("", "f\n\u{202e}", State::Running)
        };
        let shown = shown(&[odd.clone(), odd], None);
        assert!(shown.iter().all(|line| !line.contains(crate::text::rewrites)), "{shown:#?}");
        assert!(shown[1].contains('?'), "{shown:#?}");
    }
}
