//! The way of one attempt, from what a guest wants to how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indelible_http::{Attempt, End, Report, Response};
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::Inner;
use crate::connect::ConnectError;
use crate::exchange::{InFlightRequest, Outcome, exchange};
use crate::grants::AttemptGrants;
use crate::message::Message;
use crate::pool::{Lease, OriginPool, Permit, Reuse, Shared};
use crate::redirect;
use crate::target::Target;
use crate::wire::Wire;

/// The longest time of an attempt; a longer one is cut. The clock cannot count for ever.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long an attempt waits after its deadline for bytes of the answer. When a stopped process
/// goes on, it finds the deadline passed and the answer arrived at once, and its timers fire first:
/// without this wait the timeout would beat an answer that came in time.
const ARRIVED_WAIT: Duration = Duration::from_millis(50);

/// The longest that an answer which keeps arriving after the deadline is read.
const ARRIVED_WAIT_MAX: Duration = Duration::from_secs(2);

/// The most new connections that one request is tried on. Another is tried only if the last one
/// closed before the first byte.
const NEW_CONNECTIONS_MAX: usize = 3;

/// Reports how an attempt ended. If the attempt's task is dropped with the client, the drop reports
/// it: the engine would wait for ever for an attempt that never reports.
pub(crate) struct Reporter {
    report: Report,
    is_told: bool,
    progress: Arc<Progress>,
}

/// How far an attempt has come, for when it is cut off.
#[derive(Debug, Default)]
struct Progress {
    handed_over: InFlightRequest,
    held: Mutex<AttemptResources>,
}

/// What an attempt gives up when its time is over, even if it still listens for the answer.
#[derive(Debug, Default)]
struct AttemptResources {
    permit: Option<Permit>,
    shared: Option<Arc<Shared>>,
    wire: Option<Arc<Wire>>,
}

impl Progress {
    fn held(&self) -> MutexGuard<'_, AttemptResources> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for other attempts. Requests that share its HTTP/2 connection go on; no new
    /// request may join: the connection may be dead without a sign.
    fn time_over(&self) {
        let AttemptResources { permit, shared, .. } = std::mem::take(&mut *self.held());
        drop(permit);
        if let Some(shared) = shared {
            shared.retire();
        }
    }
}

impl Reporter {
    pub(crate) fn new(report: Report) -> Self {
        Self { report, is_told: false, progress: Arc::default() }
    }

    fn tell(&mut self, end: End) {
        self.is_told = true;
        (self.report)(end);
    }

    /// Reports that the attempt was cut off: unknown if a byte may have left, otherwise not sent.
    fn cut_off(&mut self, why: &str, timed_out: bool) {
        let why = why.to_owned();
        let handed_over = self.progress.handed_over.get();
        self.tell(if handed_over { End::Unknown { why, timed_out } } else { End::NotSent { why } });
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if !self.is_told {
            self.cut_off("the client was stopped", false);
        }
    }
}

/// Makes the attempt.
pub(crate) async fn run(inner: Arc<Inner>, attempt: Attempt, mut reporter: Reporter) {
    let now = Instant::now();
    let deadline = now + attempt.timeout.min(TIMEOUT_MAX);
    let (mut message, target, granted) = match prepare(&inner, &attempt) {
        Ok(ready) => ready,
        Err(why) => return reporter.tell(End::Refused { why }),
    };
    let progress = reporter.progress.clone();
    let course = AttemptContext {
        inner: &inner,
        granted: &granted,
        progress: &progress,
        deadline,
        body_max: attempt.response_bytes_max,
        idem: attempt.idem,
    };
    let mut way = std::pin::pin!(course.follow(&mut message, target));
    let ended = match timeout_at(deadline, &mut way).await {
        Ok(ended) => Some(ended),
        Err(_) => arrived(&progress, way.as_mut()).await,
    };
    let Some((end, lease)) = ended else {
        reporter.cut_off("the time limit passed", true);
        progress.time_over();
        if !attempt.idem && progress.handed_over.get() {
            listen_on(&inner, way, &mut reporter).await;
        }
        return;
    };
    reporter.tell(end);
    if let Some((place, lease)) = lease {
        inner.pool.give_back(&place, lease).await;
    }
}

fn prepare(inner: &Inner, attempt: &Attempt) -> Result<(Message, Target, AttemptGrants), String> {
    let granted = inner.grants().of(&attempt.components)?;
    let target = Target::parse(&attempt.request.url)?;
    granted.host(&target.origin)?;
    let message = Message::new(attempt, &target, &granted, &inner.vault)?;
    Ok((message, target, granted))
}

type EndedAttempt = (End, Option<(Arc<OriginPool>, Lease)>);

/// An answer that has arrived when the deadline passes is in time: reads on while bytes keep
/// coming.
async fn arrived(
    progress: &Progress,
    mut way: std::pin::Pin<&mut impl Future<Output = EndedAttempt>>,
) -> Option<EndedAttempt> {
    let until = Instant::now() + ARRIVED_WAIT_MAX;
    loop {
        // A request that is not handed over yet has no answer, and must not leave any more.
        let wire = progress.held().wire.clone().filter(|_| progress.handed_over.get())?;
        let heard = wire.heard();
        if let Ok(ended) = timeout(ARRIVED_WAIT, way.as_mut()).await {
            return Some(ended);
        }
        if wire.heard() == heard || Instant::now() >= until {
            return None;
        }
    }
}

