//! The guest's side of a scenario: its calls, one a line, and after `->` what each meets.

use std::fmt::Write as _;

use indelible_journal::*;

use super::{invoke_kind, join_set, payload, promise, seconds, wait};
use crate::kit;

/// Makes every call again on a fresh replay, and writes what it meets behind it.
pub(super) fn replay(journal: &Journal, calls: &str) -> String {
    let mut replay = Replay::begin(journal, &kit::digest()).unwrap();
    let mut written = String::new();
    for line in calls.lines() {
        if line.is_empty() || line.starts_with('#') {
            writeln!(written, "{line}").unwrap();
            continue;
        }
        let call = line.split(" -> ").next().unwrap().trim_end();
        writeln!(written, "{call:<48} -> {}", meet(&mut replay, journal, call)).unwrap();
    }
    replay.finish(journal).expect("the journal holds what the guest asked for");
    written
}

/// `root.1`, for people.
fn short(promise: &PromiseId) -> String {
    let path: Vec<String> = promise.path().iter().map(ToString::to_string).collect();
    format!("root.{}", path.join("."))
}

fn meet(replay: &mut Replay, journal: &Journal, call: &str) -> String {
    let (word, rest) = call.split_once(' ').unwrap_or((call, ""));
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    match word {
        "invoke" => {
            let (kind, name) = invoke_kind(first);
            let (promise, found) =
                replay.invoke(journal, kind, &kit::function(name), &payload(more)).unwrap();
            format!("{} {found:?}", short(&promise)).to_lowercase()
        }
        "random" => {
            let value = replay.random(journal, first.parse().unwrap()).unwrap();
            value.map_or("absent".to_owned(), |value| data_encoding::HEXLOWER.encode(value))
        }
        "now" => {
            let time = replay.now(journal).unwrap();
            time.map_or("absent".to_owned(), |time| time.to_string())
        }
        "timer" => {
            let (promise, recorded) = replay.timer(journal, seconds(first)).unwrap();
            format!("{} {recorded:?}", short(&promise)).to_lowercase()
        }
        "join-set" => {
            let (set, recorded) = replay.join_set(journal).unwrap();
            format!("{} {recorded:?}", short(set.place())).to_lowercase()
        }
        "submit" => {
            let recorded = replay.submit(journal, &join_set(first), &promise(more)).unwrap();
            format!("{recorded:?}").to_lowercase()
        }
        "next" => match replay.next(journal, &join_set(first)).unwrap() {
            NextResult::Taken(promise, result) => format!("{} {result}", short(&promise)),
            other => format!("{other:?}").to_lowercase(),
        },
        "await" => match replay.wait(journal, &wait(rest)).unwrap() {
            AwaitResult::Promise(promise) => {
                let result = journal.result(&promise).map(|result| format!(" {result}"));
                format!("{}{}", short(&promise), result.unwrap_or_default())
            }
            AwaitResult::Signal(payload) => format!("signal {payload}"),
            other => format!("{other:?}").to_lowercase(),
        },
        _ => panic!("no such call: {word}"),
    }
}
