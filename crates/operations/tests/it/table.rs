//! The whole table of transitions, written out a second time: every state, of every class, on every
//! input. The states are reached as an operation reaches them, not made.

use std::fmt::Write as _;

use indelible_journal::{Payload, RetryClass};
use indelible_operations::Binding;
use indelible_operations::retention::Age;
use indelible_operations::state::{
    self, Attempt, Input, Interest, Operation, Resolution, Run, State,
};

/// `*` stands for all; `p` and `v` for persist and volatile, `i` and `n` for idem and not. The
/// outcome of a run is `first`; what is said later is `later`.
const EXPECTED: &str = "
state          class  input              next            decision                       because
Absent         *      attempt            Live 1          Start                          V-10 V-16 V-29
Absent         *      attempt expired    Absent          Refuse(Expired)                V-59 C-3
Absent         *      attempt ahead      Absent          Refuse(TooFarAhead)            C-3
Absent         *      attempt other      Live 1          Start                          V-10
Absent         *      returned           Absent          NeverAdmitted                  V-22
Absent         *      lost               Absent          NeverAdmitted                  V-22
Absent         *      recovered          Absent          NeverAdmitted                  V-22
Absent         *      cancelled          Absent          Ignored(Absent)                     V-10
Absent         *      nobody waits       Absent          Ignored(Absent)                     V-10
Absent         *      others wait        Absent          Ignored(Absent)                     V-10
Absent         *      happened           Absent          Unresolvable(Absent)           V-10
Absent         *      did not happen     Absent          Unresolvable(Absent)           V-10
Absent         *      run again          Absent          Unresolvable(Absent)           V-10

Live           *      attempt            Live 2          Attach                         V-11 V-23 V-30
Live           *      attempt expired    Live 2          Attach                         V-30
Live           *      attempt ahead      Live 2          Attach                         V-30
Live           *      attempt other      Live 2          Refuse(Conflict)               V-9
Live           *      returned           Sealed later    Sealed                         V-16 V-36 C-28
Live           *      returned late      Live 2          Ignored(EarlierRun)                 V-11 V-76
Live           *      returned early     Live 2          NeverBegun                     V-11
Live           *      lost               Indeterminate   Indeterminate                  V-15 V-16 V-22 V-48
Live           *      lost late          Live 2          Ignored(EarlierRun)                 V-11 V-76
Live           *      recovered          Sealed later    Sealed                         V-20 V-39
Live           *      recovered late     Live 2          Ignored(EarlierRun)                 V-11 V-76
Live           p*     cancelled          Live 2          Detached                       V-19 V-41 C-24
Live           v*     cancelled          Released        Released                       V-13 V-16 V-40
Live           p*     nobody waits       Live 2          Detached                       V-19 V-43
Live           v*     nobody waits       Released        Released                       V-13 V-18 V-42
Live           *      others wait        Live 2          Detached                       V-30 V-43
Live           *      happened           Live 2          Unresolvable(Live)             V-11
Live           *      did not happen     Live 2          Unresolvable(Live)             V-11
Live           *      run again          Live 2          Unresolvable(Live)             V-11

Released       vi     attempt            Live 3          RunAgain                       V-26 V-32 V-76
Released       vi     attempt expired    Live 3          RunAgain                       V-32
Released       vi     attempt ahead      Live 3          RunAgain                       V-32
Released       vn     attempt            Released        Refuse(Indeterminate)          V-24 V-25 V-33
Released       vn     attempt expired    Released        Refuse(Indeterminate)          V-33
Released       vn     attempt ahead      Released        Refuse(Indeterminate)          V-33
Released       *      attempt other      Released        Refuse(Conflict)               V-9
Released       *      returned           Released        Ignored(Released)                   V-44
Released       *      returned late      Released        Ignored(EarlierRun)                 V-76
Released       *      returned early     Released        NeverBegun                     V-11
Released       *      lost               Released        Ignored(Released)                   V-44
Released       *      lost late          Released        Ignored(EarlierRun)                 V-76
Released       *      recovered          Released        Ignored(Released)                   V-44
Released       *      recovered late     Released        Ignored(EarlierRun)                 V-76
Released       *      cancelled          Released        Ignored(Released)                   V-44
Released       *      nobody waits       Released        Ignored(Released)                   V-44
Released       *      others wait        Released        Ignored(Released)                   V-44
Released       *      happened           Released        Unresolvable(Released)         V-13 V-76
Released       *      did not happen     Released        Unresolvable(Released)         V-13 V-76
Released       *      run again          Released        Unresolvable(Released)         V-13 V-76

