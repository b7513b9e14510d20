//! A function that was started: waiting for what comes of it.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use http::StatusCode;
use indelible_api::call::{StillRunning, Verdict};
use indelible_api::{Code, Problem};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::{CallError, FunctionError, InFlight};
use crate::id::{Identity, fraction};
use crate::reply::Reply;
use crate::request::Request;
use crate::send::{Answer, NoAnswer, Refusal};

/// How long the server is asked to wait at a time: shorter than proxies let a connection be silent.
const POLL_WAIT_MAX: Duration = Duration::from_secs(30);

/// An execution, and what is known of how it was started.
pub struct Handle<Out> {
    client: Client,
    execution_id: String,
    operation_id: Option<String>,
    verdict: Option<Verdict>,
    out: PhantomData<fn() -> Out>,
}

impl<Out> Clone for Handle<Out> {
    fn clone(&self) -> Self {
        let (execution_id, operation_id) = (self.execution_id.clone(), self.operation_id.clone());
        Self { client: self.client.clone(), execution_id, operation_id, ..*self }
    }
}

impl<Out> fmt::Debug for Handle<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("execution_id", &self.execution_id)
            .field("operation_id", &self.operation_id)
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}

impl<Out> Handle<Out> {
    /// The execution: with it, another program can attach.
    pub fn execution_id(&self) -> &str {
        &self.execution_id
    }

    /// The operation, unless the handle was made of an execution's id alone.
    pub fn operation_id(&self) -> Option<&str> {
        self.operation_id.as_deref()
    }

    /// The verdict on the request, unless the handle was made of an execution's id alone.
    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

impl<Out: DeserializeOwned> Handle<Out> {
    pub(crate) fn new(
        client: Client,
        execution_id: String,
        operation_id: Option<String>,
        verdict: Option<Verdict>,
    ) -> Self {
        Self { client, execution_id, operation_id, verdict, out: PhantomData }
    }

    pub(crate) fn attached(client: Client, execution_id: String) -> Self {
        Self::new(client, execution_id, None, None)
    }

    /// Waits until the execution is over, for as long as that takes.
    pub async fn outcome(&self) -> Result<Out, CallError<Out>> {
        self.reply().await?.read().map_err(CallError::Output)
    }

    /// Waits for at most this long; then it is [`CallError::StillRunning`]. The server counts in
    /// whole seconds.
    pub async fn outcome_within(&self, wait: Duration) -> Result<Out, CallError<Out>> {
        self.reply_within(wait).await?.read().map_err(CallError::Output)
    }

    /// As [`Self::outcome`], with all that the server says, and before it is read as a type.
    pub async fn reply(&self) -> Result<Reply, CallError<Out>> {
        self.wait_until(None).await
    }

    /// As [`Self::outcome_within`], with all that the server says, and before it is read as a type.
    pub async fn reply_within(&self, wait: Duration) -> Result<Reply, CallError<Out>> {
        self.wait_until(Instant::now().checked_add(wait)).await
    }

