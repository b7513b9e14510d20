//! What a path asks the peer to do: `/do/<behaviour>`. The table is in the crate's documentation.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::text::percent_decoded;

/// What comes before a behaviour.
pub(crate) const PREFIX: &str = "/do/";

/// The statuses that end a request.
const STATUSES: RangeInclusive<u16> = 200..=599;

/// The steps for the arrivals of a key, in order; the last step is for all further arrivals. Never
/// empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan(Vec<Step>);

/// What to do with one arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) memory: Memory,
    /// Whether it has its effect, unless `memory` knows the key.
    pub(crate) processes: bool,
    /// How long it takes until it is processed.
    pub(crate) process_after: Duration,
    /// How long it takes from then until it is answered.
    pub(crate) answer_after: Duration,
    pub(crate) way: Way,
}

/// What the peer remembers of keys that it has processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing: each arrival is processed.
    None,
    /// Each key, for ever.
    Keyed,
    /// Each key for this many arrivals, counting the one that was processed.
    Forgets(usize),
}

/// How an arrival ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// 200.
    Answer,
    /// 200, and then the connection is closed without notice.
    CloseIdle,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing, until the client closes.
    Hang,
    /// A 200 whose body ends in the middle of what `content-length` says.
    Half,
    /// A 200 in chunks that ends in the middle of one.
    HalfChunked,
    /// Bytes that are not HTTP.
    Bad,
    /// An answer of this status.
    Status(u16),
    /// An answer of this status that asks to wait this many seconds.
    RetryAfter { seconds: u64, status: u16 },
    /// An answer of this status that asks to wait for a date, this many seconds from now.
    RetryDate { seconds: i64, status: u16 },
    /// A redirect.
    Redirect { status: u16, location: String },
    /// 200 with a body of this many bytes.
    Huge(u64),
    /// 200 with a body of this many bytes, each after a pause.
    Slow { bytes: u64, pause: Duration },
    /// 200 with the arrival as JSON.
    Echo,
    /// 200 with how often this key was processed.
    Lookup(String),
    /// 404: no behaviour is asked for.
    NotFound,
    /// 400: the behaviour does not exist, for this reason.
    Unknown(String),
}

impl Plan {
    /// The plan of a path, which may have a query.
    pub(crate) fn of(path: &str) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let steps = match path.strip_prefix(PREFIX) {
            Some(text) => steps(text).unwrap_or_else(|why| vec![Step::idle(Way::Unknown(why))]),
            None => vec![Step::idle(Way::NotFound)],
        };
        Self(steps)
    }

    /// The step for the `nth` arrival, from 1.
    pub(crate) fn step(&self, nth: usize) -> &Step {
        let last = self.0.len() - 1;
        &self.0[nth.saturating_sub(1).min(last)]
    }
}

impl Step {
    /// Has its effect, then ends in this way.
    fn working(way: Way) -> Self {
        let (process_after, answer_after) = (Duration::ZERO, Duration::ZERO);
        Self { memory: Memory::None, processes: true, process_after, answer_after, way }
    }

    /// Ends in this way, and has no effect.
    fn idle(way: Way) -> Self {
        Self { processes: false, ..Self::working(way) }
    }
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let (memory, text) = memory(text)?;
    let mut steps = match text.strip_prefix("seq/") {
        Some(list) => list.split(',').map(with_memory).collect::<Result<Vec<_>, _>>()?,
        None => vec![step(text)?],
    };
    if memory != Memory::None {
        steps.iter_mut().for_each(|step| step.memory = memory);
    }
    Ok(steps)
}

fn with_memory(text: &str) -> Result<Step, String> {
    let (memory, text) = memory(text)?;
    Ok(Step { memory, ..step(text)? })
}

/// Takes `keyed` or `forget[/<arrivals>]` off the front. An empty rest stands for `answer`.
fn memory(text: &str) -> Result<(Memory, &str), String> {
    let (name, rest) = text.split_once('/').unwrap_or((text, ""));
    let (memory, rest) = match name {
        "keyed" => (Memory::Keyed, rest),
        "forget" => {
            let (first, after) = rest.split_once('/').unwrap_or((rest, ""));
            match first.parse() {
                Ok(0) => return Err("it cannot forget a key before it knows it".to_owned()),
                Ok(arrivals) => (Memory::Forgets(arrivals), after),
                Err(_) => (Memory::Forgets(1), rest),
            }
        }
        _ => return Ok((Memory::None, text)),
    };
    Ok((memory, if rest.is_empty() { "answer" } else { rest }))
}

fn step(text: &str) -> Result<Step, String> {
    // These take the whole rest of the path.
    match text.split_once('/') {
        Some(("lookup", key)) => return Ok(Step::idle(Way::Lookup(percent_decoded(key)))),
        Some(("redirect", rest)) => return redirect(rest),
        _ => {}
    }
    let (text, processes) = match text.rsplit_once('/') {
        Some((text, "processed")) => (text, Some(true)),
        Some((text, "unprocessed")) => (text, Some(false)),
        _ => (text, None),
    };
    let mut words = text.split('/');
    let mut step = named(words.next().unwrap_or_default(), &mut words)?;
    if let Some(word) = words.next() {
        return Err(format!("it has no use for {word:?}"));
    }
    step.processes = processes.unwrap_or(step.processes);
    Ok(step)
}

