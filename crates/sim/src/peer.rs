//! The peer of HTTP effects, and the wire to it. A request of the engine stays on the wire until
//! the simulation moves it: it may never leave, or arrive; be processed or not; be answered or not,
//! in time or late. The peer outlives the process that asked it: a request on the wire when the
//! process dies may still arrive.
//!
//! An address says what becomes of each request of its key: `http://peer/cut,busy,ok` loses the
//! first, refuses the second for now, and answers the third and all that follow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use indelible_http::{Attempt as EffectSend, End, Report, Response, Sender};
use indelible_journal::{Attempt, JournalKey, Micros, Timestamp};
use indelible_runtime::world::Clock as _;

use crate::Rng;
use crate::disk::Disk;
use crate::transcript::Transcript;
use crate::world::SimClock;

/// The longest that a request is on the wire. Reconcilers' settle times are longer: the program
/// that declares one has to see to that (D5).
pub(crate) const ON_WIRE_MAX: Micros = Micros::from_secs(30);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The peer answers with this status.
    Answered { status: u16, processed: bool },
    /// The peer answers 429 and asks for a pause of seven seconds.
    Busy,
    /// It arrives, and its answer does not.
    Lost { processed: bool },
    /// It provably never leaves.
    Unsent,
    /// The sender does not allow it.
    Refused,
    /// It is processed, and the answer exceeds the size limit.
    Large,
    /// It is processed, and answered only after its deadline.
    Late,
    /// It arrives, and the peer stays silent until the deadline.
    Hangs { processed: bool },
}

/// The names of fates in addresses.
pub(crate) const FATES: [&str; 16] = [
    "ok", "none", "broken", "lost", "cut", "unsent", "busy", "later", "down", "502", "502p",
    "504p", "large", "refused", "late", "hang",
];

impl Fate {
    fn named(name: &str) -> Self {
        let answered = |status, processed| Self::Answered { status, processed };
        match name {
            "none" => answered(404, false),
            "broken" => answered(500, true),
            "lost" => Self::Lost { processed: true },
            "cut" => Self::Lost { processed: false },
            "unsent" => Self::Unsent,
            "busy" => answered(429, false),
            "later" => Self::Busy,
            "down" => answered(503, false),
            "502" => answered(502, false),
            "502p" => answered(502, true),
            "504p" => answered(504, true),
            "large" => Self::Large,
            "refused" => Self::Refused,
            "late" => Self::Late,
            "hang" => Self::Hangs { processed: false },
            "hangp" => Self::Hangs { processed: true },
            _ => answered(200, true),
        }
    }

    /// Whether it never leaves.
    fn stays(self) -> bool {
        matches!(self, Self::Unsent | Self::Refused)
    }

    fn processed(self) -> bool {
        match self {
            Self::Answered { processed, .. }
            | Self::Lost { processed }
            | Self::Hangs { processed } => processed,
            Self::Large | Self::Late => true,
            Self::Busy | Self::Unsent | Self::Refused => false,
        }
    }

    /// Whether it stays open until its deadline.
    fn waits_for_time(self) -> bool {
        matches!(self, Self::Late | Self::Hangs { .. })
    }
}

/// One attempt that was sent, and the truth about it.
#[derive(Debug, Clone)]
pub(crate) struct SentAttempt {
    /// The journal whose effect it is, found on disk by the key.
    pub(crate) journal: JournalKey,
    pub(crate) child: u32,
    pub(crate) attempt: Attempt,
    pub(crate) key: String,
    /// The process that sent it, counted from 0.
    pub(crate) process: u64,
    pub(crate) arrived: bool,
    pub(crate) processed: bool,
    /// The reports to that process.
    pub(crate) reports: Vec<End>,
}

/// An attempt that is not over.
struct Open {
    sent: usize,
    fate: Fate,
    /// The effect's key that a reconciler's request asks about.
    about: Option<String>,
    /// How its process is told; `None` once that process is gone or has been told.
    report: Option<Report>,
    deadline: Timestamp,
    idem: bool,
    /// Microseconds since it was sent.
    on_wire: u64,
    given_up: bool,
    /// How often the effect it asks about had been processed when it arrived.
    found: u64,
}

#[derive(Default)]
struct State {
    process: u64,
    sent: Vec<SentAttempt>,
    open: Vec<Open>,
    /// How many requests were sent under each key, and about each key.
    counts: BTreeMap<String, usize>,
    processed: BTreeMap<String, u64>,
    wrong: Option<String>,
}