Sealed         *      attempt            Sealed first    Replay(first)                  V-14 V-31 V-37 V-45
Sealed         *      attempt expired    Sealed first    Replay(first)                  V-31
Sealed         *      attempt ahead      Sealed first    Replay(first)                  V-31
Sealed         *      attempt other      Sealed first    Refuse(Conflict)               V-9
Sealed         *      returned           Sealed first    Ignored(Sealed)                     V-38
Sealed         *      returned late      Sealed first    Ignored(Sealed)                     V-38
Sealed         *      returned early     Sealed first    NeverBegun                     V-11
Sealed         *      lost               Sealed first    Ignored(Sealed)                     V-38 V-39
Sealed         *      lost late          Sealed first    Ignored(Sealed)                     V-38
Sealed         *      recovered          Sealed first    Ignored(Sealed)                     V-38
Sealed         *      recovered late     Sealed first    Ignored(Sealed)                     V-38
Sealed         *      cancelled          Sealed first    Ignored(Sealed)                     V-38 V-44
Sealed         *      nobody waits       Sealed first    Ignored(Sealed)                     V-38
Sealed         *      others wait        Sealed first    Ignored(Sealed)                     V-38
Sealed         *      happened           Sealed first    Unresolvable(Sealed)           V-38
Sealed         *      did not happen     Sealed first    Unresolvable(Sealed)           V-38
Sealed         *      run again          Sealed first    Unresolvable(Sealed)           V-38

Indeterminate  *i     attempt            Live 3          RunAgain                       V-28 V-34 V-76
Indeterminate  *i     attempt expired    Live 3          RunAgain                       V-34
Indeterminate  *i     attempt ahead      Live 3          RunAgain                       V-34
Indeterminate  *n     attempt            Indeterminate   Refuse(Indeterminate)          V-24 V-27 V-35 V-46
Indeterminate  *n     attempt expired    Indeterminate   Refuse(Indeterminate)          V-35
Indeterminate  *n     attempt ahead      Indeterminate   Refuse(Indeterminate)          V-35
Indeterminate  *      attempt other      Indeterminate   Refuse(Conflict)               V-9
Indeterminate  *      returned           Indeterminate   Ignored(Indeterminate)              V-46
Indeterminate  *      returned late      Indeterminate   Ignored(EarlierRun)                 V-76
Indeterminate  *      returned early     Indeterminate   NeverBegun                     V-11
Indeterminate  *      lost               Indeterminate   Ignored(Indeterminate)              V-46
Indeterminate  *      lost late          Indeterminate   Ignored(EarlierRun)                 V-76
Indeterminate  *      recovered          Sealed later    Sealed                         V-35 V-76
Indeterminate  *      recovered late     Indeterminate   Ignored(EarlierRun)                 V-76
Indeterminate  *      cancelled          Indeterminate   Ignored(Indeterminate)              V-47
Indeterminate  *      nobody waits       Indeterminate   Ignored(Indeterminate)              V-47
Indeterminate  *      others wait        Indeterminate   Ignored(Indeterminate)              V-47
Indeterminate  *      happened           Sealed later    Sealed                         C-38
Indeterminate  *      did not happen     Sealed later    Sealed                         C-38
Indeterminate  *      run again          Live 3          RunAgain                       C-38 V-24
";

