//! The events of an execution as they happen: server-sent events, read from the journal. Only
//! durable events are sent. A stream that breaks can be resumed: the id of an event names its
//! attempt and its place in that attempt's journal.
//!
//! ```text
//! id: 1:4
//! event: InvokeStarted
//! data: {"v":2,"execution":"…@1","sequence":4,…}
//! ```
//! After the last event comes `event: over`, and the stream ends. A client that resumes after it
//! gets 204.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use indelible_api::Problem;
use indelible_journal::{Attempts, Event, ExecutionId, JournalKey, json};
use indelible_runtime::{EngineError, Follow, Lane, Reads};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::{Answer, Pieces};
use crate::refusal::not_found;
use crate::request::{ApiRequest, malformed};
use crate::state::State;

/// How often a stream without events sends a comment: proxies close silent connections, and a
/// client that has gone is noticed.
pub(super) const ALIVE: Duration = Duration::from_secs(15);

/// Events are read and sent in pieces of about this size, which bounds the memory that a client
/// holds that does not read.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_EVENTS: usize = 256;

/// The id of the last message: nothing follows it.
const OVER: &str = "over";

/// Follows an execution.
pub(super) async fn watch(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let waiter = state.waiter()?;
    let (execution, _) = state.execution(&asked).await?;
    let last = asked.header("last-event-id")?.filter(|id| !id.is_empty());
    // Subscribed before the first read, so that no change in between is missed.
    let follow = state.engine.follow(&execution);
    let first = state.engine.execution(&execution).await;
    let first = first.map_err(|error| state.engine_error(&error))?;
    let place = match last {
        Some(OVER) => return Ok(Answer::empty(StatusCode::NO_CONTENT)),
        Some(id) => {
            let (key, sequence) = read_id(&execution, id)
                .ok_or_else(|| malformed("last-event-id does not belong to this stream"))?;
            // What was never sent cannot be the last that was received.
            let Some(row) = &first else { return Err(not_found()) };
            if row.key < key || row.key == key && row.length <= sequence {
                return Err(malformed("last-event-id names an event that does not exist"));
            }
            Some(StreamPosition { key, next: sequence.saturating_add(1), ended: false })
        }
        None if first.is_some() => None,
        // A volatile execution has no stored events before its end.
        None => return Err(not_found()),
    };
    let credential = asked.headers.get(http::header::AUTHORIZATION).cloned();
    let reader =
        Reader { state, execution, follow, place, credential, over: false, _waiter: waiter };
    Ok(Answer::events(pieces(Box::new(reader))))
}

/// `ATTEMPTS:SEQUENCE`.
fn read_id(execution: &ExecutionId, id: &str) -> Option<(JournalKey, u64)> {
    let (attempts, sequence) = id.split_once(':')?;
    let attempts = attempts.parse::<Attempts>().ok()?;
    let key = JournalKey::new(execution.clone(), attempts).ok()?;
    Some((key, sequence.parse().ok()?))
}

/// Events as they happen: one piece at a time, read when the client takes it.
fn pieces(mut reader: Box<Reader>) -> Pieces {
    Pieces::new(async move {
        let piece = reader.next().await?;
        Some((Ok(piece), Some(pieces(reader))))
    })
}

/// Where a stream is.
struct StreamPosition {
    key: JournalKey,
    next: u64,
    /// The last event that was sent is the last there is.
    ended: bool,
}

/// What a stream does next.
enum StreamStep {
    Piece(Bytes),
    /// It says that there is no more.
    End,
    /// There is nothing until something happens.
    Wait,
    /// The execution is not there any more.
    Gone,
}

/// Whether nothing can follow an event. A failure may be followed by another attempt.
fn is_last(event: &Event) -> bool {
    matches!(event, Event::ExecutionCompleted { .. } | Event::ExecutionCancelled { .. })
}

struct Reader {
    state: Arc<State>,
    execution: ExecutionId,
    follow: Follow,
    /// None: before the first event.
    place: Option<StreamPosition>,
    /// Checked again after each read: a revoked key ends its streams.
    credential: Option<HeaderValue>,
    /// The last message was sent.
    over: bool,
    _waiter: OwnedSemaphorePermit,
}

