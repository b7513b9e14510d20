//! Sends a request until there is a final answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use indelible_api::call::Verdict;
use indelible_api::{Code, Problem, header, problem};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use crate::client::Inner;
use crate::error::{Cause, Error, Lost, Malformed};
use crate::id::{Identity, fraction, until};
use crate::request::Request;
use crate::retry::{Repeat, is_final, may_have_arrived, retry_after, speaks_of_operation};

/// A final answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) identity: Option<Identity>,
    problem: Option<Box<Problem>>,
}

/// Why there is no final answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    Lost(Lost),
    Malformed(Malformed),
}

/// A problem document as one of the errors that every group of requests has.
#[derive(Debug)]
pub(crate) enum Refusal {
    Problem(Box<Problem>),
    Malformed(Malformed),
}

/// How the attempts at one request went so far.
#[derive(Debug)]
pub(crate) struct Trial {
    since: Instant,
    pub(crate) attempts: u32,
    /// Whether an attempt may have had an effect that no answer has settled.
    uncertain: bool,
}

impl Trial {
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), attempts: 0, uncertain: false }
    }

    /// Waits before the next attempt. False: there is no next attempt.
    pub(crate) async fn again(
        &self,
        inner: &Inner,
        cause: &Cause,
        asked: Option<Duration>,
    ) -> bool {
        let retries = &inner.retries;
        if self.attempts >= retries.attempts_max {
            return false;
        }
        let delay = retries.delay(self.attempts, asked, fraction());
        if self.since.elapsed() + delay > retries.total {
            return false;
        }
        if let Some(told) = &inner.on_repeat {
            told(&Repeat { attempts: self.attempts, delay, cause });
        }
        sleep(delay).await;
        true
    }
}

impl Inner {
    /// Sends it, repeatedly if it may be repeated, and returns the final answer.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Answer, NoAnswer> {
        let mut trial = Trial::start();
        loop {
            trial.attempts += 1;
            let (cause, asked) = match self.attempt(request).await {
                Ok(answer) => match weigh(request, answer, &mut trial) {
                    AttemptVerdict::Counts(answer) => return Ok(answer),
                    AttemptVerdict::Again(cause, asked) => (cause, asked),
                    AttemptVerdict::Never(cause) => return Err(lost(&trial, request, cause)),
                },
                Err(Failure::Malformed(malformed)) => return Err(NoAnswer::Malformed(malformed)),
                Err(Failure::Cause(cause)) => {
                    trial.uncertain |= !matches!(cause, Cause::Connect(_));
                    (cause, None)
                }
            };
            if trial.attempts == 1 {
                // The time spent waiting for the server does not count towards the time for
                // repeating.
                trial.since = Instant::now();
            }
            if !request.repeatable || !trial.again(self, &cause, asked).await {
                return Err(lost(&trial, request, cause));
            }
        }
    }

    /// One request on the wire, and its whole answer.
    async fn attempt(&self, request: &Request) -> Result<Answer, Failure> {
        let time = request.timeout.unwrap_or(self.timeouts.answer);
        let whole = async {
            let response = self.send(request).await?;
            self.collect(request, response).await
        };
        timeout(time, whole).await.map_err(|_| Failure::Cause(Cause::TimedOut(time)))?
    }

    /// The rest of an answer, within its bound.
    pub(crate) async fn collect(
        &self,
        request: &Request,
        response: Response<Incoming>,
    ) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.answer_bytes_max).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let what = format!("its body is larger than {} bytes", self.answer_bytes_max);
                Failure::Malformed(request.malformed(head.status, what))
            } else {
                Failure::Cause(Cause::Broken(error))
            }
        })?;
        let mut answer = Answer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
            identity: request.identity.clone(),
            problem: None,
        };
        answer.problem = answer.read_problem();
        Ok(answer)
    }

    /// One request on the wire, and the head of its answer.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response<Incoming>, Failure> {
        let mut message = http::Request::new(Full::new(request.body.clone()));
        *message.method_mut() = request.method.clone();
        *message.uri_mut() = request.uri.clone();
        *message.headers_mut() = request.headers.clone();
        if let Some(authorization) = &self.authorization {
            message.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        self.pool.request(message).await.map_err(|error| {
            let connect = error.is_connect();
            let error = Box::new(error);
            Failure::Cause(if connect { Cause::Connect(error) } else { Cause::Broken(error) })
        })
    }
}

