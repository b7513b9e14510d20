//! What the peer does with an arrival, read from its documentation a second time: what the test
//! compares with must not be what it tests.

/// What the peer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    /// The status of a complete answer; none: no complete answer comes.
    pub(crate) status: Option<u16>,
    /// Whether the request has its effect.
    pub(crate) processes: bool,
}

/// What happens to the `nth` arrival (from 1) of a request with this URL.
pub(crate) fn of(url: &str, nth: usize) -> Fate {
    let (_, text) = url.split_once("/do/").expect("only such are sent");
    // Only whether a repeated request is processed: those of one attempt each are not repeated.
    let text = ["keyed/", "forget/"]
        .iter()
        .fold(text, |text, memory| text.strip_prefix(memory).unwrap_or(text));
    let steps: Vec<&str> = match text.strip_prefix("seq/") {
        Some(list) => list.split(',').collect(),
        None => vec![text],
    };
    step(steps[(nth - 1).min(steps.len() - 1)])
}

fn step(step: &str) -> Fate {
    let mut words: Vec<&str> = step.split('/').collect();
    let told = match words.last() {
        Some(&"processed") => Some(true),
        Some(&"unprocessed") => Some(false),
        _ => None,
    };
    if told.is_some() {
        words.pop();
    }
    let (status, usually) = match words[..] {
        ["answer" | "echo" | "close-idle"] | ["answer-late" | "process-late", _] => {
            (Some(200), true)
        }
        ["lookup", _] => (Some(200), false),
        ["drop-before"] => (None, false),
        ["drop-after" | "reset" | "half" | "half-chunked" | "bad" | "hang"] => (None, true),
        ["status", status] => {
            let status: u16 = status.parse().unwrap();
            (Some(status), (200..300).contains(&status))
        }
        ["retry-after", _, status] => (Some(status.parse().unwrap()), false),
        _ => panic!("nobody said what {step} does"),
    };
    Fate { status, processes: told.unwrap_or(usually) }
}