    /// Asks for the outcome until it is there. Where to ask follows from the ids, never from a
    /// `Location`, which could lead the token elsewhere.
    ///
    /// If the execution is not found, its operation is asked for: retention may have deleted the
    /// execution, and the operation's record still has the outcome (see V-31). A caller that is
    /// told only "not found" could run it again under another name.
    pub(crate) async fn wait_until(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Reply, CallError<Out>> {
        let retries = &self.client.inner.retries;
        let mut early = 0_u32;
        let mut gone = None;
        loop {
            let wait = poll_wait(deadline);
            let query = vec![("wait", seconds(wait))];
            let uri = match (&gone, &self.operation_id) {
                (Some(_), Some(operation)) => {
                    let segments = ["operations", operation, "outcome"];
                    self.client.uri(&segments, &self.client.scoped(query))
                }
                _ => self.client.uri(&["executions", &self.execution_id, "outcome"], &query),
            };
            let mut request = Request::get(uri.map_err(CallError::Invalid)?);
            request.timeout = Some(wait.saturating_add(self.client.inner.timeouts.answer));
            let asked = Instant::now();
            let answer = self.client.inner.ask(&request).await?;
            match answer.status {
                StatusCode::OK => {
                    let reply = Reply::of(&answer).map_err(CallError::Malformed)?;
                    return Ok(Reply { verdict: self.verdict, ..reply });
                }
                StatusCode::ACCEPTED => {
                    let _: StillRunning = answer.read().map_err(CallError::Malformed)?;
                }
                _ => match (self.failed(answer), gone) {
                    (CallError::Refused(problem), None)
                        if problem.code == Code::NotFound && self.operation_id.is_some() =>
                    {
                        gone = Some(problem);
                        continue;
                    }
                    // A server without this path says less than the first answer did, so the first
                    // is returned.
                    (CallError::Refused(problem), Some(gone)) if is_absent(&problem) => {
                        return Err(CallError::Refused(gone));
                    }
                    (error, _) => return Err(error),
                },
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(CallError::StillRunning(self.clone()));
            }
            // A server that answers without waiting is not asked in a tight loop.
            if asked.elapsed() < wait / 2 {
                early = early.saturating_add(1);
                sleep(retries.delay(early, answer.retry_after(), fraction())).await;
            } else {
                early = 0;
            }
        }
    }

    /// The error of an answer that is not a result. An answer to a request for an outcome has no
    /// verdict: the handle adds that of the start.
    fn failed(&self, answer: Answer) -> CallError<Out> {
        let mut error = CallError::refused(answer);
        let (verdict, operation_id) = match &mut error {
            CallError::Function(failed) => (&mut failed.verdict, &mut failed.operation_id),
            CallError::Cancelled(problem) | CallError::Indeterminate(problem) => {
                (&mut problem.verdict, &mut problem.operation_id)
            }
            _ => return error,
        };
        // The start learned that the operation was over, but not how it had ended.
        *verdict = verdict.or(match self.verdict {
            Some(Verdict::PriorResult) => Some(Verdict::PriorError),
            met => met,
        });
        if operation_id.is_none() {
            operation_id.clone_from(&self.operation_id);
        }
        error
    }
}

/// Whether there is nothing there, or no such path.
fn is_absent(problem: &Problem) -> bool {
    matches!(problem.code, Code::NotFound | Code::NoSuchPath)
}

/// How long the server is asked to wait now.
pub(crate) fn poll_wait(deadline: Option<Instant>) -> Duration {
    deadline.map_or(POLL_WAIT_MAX, |deadline| {
        deadline.saturating_duration_since(Instant::now()).min(POLL_WAIT_MAX)
    })
}

/// Whole seconds, rounded up: rounded down to zero, the client would ask all the time.
pub(crate) fn seconds(wait: Duration) -> String {
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    whole.to_string()
}

impl<Out> CallError<Out> {
    /// The call was accepted, and then its outcome could not be read: the error is about that
    /// execution, and carries the name that leads back to it.
    pub(crate) fn after_acceptance(
        mut self,
        handle: &Handle<Out>,
        identity: Option<Identity>,
    ) -> Self {
        match &mut self {
            Self::Refused(problem) => {
                problem.execution_id.get_or_insert_with(|| handle.execution_id.clone());
            }
            Self::Transport(lost) => {
                (lost.identity, lost.may_have_arrived) = (identity, true);
            }
            Self::Malformed(malformed) => malformed.identity = identity,
            _ => {}
        }
        self
    }

    /// The error of an answer that is not a result.
    pub(crate) fn refused(answer: Answer) -> Self {
        let retry_after = answer.retry_after();
        let nameless = answer.malformed("the function failed without a message");
        match answer.refusal() {
            Refusal::Malformed(malformed) => Self::Malformed(malformed),
            Refusal::Problem(problem) => match problem.code {
                Code::FunctionFailed => match problem.error {
                    Some(error) => Self::Function(FunctionError {
                        kind: error.kind,
                        message: error.message,
                        detail: error.detail,
                        execution_id: problem.execution_id,
                        operation_id: problem.operation_id,
                        verdict: problem.verdict,
                    }),
                    None => Self::Malformed(nameless),
                },
                Code::Cancelled => Self::Cancelled(problem),
                Code::Indeterminate => Self::Indeterminate(problem),
                Code::Conflict => Self::Conflict(problem),
                Code::Mismatch => Self::Mismatch(problem),
                Code::Expired => Self::Expired(problem),
                Code::InFlight => Self::InFlight(InFlight { problem, retry_after }),
                _ => Self::Refused(problem),
            },
        }
    }
}

impl<Out> From<NoAnswer> for CallError<Out> {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Lost(lost) => Self::Transport(lost),
            NoAnswer::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server counts in seconds, and never in fewer than the caller has.
    #[test]
    fn seconds_are_rounded_up() {
        let text = |millis| seconds(Duration::from_millis(millis));
        assert_eq!([text(0), text(1), text(1000), text(1001)], ["0", "1", "1", "2"]);
    }
}