fn named<'a>(name: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<Step, String> {
    Ok(match name {
        "answer" => Step::working(Way::Answer),
        "answer-late" => Step { answer_after: millis(words)?, ..Step::working(Way::Answer) },
        "process-late" => Step { process_after: millis(words)?, ..Step::working(Way::Answer) },
        "close-idle" => Step::working(Way::CloseIdle),
        "drop-before" => Step::idle(Way::Close),
        "drop-after" => Step::working(Way::Close),
        "half" => Step::working(Way::Half),
        "half-chunked" => Step::working(Way::HalfChunked),
        "reset" => Step::working(Way::Reset),
        "hang" => Step::working(Way::Hang),
        "bad" => Step::working(Way::Bad),
        "status" => {
            let status = status(words.next())?;
            let processes = (200..300).contains(&status);
            Step { processes, ..Step::working(Way::Status(status)) }
        }
        "retry-after" => {
            let seconds = number(words.next(), "seconds")?;
            let status = words.next().map_or(Ok(503), |word| status(Some(word)))?;
            Step::idle(Way::RetryAfter { seconds, status })
        }
        "retry-date" => {
            let seconds = number(words.next(), "seconds")?;
            let status = words.next().map_or(Ok(503), |word| status(Some(word)))?;
            Step::idle(Way::RetryDate { seconds, status })
        }
        "huge" => Step::working(Way::Huge(number(words.next(), "bytes")?)),
        "slow" => {
            let bytes = number(words.next(), "bytes")?;
            Step::working(Way::Slow { bytes, pause: millis(words)? })
        }
        "echo" => Step::working(Way::Echo),
        _ => return Err(format!("there is no behaviour {name:?}")),
    })
}

fn redirect(rest: &str) -> Result<Step, String> {
    let (code, to) = rest.split_once('/').ok_or("a redirect needs a path")?;
    let to = percent_decoded(to);
    let location = if to.contains("://") { to } else { format!("/{to}") };
    if location.chars().any(char::is_control) {
        return Err("a header has no place for control characters".to_owned());
    }
    Ok(Step::idle(Way::Redirect { status: status(Some(code))?, location }))
}

fn status(word: Option<&str>) -> Result<u16, String> {
    let status = number(word, "a status")?;
    match STATUSES.contains(&status) {
        true => Ok(status),
        false => Err(format!("{status} ends no request")),
    }
}

fn millis<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Duration, String> {
    number(words.next(), "milliseconds").map(Duration::from_millis)
}

fn number<T: std::str::FromStr>(word: Option<&str>, what: &str) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("it needs {what}"))?;
    word.parse().map_err(|_| format!("it needs {what}, and {word:?} is not"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str) -> Step {
        Plan::of(path).step(1).clone()
    }

    #[test]
    fn each_says_whether_it_has_its_effect() {
        let processes = |text: &str| one(&format!("/do/{text}")).processes;
        for text in ["answer", "drop-after", "half", "reset", "hang", "bad", "status/204", "echo"] {
            assert!(processes(text), "{text}");
            assert!(!processes(&format!("{text}/unprocessed")), "{text}");
        }
        for text in ["drop-before", "status/502", "status/504", "retry-after/1/429", "retry-date/1"]
        {
            assert!(!processes(text), "{text}");
            assert!(processes(&format!("{text}/processed")), "{text}");
        }
    }

    #[test]
    fn the_last_of_a_sequence_is_repeated() {
        let plan = Plan::of("/do/seq/status/503/processed,keyed/drop-after,answer?q");
        let ways: Vec<_> = (1..=5).map(|nth| plan.step(nth).way.clone()).collect();
        use Way::{Answer, Close, Status};
        assert_eq!(ways, [Status(503), Close, Answer, Answer, Answer]);
        assert!(plan.step(1).processes);
        assert_eq!(plan.step(1).memory, Memory::None);
        assert_eq!(plan.step(2).memory, Memory::Keyed);
        assert_eq!(plan.step(3).memory, Memory::None);
        let all = Plan::of("/do/forget/2/seq/reset,answer");
        assert_eq!(all.step(1).memory, Memory::Forgets(2));
        assert_eq!(all.step(2).memory, Memory::Forgets(2));
        assert_eq!(one("/do/forget").memory, Memory::Forgets(1));
        assert_eq!(one("/do/keyed").way, Answer);
    }

    #[test]
    fn arguments_are_read() {
        assert_eq!(one("/do/answer-late/5").answer_after, Duration::from_millis(5));
        assert_eq!(one("/do/process-late/5").process_after, Duration::from_millis(5));
        assert_eq!(one("/do/lookup/a%2fb/c,d").way, Way::Lookup("a/b/c,d".into()));
        let to = |location: &str| Way::Redirect { status: 307, location: location.into() };
        assert_eq!(one("/do/redirect/307/do/answer").way, to("/do/answer"));
        assert_eq!(one("/do/redirect/307/http%3A%2F%2Fa.b/c").way, to("http://a.b/c"));
        assert_eq!(one("/do/retry-date/-9/429").way, Way::RetryDate { seconds: -9, status: 429 });
        assert_eq!(one("/elsewhere").way, Way::NotFound);
    }

    #[test]
    fn nonsense_is_not_taken_for_something() {
        for text in [
            "",
            "answers",
            "answer/1",
            "status",
            "status/x",
            "status/100",
            "status/600",
            "slow/1",
            "huge/-1",
            "seq/",
            "seq/answer,,answer",
            "seq/seq/answer",
            "keyed/keyed",
            "forget/0",
            "redirect/302",
            "redirect/302/a%0Ab",
            "answer/processed/unprocessed",
            "lookup",
        ] {
            let way = one(&format!("/do/{text}")).way;
            assert!(matches!(way, Way::Unknown(_)), "{text}: {way:?}");
        }
    }
}