const CLASSES: [(&str, RetryClass); 4] = [
    ("pn", RetryClass::PERSIST),
    ("pi", RetryClass::PERSIST_IDEM),
    ("vn", RetryClass::VOLATILE),
    ("vi", RetryClass::VOLATILE_IDEM),
];

const INPUTS: [&str; 17] = [
    "attempt",
    "attempt expired",
    "attempt ahead",
    "attempt other",
    "returned",
    "returned late",
    "returned early",
    "lost",
    "lost late",
    "recovered",
    "recovered late",
    "cancelled",
    "nobody waits",
    "others wait",
    "happened",
    "did not happen",
    "run again",
];

type Known = Operation<&'static str>;

fn attempt(class: RetryClass, arguments: &'static str, age: Age) -> Attempt {
    Attempt { class, binding: Binding::of("method", &Payload::json(arguments)), age }
}

/// An operation in this state, at its second run where it has runs; none if the class cannot.
fn reach(state: &str, class: RetryClass) -> Option<Option<Known>> {
    let put = |known: Option<&Known>, input| {
        state::apply(known, input).expect("it can happen").put.expect("it changes something")
    };
    if state == "Absent" {
        return Some(None);
    }
    let first = state::attempt(None, &attempt(class, "1", Age::Fresh)).expect("it can happen");
    let lost = put(first.put.as_ref(), Input::Lost(Run::FIRST));
    let live = put(Some(&lost), Input::Resolved(Resolution::RunAgain));
    Some(Some(match state {
        "Live" => live,
        "Sealed" => put(Some(&live), Input::Returned(live.run, "first")),
        "Indeterminate" => put(Some(&live), Input::Lost(live.run)),
        _ => state::apply(Some(&live), Input::Cancelled).expect("it can happen").put?,
    }))
}

/// What follows, as two columns of the table.
fn follows(known: Option<&Known>, class: RetryClass, input: &str) -> Option<(String, String)> {
    let last = known.map_or(1, |known| known.run.get());
    let run = |number| Run::new(number).expect("it is not 0");
    let (now, early) = (run(last), run(last + 1));
    // Where nothing has run, there is neither an earlier run nor a later one.
    let late = match known {
        Some(_) => run(last - 1),
        None if input.ends_with("late") || input.ends_with("early") => return None,
        None => now,
    };
    // Another method could say another class: what is on record counts.
    let declared = if known.is_some() { RetryClass::PERSIST_IDEM } else { class };
    let input = match input {
        "attempt" => return Some(asks(known, &attempt(declared, "1", Age::Fresh))),
        "attempt expired" => return Some(asks(known, &attempt(declared, "1", Age::Expired))),
        "attempt ahead" => return Some(asks(known, &attempt(declared, "1", Age::TooFarAhead))),
        "attempt other" => return Some(asks(known, &attempt(declared, "2", Age::Fresh))),
        "returned" => Input::Returned(now, "later"),
        "returned late" => Input::Returned(late, "later"),
        "returned early" => Input::Returned(early, "later"),
        "lost" => Input::Lost(now),
        "lost late" => Input::Lost(late),
        "recovered" => Input::Recovered(now, "later"),
        "recovered late" => Input::Recovered(late, "later"),
        "cancelled" => Input::Cancelled,
        "nobody waits" => Input::Dropped(Interest::NoCaller),
        "others wait" => Input::Dropped(Interest::Others),
        "happened" => Input::Resolved(Resolution::Happened("later")),
        "did not happen" => Input::Resolved(Resolution::DidNotHappen("later")),
        "run again" => Input::Resolved(Resolution::RunAgain),
        other => unreachable!("no input is called {other}"),
    };
    Some(match state::apply(known, input) {
        Ok(step) => (shown(step.put.as_ref().or(known)), format!("{:?}", step.decision)),
        Err(error) => {
            let error = format!("{error:?}");
            let name = error.split(['(', ' ']).next().expect("there is a first");
            (shown(known), name.to_owned())
        }
    })
}