impl Reader {
    /// The next piece; none at the end, or when the server stops: the client asks again.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        loop {
            let read = self.read().await;
            // Checked after the read: the key may be revoked while the read waits for its turn, and
            // must not see later events.
            let now = self.state.now();
            if self.state.access.authenticate(self.credential.as_ref(), now).is_err() {
                return None;
            }
            match read {
                Ok(StreamStep::Piece(piece)) => return Some(piece),
                Ok(StreamStep::End) => return Some(self.end()),
                Ok(StreamStep::Wait) => {}
                // The client asks again, and then gets 404.
                Ok(StreamStep::Gone) => return None,
                Err(error) => {
                    // Headers are sent, so the error cannot be told now. The client asks again and
                    // then gets it.
                    self.state.engine_error(&error);
                    return None;
                }
            }
            let state = Arc::clone(&self.state);
            tokio::select! {
                changed = self.follow.changed() => changed.ok()?,
                () = state.draining() => return None,
                () = state.sleep(ALIVE) => return Some(Bytes::from_static(b": alive\n\n")),
            }
        }
    }

    /// What there is to send now. A reader thread reads it and makes it into text when the stream
    /// has its turn; the stream holds no thread while it waits or while the client reads.
    async fn read(&mut self) -> Result<StreamStep, EngineError> {
        let (execution, place) = (self.execution.clone(), self.place.take());
        let mut reading = self.state.engine.enter_lane(Lane::Streams).await?;
        let (place, next) = reading.run(move |reads| piece(reads, &execution, place)).await?;
        self.place = place;
        Ok(next)
    }

    fn end(&mut self) -> Bytes {
        self.over = true;
        Bytes::from_static(b"id: over\nevent: over\ndata: {}\n\n")
    }
}

/// The next piece of a stream at this position, and the position after it.
fn piece(
    reads: &Reads<'_>,
    execution: &ExecutionId,
    place: Option<StreamPosition>,
) -> Result<(Option<StreamPosition>, StreamStep), EngineError> {
    let mut place = match place {
        Some(place) => place,
        None => match reads.attempt_after(execution, None)? {
            Some(row) => StreamPosition { key: row.key, next: 0, ended: false },
            // It existed when the stream began.
            None => return Ok((None, StreamStep::Gone)),
        },
    };
    let next = loop {
        let page = reads.events(&place.key, place.next, PIECE_EVENTS, PIECE_BYTES)?;
        if !page.records.is_empty() {
            let mut text = Vec::new();
            let attempts = place.key.attempts();
            for record in &page.records {
                let (sequence, name) = (record.sequence.get(), record.event.name());
                let head = format!("id: {attempts}:{sequence}\nevent: {name}\ndata: ");
                text.extend_from_slice(head.as_bytes());
                // `write_line` ends its line; an empty line ends the event.
                json::write_line(&place.key, record, &mut text);
                text.push(b'\n');
            }
            place.next = page.next;
            place.ended = page.records.last().is_some_and(|record| is_last(&record.event));
            // A client that reads slowly holds this text, so it gets no spare capacity.
            text.shrink_to_fit();
            break StreamStep::Piece(text.into());
        }
        // This journal has no more events: another attempt follows, or this was the last.
        if let Some(row) = reads.attempt_after(execution, Some(&place.key))? {
            place = StreamPosition { key: row.key, next: 0, ended: false };
            continue;
        }
        let Some(row) = reads.execution(execution)? else {
            // Retention has deleted it. A client that may not have seen the last event must not be
            // told that there is no more.
            break if place.ended { StreamStep::End } else { StreamStep::Gone };
        };
        if row.key == place.key && row.length <= place.next && row.standing.is_terminal() {
            break StreamStep::End;
        }
        // Only a later attempt can have events already; otherwise wait for a change.
        if row.key <= place.key {
            break StreamStep::Wait;
        }
    };
    Ok((Some(place), next))
}

#[cfg(test)]
mod tests {
    use indelible_journal::RootHash;

    use super::*;

    /// An id names an attempt at this very execution, and a place in its journal.
    #[test]
    fn ids_of_events() {
        let root = ExecutionId::root_of(RootHash::from_bytes([7; 32]));
        let (key, sequence) = read_id(&root, "2:17").expect("it is one");
        assert_eq!((key.to_string(), sequence), (format!("{root}@2"), 17));
        for wrong in ["", "2", "2:", ":1", "0:1", "1.1:1", "1:-1", "1:1:1", "a:b"] {
            assert!(read_id(&root, wrong).is_none(), "{wrong}");
        }
    }
}