/// The peer and the wire.
pub(crate) struct Peer {
    state: Mutex<State>,
    disk: Arc<Disk>,
    clock: Arc<SimClock>,
    transcript: Arc<Transcript>,
    /// How often a step may pick a request that no process waits for.
    slow_percent: u64,
}

impl Peer {
    pub(crate) fn new(
        disk: Arc<Disk>,
        clock: Arc<SimClock>,
        transcript: Arc<Transcript>,
        slow_percent: u64,
    ) -> Self {
        Self { state: Mutex::default(), disk, clock, transcript, slow_percent }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first rule that the engine broke in sending.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.state().wrong.clone()
    }

    /// Everything that was ever sent.
    pub(crate) fn sent(&self) -> Vec<SentAttempt> {
        self.state().sent.clone()
    }

    /// Which process runs, counted from 0.
    pub(crate) fn process(&self) -> u64 {
        self.state().process
    }

    /// The process is gone: no attempt reports to it any more.
    pub(crate) fn cut(&self) {
        let mut state = self.state();
        state.process += 1;
        let reports: Vec<_> = state.open.iter_mut().map(|open| open.report.take()).collect();
        let sent: Vec<bool> = state.sent.iter().map(|sent| sent.arrived).collect();
        // A request that has not left never will, and one that has arrived has no process to tell.
        // Only requests on the wire stay.
        state.open.retain(|open| !open.fate.stays() && !sent[open.sent]);
        drop(state);
        drop(reports);
    }

    /// The next deadline of an attempt that a process waits for.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let state = self.state();
        let waiting = state.open.iter().filter(|open| open.report.is_some() && !open.given_up);
        waiting.map(|open| open.deadline).min()
    }

    /// Time is about to pass: requests that would be on the wire for too long arrive first.
    pub(crate) fn pass(&self, time: Micros) {
        let mut state = self.state();
        let state = &mut *state;
        for open in &mut state.open {
            let sent = &mut state.sent[open.sent];
            open.on_wire = open.on_wire.saturating_add(time.get());
            if open.on_wire > ON_WIRE_MAX.get() && !sent.arrived && !open.fate.stays() {
                arrives(&self.transcript, open, sent, &mut state.processed);
            }
        }
        state.open.retain(|open| open.report.is_some() || !state.sent[open.sent].arrived);
    }

    /// Everything that is on the wire arrives.
    pub(crate) fn arrive(&self) {
        self.pass(Micros::new(u64::MAX));
    }

    /// Moves one request that may move. False: none may before time passes.
    pub(crate) fn step(&self, rng: &mut Rng) -> bool {
        let mut state = self.state();
        let state_now = &mut *state;
        let now = self.clock.now();
        // Requests that no process waits for mostly move late, so that other things happen first.
        let slow_too = rng.percent(self.slow_percent);
        let may_move = |open: &Open| {
            let slow = open.given_up || open.report.is_none();
            let arrived = state_now.sent[open.sent].arrived;
            let answers = open.given_up || !open.fate.waits_for_time();
            (slow_too || !slow) && (!arrived || answers || now >= open.deadline)
        };
        let places: Vec<usize> =
            (0..state_now.open.len()).filter(|place| may_move(&state_now.open[*place])).collect();
        if places.is_empty() {
            return false;
        }
        let place = *rng.pick(&places);
        let State { open: all, sent, processed, .. } = state_now;
        let open = &mut all[place];
        let is = &mut sent[open.sent];
        let waiting = open.report.is_some() && !open.given_up && !open.fate.stays();
        let overdue = waiting && now >= open.deadline;
        let end = if overdue && (rng.percent(40) || (is.arrived && open.fate.waits_for_time())) {
            open.given_up = true;
            Some(End::Unknown { why: "no answer in time".to_owned(), timed_out: true })
        } else if !is.arrived && !open.fate.stays() {
            // A request whose process is gone may be lost on the way.
            if open.report.is_some() || rng.percent(60) {
                arrives(&self.transcript, open, is, processed);
            }
            if open.report.is_some() {
                return true;
            }
            None
        } else {
            Some(ends(open))
        };
        // After the timeout is reported, only an answer is still reported.
        let end = end.filter(|end| is.reports.is_empty() || matches!(end, End::Answered(_)));
        let Some(end) = end else {
            let gone = all.remove(place);
            drop(state);
            drop(gone);
            return true;
        };
        let listens = open.given_up && !open.idem && is.reports.is_empty();
        is.reports.push(end.clone());
        self.transcript.say(format_args!("  wire: request {} ends: {}", open.sent, shown(&end)));
        let mut report = open.report.take();
        let number = open.sent;
        if !listens && is.arrived {
            all.remove(place);
        }
        drop(state);
        if let Some(report) = &mut report {
            report(end);
        }
        if listens {
            let mut state = self.state();
            if let Some(open) = state.open.iter_mut().find(|open| open.sent == number) {
                open.report = report;
            }
        }
        true
    }
}

