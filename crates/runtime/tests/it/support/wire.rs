//! A wire for tests of what the engine makes of an attempt: it counts what is sent, and ends each
//! attempt as its URL says, or when the test says. The network itself is in other tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use indelible_http::{Attempt, End, Report, Response, Sender};

/// What was sent, and what is not over.
#[derive(Default)]
pub struct Wire(Mutex<State>);

#[derive(Default)]
struct State {
    sent: Vec<Attempt>,
    /// How many of them left the machine.
    left: usize,
    counts: HashMap<String, usize>,
    open: Vec<(Attempt, Report)>,
    /// Nothing leaves: what is handed over stays where it is.
    stuck: bool,
    /// Attempts end when the test says so, as their URLs say.
    waits: bool,
    /// How often a request was processed, for those who ask; none: they are not answered.
    processed: Option<u32>,
}

impl Wire {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many requests were sent.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap().sent.len()
    }

    /// How many requests left the machine: what could not be sent, or was not allowed, did not.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap().left
    }

    /// Everything that was sent, in order.
    pub fn sent(&self) -> Vec<Attempt> {
        self.0.lock().unwrap().sent.clone()
    }

    /// Ends the oldest attempt that is not over. False: there is none.
    pub fn end(&self, end: End) -> bool {
        let mut state = self.0.lock().unwrap();
        if state.open.is_empty() {
            return false;
        }
        let (_, mut report) = state.open.remove(0);
        drop(state);
        report(end);
        true
    }

    /// Ends the oldest attempt, and can still say more of it.
    pub fn end_and_keep(&self, end: End) -> Report {
        let (_, mut report) = self.0.lock().unwrap().open.remove(0);
        report(end);
        report
    }

    /// What is handed over does not leave, and is never heard of again.
    pub fn get_stuck(&self, stuck: bool) {
        self.0.lock().unwrap().stuck = stuck;
    }

    /// Attempts end when the test says so, as their URLs say.
    pub fn wait(&self, waits: bool) {
        self.0.lock().unwrap().waits = waits;
    }

    /// A reconciler that looks up a request is told that it was processed so often.
    pub fn knows(&self, processed: u32) {
        self.0.lock().unwrap().processed = Some(processed);
    }

    /// Ends the oldest attempt as its URL says.
    pub fn go_on(&self) {
        let (attempt, mut report) = self.0.lock().unwrap().open.remove(0);
        let step = attempt.request.url.rsplit('/').next().unwrap().split(',').next().unwrap();
        report(ends(step).unwrap());
    }

    /// How many attempts are not over.
    pub fn open(&self) -> usize {
        self.0.lock().unwrap().open.len()
    }

    /// The process that waited for them is gone.
    pub fn cut(&self) {
        let open = std::mem::take(&mut self.0.lock().unwrap().open);
        drop(open);
    }
}

/// An answer with this status.
pub fn answer(status: u16) -> Response {
    Response { status, headers: Vec::new(), body: Bytes::from_static(b"done") }
}

pub fn answered(status: u16) -> End {
    End::Answered(answer(status))
}

pub fn unknown() -> End {
    End::Unknown { why: "the connection was closed".to_owned(), timed_out: false }
}

pub fn timed_out() -> End {
    End::Unknown { why: "no answer in time".to_owned(), timed_out: true }
}

pub fn not_sent() -> End {
    End::NotSent { why: "connection refused".to_owned() }
}

pub fn refused() -> End {
    End::Refused { why: "the host is not allowed".to_owned() }
}

/// What a step of a URL's path says; none: the attempt stays open.
fn ends(step: &str) -> Option<End> {
    Some(match step {
        "open" => return None,
        "unknown" => unknown(),
        "late" => timed_out(),
        "unsent" => not_sent(),
        "refused" => refused(),
        "large" => End::TooLarge(Response { body: Bytes::new(), ..answer(200) }),
        "soon" => {
            let headers = vec![("retry-after".to_owned(), Bytes::from_static(b"7"))];
            End::Answered(Response { headers, ..answer(429) })
        }
        // Anything else stays open, too: a lookup names a key.
        status => return status.parse().ok().map(answered),
    })
}

/// `http://peer/a,b,c`: the first attempt ends as `a` says, the second as `b`, all further as `c`.
impl Sender for Wire {
    fn send(&self, attempt: Attempt, mut report: Report) {
        let mut state = self.0.lock().unwrap();
        if state.stuck {
            state.open.push((attempt, report));
            return;
        }
        if let (Some(count), true) = (state.processed, attempt.request.url.contains("/lookup/")) {
            drop(state);
            let body = format!("{{\"processed\":{count}}}").into();
            return report(End::Answered(Response { body, ..answer(200) }));
        }
        let count = state.counts.entry(attempt.idempotency_key.clone()).or_default();
        let path = attempt.request.url.rsplit('/').next().unwrap().to_owned();
        let steps: Vec<&str> = path.split(',').collect();
        let end = ends(steps[(*count).min(steps.len() - 1)]);
        *count += 1;
        state.left += usize::from(!matches!(end, Some(End::NotSent { .. } | End::Refused { .. })));
        let end = end.filter(|_| !state.waits);
        state.sent.push(attempt.clone());
        match end {
            Some(end) => {
                drop(state);
                report(end);
            }
            None => state.open.push((attempt, report)),
        }
    }
}
