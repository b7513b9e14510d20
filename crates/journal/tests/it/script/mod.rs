//! The language of scenario files: commands above the journal, the table it writes, and a guest's
//! calls on replay with what they meet.
#![allow(unreachable_pub, reason = "a module of the scenario tests")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod guest;

use std::fmt::Write as _;

use indelible_journal::*;

use crate::kit;

/// The journal of one attempt, and what was written to it.
pub struct Attempt {
    pub journal: Journal,
    pub entries: Vec<Entry>,
}

pub struct Scenario {
    /// The whole file, as it should be.
    pub text: String,
    pub attempts: Vec<Attempt>,
}

const TRANSCRIPT: &str = "---- journal";
const GUEST: &str = "---- guest";

/// Runs a scenario file.
pub fn run(text: &str) -> Scenario {
    let commands = text.split(TRANSCRIPT).next().unwrap();
    let guest = text.split_once(GUEST).map(|(_, guest)| guest.trim_start_matches('\n'));

    let table = format!("seq  {:<80}  state\n", "event");
    let mut script = Script { now: kit::secs(0), attempts: Vec::new(), table };
    for line in commands.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        script.command(line);
    }
    let mut written = format!("{commands}{TRANSCRIPT}\n{}", script.table);
    if let Some(guest) = guest {
        let journal = &script.attempts.last().expect("there is a start").journal;
        write!(written, "\n{GUEST}\n{}", guest::replay(journal, guest)).unwrap();
    }
    Scenario { text: written, attempts: script.attempts }
}

struct Script {
    now: Timestamp,
    attempts: Vec<Attempt>,
    table: String,
}

/// `root.1` of the one tree that scenarios are about.
fn promise(text: &str) -> PromiseId {
    let path = text.strip_prefix("root.").unwrap_or_else(|| panic!("not an id: {text}"));
    let path: Vec<u32> = path.split('.').map(|number| number.parse().unwrap()).collect();
    PromiseId::new(*kit::own().root(), &path).unwrap()
}

fn join_set(text: &str) -> JoinSetId {
    JoinSetId::at(promise(text))
}

fn seconds(text: &str) -> Micros {
    Micros::from_secs(text.strip_suffix('s').expect("a time, such as 30s").parse().unwrap())
}

fn kind(text: &str) -> ErrorKind {
    *ErrorKind::ALL.iter().find(|kind| kind.to_string() == text).expect("a kind of error")
}

fn cause(text: &str) -> RetryCause {
    *RetryCause::ALL.iter().find(|cause| format!("{cause:?}") == text).expect("a cause")
}

fn wait_set(ids: &str) -> WaitSet {
    WaitSet::new(&kit::own(), ids.split(' ').map(promise)).unwrap()
}

/// `root.1`, `any root.1 root.2`, `all …`, `next SET` and `rest SET` for any and all of what is left
/// of a join set, `signal NAME`, `signal NAME or root.1 …`.
fn wait(text: &str) -> Wait {
    match text.split_once(' ') {
        None => Wait::One(promise(text)),
        Some(("any", ids)) => Wait::Any(wait_set(ids)),
        Some(("all", ids)) => Wait::All(wait_set(ids)),
        Some(("next", set)) => Wait::Any(WaitSet::rest_of(&join_set(set)).unwrap()),
        Some(("rest", set)) => Wait::All(WaitSet::rest_of(&join_set(set)).unwrap()),
        Some(("signal", rest)) => match rest.split_once(" or ") {
            None => Wait::Signal(kit::name(rest)),
            Some((name, ids)) => Wait::SignalOr(kit::name(name), wait_set(ids)),
        },
        Some((other, _)) => panic!("no such await: {other}"),
    }
}

fn payload(text: &str) -> Payload {
    Payload::json(text.to_owned())
}

/// `NAME INPUT`; a name that begins with `http:` is an HTTP effect.
fn invoke(name: &str, input: &str) -> Invoke {
    let (kind, name) = invoke_kind(name);
    let retry_policy = RetryPolicy::default().into();
    Invoke { kind, function_name: kit::function(name), input: payload(input), retry_policy }
}

fn invoke_kind(name: &str) -> (InvokeKind, &str) {
    match name.strip_prefix("http:") {
        Some(name) => (InvokeKind::Http, name),
        None => (InvokeKind::Function, name),
    }
}