/// Why an attempt has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    Cause(Cause),
    Malformed(Malformed),
}

enum AttemptVerdict {
    Counts(Answer),
    Again(Cause, Option<Duration>),
    Never(Cause),
}

/// Whether an answer is final. Records in `trial` whether the request may have had an effect.
fn weigh(request: &Request, answer: Answer, trial: &mut Trial) -> AttemptVerdict {
    let (status, problem) = (answer.status, answer.problem.as_deref());
    if !is_final(status, problem) {
        trial.uncertain |= may_have_arrived(status, problem);
        let asked = answer.retry_after();
        return AttemptVerdict::Again(
            Cause::Unavailable { status, problem: answer.problem },
            asked,
        );
    }
    if status.is_server_error() {
        trial.uncertain |= may_have_arrived(status, problem);
        return AttemptVerdict::Never(Cause::Unavailable { status, problem: answer.problem });
    }
    let changes = request.identity.is_some() || !request.repeatable;
    match answer.problem {
        // This refusal came before the operation was looked up, so it does not tell what became of
        // earlier attempts.
        Some(problem) if changes && trial.uncertain && !speaks_of_operation(problem.code) => {
            AttemptVerdict::Never(Cause::Refused(problem))
        }
        problem => AttemptVerdict::Counts(Answer { problem, ..answer }),
    }
}

fn lost(trial: &Trial, request: &Request, source: Cause) -> NoAnswer {
    let identity = request.identity.clone();
    let (attempts, may_have_arrived) = (trial.attempts, trial.uncertain);
    NoAnswer::Lost(Lost { attempts, may_have_arrived, identity, source })
}

impl Request {
    pub(crate) fn malformed(&self, status: StatusCode, what: impl Into<String>) -> Malformed {
        Malformed { status, what: what.into(), identity: self.identity.clone() }
    }
}

impl Answer {
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_deref()
    }

    pub(crate) fn into_problem(self) -> Option<Box<Problem>> {
        self.problem
    }

    /// The problem document, if the answer is one.
    fn read_problem(&self) -> Option<Box<Problem>> {
        let is_problem = media_type(&self.headers) == Some(problem::MEDIA_TYPE);
        let refused = self.status.is_client_error() || self.status.is_server_error();
        if !refused || !is_problem {
            return None;
        }
        serde_json::from_slice(&self.body).ok().map(Box::new)
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> Malformed {
        let identity = self.identity.clone();
        Malformed { status: self.status, what: what.into(), identity }
    }

    /// Its body.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Malformed> {
        if media_type(&self.headers) != Some("application/json") {
            return Err(self.malformed("its body is not JSON"));
        }
        serde_json::from_slice(&self.body).map_err(|error| self.malformed(error.to_string()))
    }

    /// The server's refusal, sorted into the errors that requests share.
    pub(crate) fn refusal(mut self) -> Refusal {
        match self.problem.take() {
            Some(problem) => Refusal::Problem(problem),
            None if self.status.is_redirection() => Refusal::Malformed(
                self.malformed("it is a redirect, which the client does not follow"),
            ),
            None => Refusal::Malformed(self.malformed("it is neither a result nor a problem")),
        }
    }

    /// The verdict on the request, if the answer has one.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let text = self.headers.get(header::VERDICT)?.to_str().ok()?;
        let all = [Verdict::Fresh, Verdict::InFlight, Verdict::PriorResult, Verdict::PriorError];
        all.into_iter().find(|verdict| verdict.as_str() == text)
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        after(&self.headers)
    }
}

pub(crate) fn after(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers.get(RETRY_AFTER)?.to_str().ok()?, until)
}

/// The media type, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    text.split(';').next().map(str::trim)
}

impl From<NoAnswer> for Error {
    fn from(error: NoAnswer) -> Self {
        match error {
            NoAnswer::Lost(lost) => Self::Transport(lost),
            NoAnswer::Malformed(malformed) => Self::Malformed(malformed),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Malformed(malformed) => Self::Malformed(malformed),
            Refusal::Problem(problem) => match problem.code {
                Code::Mismatch => Self::Mismatch(problem),
                Code::Expired => Self::Expired(problem),
                _ => Self::Refused(problem),
            },
        }
    }
}