fn arrives(
    transcript: &Transcript,
    open: &mut Open,
    sent: &mut SentAttempt,
    processed: &mut BTreeMap<String, u64>,
) {
    sent.arrived = true;
    sent.processed = open.fate.processed();
    if let Some(key) = &open.about {
        open.found = processed.get(key).copied().unwrap_or_default();
    }
    if sent.processed {
        *processed.entry(sent.key.clone()).or_default() += 1;
    }
    let word = if sent.processed { "is processed" } else { "arrives" };
    transcript.say(format_args!("  peer: attempt {} at {} {word}", sent.attempt, place(sent)));
}

/// An effect by its place in the tree.
fn place(sent: &SentAttempt) -> String {
    format!("{:#}.{}", sent.journal, sent.child)
}

/// The report of an attempt that has arrived, or never will.
fn ends(open: &Open) -> End {
    let body = match &open.about {
        Some(_) => format!("{{\"processed\":{}}}", open.found),
        None => format!("{{\"sent\":{}}}", open.sent),
    };
    let answer = |status| Response { status, headers: Vec::new(), body: body.into() };
    match open.fate {
        Fate::Answered { status, .. } => End::Answered(answer(status)),
        Fate::Late => End::Answered(answer(200)),
        Fate::Busy => {
            let headers = vec![("retry-after".to_owned(), Bytes::from_static(b"7"))];
            End::Answered(Response { headers, ..answer(429) })
        }
        Fate::Lost { .. } | Fate::Hangs { .. } => {
            End::Unknown { why: "the connection was closed".to_owned(), timed_out: false }
        }
        Fate::Unsent => End::NotSent { why: "connection refused".to_owned() },
        Fate::Refused => End::Refused { why: "that host is not allowed".to_owned() },
        Fate::Large => End::TooLarge(Response { body: Bytes::new(), ..answer(200) }),
    }
}

fn shown(end: &End) -> String {
    match end {
        End::Answered(response) => format!("answered {}", response.status),
        End::TooLarge(_) => "too large".to_owned(),
        End::NotSent { .. } => "not sent".to_owned(),
        End::Refused { .. } => "refused".to_owned(),
        End::Unknown { why, .. } => why.clone(),
    }
}

impl Sender for Peer {
    fn send(&self, attempt: EffectSend, report: Report) {
        let EffectSend { request, idempotency_key: key, timeout, idem, .. } = attempt;
        let whose = self.disk.in_flight(&key);
        let mut state = self.state();
        let (journal, child, attempt) = match whose.as_slice() {
            [one] => one.clone(),
            all => {
                let wrong = format!(
                    "{} {} left, and {} attempts are on disk that it could be",
                    request.method,
                    request.url,
                    all.len()
                );
                state.wrong.get_or_insert(wrong);
                drop(state);
                return drop(report);
            }
        };
        let again = state
            .sent
            .iter()
            .any(|sent| sent.journal == journal && sent.child == child && sent.attempt == attempt);
        if again {
            let wrong = format!("attempt {attempt} at {journal:#}.{child} was sent twice");
            state.wrong.get_or_insert(wrong);
        }
        let rest = request.url.strip_prefix("http://peer/").unwrap_or_default();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let about = query.strip_prefix("of=").map(str::to_owned);
        let counted = about.as_ref().map_or_else(|| key.clone(), |about| format!("of {about}"));
        let count = state.counts.entry(counted).or_default();
        let names: Vec<&str> = path.split(',').collect();
        let fate = Fate::named(names[(*count).min(names.len() - 1)]);
        *count += 1;
        let timeout = Micros::new(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX));
        let process = state.process;
        let sent = SentAttempt {
            journal,
            child,
            attempt,
            key,
            process,
            arrived: false,
            processed: false,
            reports: Vec::new(),
        };
        let number = state.sent.len();
        self.transcript.say(format_args!(
            "  wire: request {number}, attempt {attempt} at {}: {fate:?}",
            place(&sent)
        ));
        state.sent.push(sent);
        state.open.push(Open {
            sent: number,
            fate,
            about,
            report: Some(report),
            deadline: self.clock.now().saturating_add(timeout),
            idem,
            on_wire: 0,
            given_up: false,
            found: 0,
        });
    }
}
