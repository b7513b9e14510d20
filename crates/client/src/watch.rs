//! What happens to an execution, as it happens.

use http::{StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::client::Client;
use crate::error::{Cause, Error, Lost, Malformed};
use crate::request::Request;
use crate::retry::is_final;
use crate::send::{Failure, Trial, after, media_type};
use crate::sse::{Parser, RawEvent};

/// The event that ends a stream: the execution is over.
const OVER: &str = "over";

/// Something that happened to an execution. It is durable.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its place in the stream, for [`Watch::starting_after`].
    pub id: Option<String>,
    /// Its name, as the journal has it.
    pub name: String,
    /// The event, as `docs/formats/journal-jsonl.md` has it.
    pub data: Box<RawValue>,
}

/// The events of an execution, from [`Client::watch`].
///
/// A connection that breaks is made again, and the stream goes on after the last event that was
/// seen: none is missing, none comes twice.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    uri: Uri,
    last: Option<String>,
    stream: Option<Stream>,
    /// The attempts to connect since the last byte that came.
    trial: Trial,
    is_over: bool,
}

#[derive(Debug)]
struct Stream {
    body: Incoming,
    parser: Parser,
    since: Instant,
}

impl Watch {
    pub(crate) fn new(client: Client, uri: Uri) -> Self {
        Self { client, uri, last: None, stream: None, trial: Trial::start(), is_over: false }
    }

    /// Starts after this event, which the caller has seen.
    #[must_use]
    pub fn starting_after(mut self, id: impl Into<String>) -> Self {
        self.last = Some(id.into());
        self
    }

    /// The id of the last event that was seen.
    pub fn last_id(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The next event; `None` once the execution is over. After an error there is none either,
    /// except after [`Error::Transport`]: then the next call goes on trying.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        while !self.is_over {
            let step = match &mut self.stream {
                Some(_) => self.read().await,
                None => self.connect().await,
            };
            match step {
                Ok(None) => {}
                Ok(Some(event)) => return Some(Ok(event)),
                Err(error) => {
                    self.stream = None;
                    match &error {
                        Error::Transport(_) => self.trial = Trial::start(),
                        _ => self.is_over = true,
                    }
                    return Some(Err(error));
                }
            }
        }
        None
    }

    /// Connects once, or waits after a failure. It may be dropped at any await and called again.
    async fn connect(&mut self) -> Result<Option<Event>, Error> {
        let inner = &self.client.inner;
        let request = Request::get(self.uri.clone()).events(self.last.as_deref())?;
        let time = inner.timeouts.answer;
        if self.trial.attempts == 0 {
            self.trial = Trial::start();
        }
        self.trial.attempts += 1;
        let response = match timeout(time, inner.send(&request)).await {
            Err(_) => return self.failed(Cause::TimedOut(time), None).await,
            Ok(Err(Failure::Cause(cause))) => return self.failed(cause, None).await,
            Ok(Err(Failure::Malformed(malformed))) => return Err(Error::Malformed(malformed)),
            Ok(Ok(response)) => response,
        };
        match response.status() {
            StatusCode::NO_CONTENT => {
                self.is_over = true;
                Ok(None)
            }
            StatusCode::OK if media_type(response.headers()) == Some("text/event-stream") => {
                let parser = Parser::new(inner.answer_bytes_max);
                let body = response.into_body();
                self.stream = Some(Stream { body, parser, since: Instant::now() });
                Ok(None)
            }
            StatusCode::OK => Err(Error::Malformed(
                request.malformed(StatusCode::OK, "it is not an event stream"),
            )),
            status => {
                let asked = after(response.headers());
                let answer = match timeout(time, inner.collect(&request, response)).await {
                    Err(_) => return self.failed(Cause::TimedOut(time), None).await,
                    Ok(Err(Failure::Cause(cause))) => return self.failed(cause, None).await,
                    Ok(Err(Failure::Malformed(error))) => return Err(Error::Malformed(error)),
                    Ok(Ok(answer)) => answer,
                };
                if is_final(status, answer.problem()) {
                    return Err(answer.refusal().into());
                }
                let problem = answer.into_problem();
                self.failed(Cause::Unavailable { status, problem }, asked).await
            }
        }
    }

    /// Waits before the next attempt, if there is to be one.
    async fn failed(
        &mut self,
        source: Cause,
        asked: Option<std::time::Duration>,
    ) -> Result<Option<Event>, Error> {
        if self.trial.again(&self.client.inner, &source, asked).await {
            return Ok(None);
        }
        let attempts = self.trial.attempts;
        Err(Error::Transport(Lost { attempts, may_have_arrived: false, identity: None, source }))
    }

    /// A stream ended too early.
    async fn broken(&mut self, source: Cause) -> Result<Option<Event>, Error> {
        // A stream that lasted counts as a success, even if it carried no event.
        let lasted = self.stream.take().map(|stream| stream.since.elapsed());
        if lasted.is_some_and(|lasted| lasted >= self.client.inner.retries.delay_max) {
            self.trial = Trial::start();
        }
        self.failed(source, None).await
    }

    async fn read(&mut self) -> Result<Option<Event>, Error> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        if let Some(raw) = stream.parser.next() {
            return self.take(raw);
        }
        let chunk = match timeout(self.client.inner.timeouts.silence, stream.body.frame()).await {
            // Silence: either nothing happens, or the connection is gone. A new connection tells.
            Err(_) => {
                self.stream = None;
                self.trial = Trial::start();
                return Ok(None);
            }
            Ok(None) => return self.broken(Cause::Ended).await,
            Ok(Some(Err(error))) => return self.broken(Cause::Broken(Box::new(error))).await,
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        if !chunk.is_empty() {
            self.trial = Trial::start();
        }
        let pushed = stream.parser.push(&chunk);
        pushed.map_err(|error| malformed(error.to_string()))?;
        Ok(None)
    }

    fn take(&mut self, raw: RawEvent) -> Result<Option<Event>, Error> {
        if raw.name == OVER {
            self.stream = None;
            self.is_over = true;
            return Ok(None);
        }
        let data = RawValue::from_string(raw.data);
        let data = data.map_err(|error| malformed(format!("an event is not JSON: {error}")))?;
        if raw.id.is_some() {
            self.last.clone_from(&raw.id);
        }
        Ok(Some(Event { id: raw.id, name: raw.name, data }))
    }
}

fn malformed(what: String) -> Error {
    Error::Malformed(Malformed { status: StatusCode::OK, what, identity: None })
}