/// Waits, within bounds, for an answer after the deadline, and reports it if it is complete.
async fn listen_on(
    inner: &Inner,
    way: std::pin::Pin<&mut impl Future<Output = EndedAttempt>>,
    reporter: &mut Reporter,
) {
    let Ok(_room) = inner.late_listeners.try_acquire() else { return };
    let Ok((end, lease)) = timeout(inner.bounds.late_answer_max, way).await else { return };
    if matches!(end, End::Answered(_) | End::TooLarge(_)) {
        reporter.tell(end);
    }
    if let Some((place, lease)) = lease {
        inner.pool.give_back(&place, lease).await;
    }
}

/// What stays the same for one attempt.
#[derive(Clone, Copy)]
struct AttemptContext<'a> {
    inner: &'a Inner,
    granted: &'a AttemptGrants,
    progress: &'a Progress,
    deadline: Instant,
    body_max: usize,
    idem: bool,
}

type SendResult = (Result<Outcome, ConnectError>, Arc<OriginPool>, Option<Lease>);

impl AttemptContext<'_> {
    /// Sends the request, and follows redirections.
    async fn follow(self, message: &mut Message, mut target: Target) -> EndedAttempt {
        let Self { inner, granted, progress, deadline, .. } = self;
        let mut hops = 0;
        let mut last: Option<Response> = None;
        loop {
            let (outcome, place, lease) = self.send(message, &target).await;
            let redact = |mut response: Response| {
                message.used.redact(&mut response);
                response
            };
            let why = |why: String| message.used.redact_text(why);
            let response = match outcome {
                Ok(Outcome::Answered(response)) => response,
                // The rest of the body is still on its way, so the connection cannot be reused.
                Ok(Outcome::TooLarge(response)) => return (End::TooLarge(redact(response)), None),
                Ok(Outcome::Unknown(text)) => {
                    return (End::Unknown { why: why(text), timed_out: false }, None);
                }
                Err(ConnectError::Refused(text)) => {
                    // A redirection that is not followed is the answer.
                    let end = match last {
                        Some(response) => End::Answered(response),
                        None => End::Refused { why: why(text) },
                    };
                    return (end, None);
                }
                Ok(Outcome::HandedBack(text)) | Err(ConnectError::Failed(text)) => {
                    return (not_sent(progress, why(text)), None);
                }
                Ok(Outcome::StreamRefused) => {
                    let text = "the peer refused the stream".to_owned();
                    return (not_sent(progress, text), None);
                }
            };
            let next = if message.may_follow() && hops < inner.bounds.redirects_max {
                redirect::next(&response, &target, granted)
            } else {
                None
            };
            let response = redact(response);
            let connection = lease.map(|lease| (place, lease));
            let Some(next) = next else { return (End::Answered(response), connection) };
            if Instant::now() >= deadline {
                // After the deadline the attempt only listens. A redirection is no answer, and
                // following it would send another request.
                let why = "a redirect came too late to be followed".to_owned();
                return (End::Unknown { why, timed_out: true }, connection);
            }
            if let Some((place, lease)) = connection {
                inner.pool.give_back(&place, lease).await;
            }
            if next.origin != target.origin {
                message.change_origin();
            }
            last = Some(response);
            target = next;
            hops += 1;
        }
    }

    /// Sends the request once. Tries further connections only while not one byte has left.
    async fn send(self, message: &Message, target: &Target) -> SendResult {
        let Self { inner, granted, progress, deadline, body_max, idem } = self;
        let place = inner.pool.place(&target.origin);
        // Give up what the last hop held before waiting: otherwise two attempts could wait for each
        // other's permit.
        *progress.held() = AttemptResources::default();
        let permit = inner.pool.permit(&place).await;
        progress.held().permit = Some(permit);
        let mut reuse = if idem { Reuse::Any } else { Reuse::Recent };
        let mut new_connections = 0;
        loop {
            let pool = &inner.pool;
            let leased = pool
                .lease(&place, &target.origin, granted, reuse, &inner.connector, deadline)
                .await;
            let mut lease = match leased {
                Ok(lease) => lease,
                Err(error) => return (Err(error), place, None),
            };
            let outgoing = match message.outgoing(target, lease.reach()) {
                Ok(outgoing) => outgoing,
                Err(why) => return (Err(ConnectError::Refused(why)), place, None),
            };
            {
                let mut held = progress.held();
                held.shared = lease.shared();
                held.wire = Some(lease.wire().clone());
            }
            new_connections += usize::from(lease.is_new());
            if !idem {
                lease.guard(&inner.bounds, new_connections == NEW_CONNECTIONS_MAX);
            }
            let outcome = exchange(outgoing, &mut lease, &progress.handed_over, body_max).await;
            match outcome {
                // Not one byte left, and there is time: another connection may carry the request.
                // An `idem` request goes through the open ones. Any other goes to a new one at
                // once: the open ones are older than the one just found closing.
                Outcome::HandedBack(_)
                    if Instant::now() < deadline
                        && (!lease.is_new() || new_connections < NEW_CONNECTIONS_MAX) =>
                {
                    if !idem {
                        reuse = Reuse::Never;
                    }
                }
                Outcome::Answered(_) => return (Ok(outcome), place, Some(lease)),
                _ => return (Ok(outcome), place, None),
            }
        }
    }
}

/// Not sent, provably; unless an earlier hop of the redirection was sent.
fn not_sent(progress: &Progress, why: String) -> End {
    if progress.handed_over.get() {
        End::Unknown { why: format!("redirect target: {why}"), timed_out: false }
    } else {
        End::NotSent { why }
    }
}