impl Script {
    fn journal(&mut self) -> &mut Journal {
        &mut self.attempts.last_mut().expect("a scenario begins with start").journal
    }

    fn write(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            let attempt = self.attempts.last_mut().unwrap();
            attempt.entries.push(entry.clone());
            // The status after this entry, not after all that the command wrote.
            let status = Status::fold(attempt.entries.iter().map(Entry::event)).unwrap();
            let event = entry.event().describe().to_string();
            writeln!(self.table, "{:>3}  {event:<80}  {status}", entry.sequence().get()).unwrap();
        }
    }

    fn command(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let now = self.now;
        match word {
            "clock" => self.now = now.saturating_add(seconds(rest)),
            "start" => self.start(rest),
            "next-attempt" => self.next_attempt(),
            "wake" => {
                let entries = self.journal().wake(now).unwrap();
                self.write(entries);
            }
            _ => {
                let entry = self.one(word, rest);
                self.write([entry]);
            }
        }
    }

    fn start(&mut self, rest: &str) {
        let (function, input) = rest.split_once(' ').unwrap();
        let (function_name, input) = (kit::function(function), payload(input));
        let started = Started { function_name, input, ..kit::start() };
        let (journal, entry) = Journal::start(kit::key(), self.now, started).unwrap();
        self.attempts.push(Attempt { journal, entries: Vec::new() });
        self.write([entry]);
    }

    fn next_attempt(&mut self) {
        let now = self.now;
        let (journal, entries) = self.journal().next_attempt(now).unwrap();
        writeln!(self.table, "attempt {}", journal.key().attempts()).unwrap();
        self.attempts.push(Attempt { journal, entries: Vec::new() });
        self.write(entries);
    }

    /// A command that writes one entry.
    fn one(&mut self, word: &str, rest: &str) -> Entry {
        let now = self.now;
        let journal = self.journal();
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let entry = match word {
            "invoke" => journal.schedule_invoke(now, invoke(first, more)).map(|(_, entry)| entry),
            "begin" => journal.start_invoke(now, &promise(first)).map(|(_, entry)| entry),
            "complete" => journal.complete_invoke(now, &promise(first), Outcome::Ok(payload(more))),
            "complete-err" => {
                let (kind_of, message) = more.split_once(' ').unwrap();
                let failure = Failure::new(kind(kind_of), message);
                journal.complete_invoke(now, &promise(first), failure.into())
            }
            "retry" => {
                let [cause_of, after, message] =
                    more.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
                let error = Failure::new(ErrorKind::Transient, message);
                let retry_at = now.saturating_add(seconds(after));
                journal.retry_invoke(now, &promise(first), cause(cause_of), error, retry_at)
            }
            "random" => {
                let value = data_encoding::HEXLOWER.decode(first.as_bytes()).unwrap();
                journal.generate_random(now, value).map(|(_, entry)| entry)
            }
            "now" => journal.record_time(now).map(|(_, entry)| entry),
            "timer" => journal.schedule_timer(now, seconds(first)).map(|(_, entry)| entry),
            "fire" => journal.fire_timer(now, &promise(first)),
            "signal" => {
                let delivered = journal.deliver_signal(now, &kit::name(first), payload(more));
                delivered.map(|delivered| delivered.expect("it is not over").1)
            }
            "await" => match journal.wait(now, &wait(rest)).unwrap() {
                Waiting::Blocked(entry) | Waiting::Received(entry) => Ok(entry),
                Waiting::Quiet | Waiting::Already => panic!("nothing is written: leave it out"),
            },
            "join-set" => journal.create_join_set(now).map(|(_, entry)| entry),
            "submit" => journal.submit(now, &join_set(first), &promise(more)),
            "take" => journal.take_next(now, &join_set(first)).map(Option::unwrap),
            "cancel" => journal.request_cancel(now, rest).map(Option::unwrap),
            "cancelled" => journal.cancel(now, rest),
            "finish" => journal.complete(now, payload(rest)),
            "fail" => journal.fail(now, Failure::new(kind(first), more)),
            _ => panic!("no such command: {word}"),
        };
        entry.unwrap_or_else(|violation| panic!("{word} {rest}: {violation}"))
    }
}