fn asks(known: Option<&Known>, attempt: &Attempt) -> (String, String) {
    let step = state::attempt(known, attempt).expect("it can happen");
    (shown(step.put.as_ref().or(known)), format!("{:?}", step.decision).replace('"', ""))
}

fn shown(known: Option<&Known>) -> String {
    let Some(known) = known else { return "Absent".to_owned() };
    match &known.state {
        State::Live(_) => format!("Live {}", known.run),
        State::Sealed(outcome) => format!("Sealed {outcome}"),
        state => state.to_string(),
    }
}

/// A row of the expected table.
struct Row {
    state: &'static str,
    class: &'static str,
    input: &'static str,
    next: &'static str,
    decision: &'static str,
    ids: Vec<&'static str>,
}

fn expected() -> Vec<Row> {
    let columns = |line: &'static str| {
        let column = |from, to| line.get(from..to).expect("columns are wide enough").trim();
        Row {
            state: column(0, 15),
            class: column(15, 22),
            input: column(22, 41),
            next: column(41, 57),
            decision: column(57, 88),
            ids: line[88..].split_whitespace().collect(),
        }
    };
    EXPECTED.lines().filter(|line| !line.is_empty()).skip(1).map(columns).collect()
}

/// Whether `*`, `p*`, `*i` or `pi` is this class.
fn covers(pattern: &str, class: &str) -> bool {
    pattern == "*" || pattern.chars().zip(class.chars()).all(|(p, c)| p == '*' || p == c)
}

/// V-9, V-10, V-11, V-13, V-14, V-15, V-16, V-18, V-19, V-20, V-22, V-23, V-24, V-25, V-26, V-27,
/// V-28, V-29, V-30, V-31, V-32, V-33, V-34, V-35, V-36, V-37, V-38, V-39, V-40, V-41, V-42, V-43,
/// V-44, V-45, V-46, V-47, V-48, V-59, V-76, C-3, C-24, C-28, C-38: every cell of the table is as
/// it is written, there is no other, and no row is without a cell or without a reason.
#[test]
fn the_table_is_as_written() {
    let rows = expected();
    let mut used = vec![0; rows.len()];
    let mut differences = String::new();
    let mut cells = 0;
    for state in ["Absent", "Live", "Released", "Sealed", "Indeterminate"] {
        for (class, declared) in CLASSES {
            // V-13, V-19: what is persist does not get there.
            let Some(known) = reach(state, declared) else {
                assert_eq!((state, &class[..1]), ("Released", "p"));
                continue;
            };
            for input in INPUTS {
                let Some((next, decision)) = follows(known.as_ref(), declared, input) else {
                    continue;
                };
                cells += 1;
                let covering: Vec<usize> = (0..rows.len())
                    .filter(|row| {
                        let row = &rows[*row];
                        row.state == state && row.input == input && covers(row.class, class)
                    })
                    .collect();
                let [row] = covering[..] else {
                    panic!("{} rows for {state} {class} {input}", covering.len());
                };
                used[row] += 1;
                if (rows[row].next, rows[row].decision) != (&next, &decision) {
                    writeln!(
                        differences,
                        "{state} {class} {input}: {next} {decision}, not {} {}",
                        rows[row].next, rows[row].decision
                    )
                    .expect("a string takes everything");
                }
            }
        }
    }
    assert_eq!(differences, "");
    assert!(used.iter().all(|used| *used > 0), "a row is of no use");
    assert!(rows.iter().all(|row| !row.ids.is_empty()), "a row has no reason");
    // Absent has no runs that could report late or early.
    assert_eq!(cells, 4 * (17 - 4) + 4 * 17 + 2 * 17 + 4 * 17 + 4 * 17);
}
