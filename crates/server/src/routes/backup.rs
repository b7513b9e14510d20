//! A copy of everything in the store, sent while the server goes on: a snapshot, read a piece at a
//! time when the client takes it. Nothing leaves before the snapshot's position is durable (D2).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderValue;
use indelible_api::access::Role;
use indelible_api::{Code, Problem};
use indelible_records::backup::{self, Writer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::answer::Answer;
use crate::auth::audited;
use crate::refusal::{damaged, store_paused};
use crate::request::Asked;
use crate::state::State;

/// What the audit record calls it: whoever has a backup has everything.
const ACTION: &str = "backup";

/// Sends everything.
pub(super) async fn backup(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let room = Arc::clone(&state.backups).try_acquire_owned();
    let room = room.map_err(|_| {
        Problem::new(Code::Busy, "a backup is being taken already, and there is one at a time")
    })?;
    let store = state.engine.store().clone();
    let entry = audited(state.now(), asked.caller.actor(), ACTION, &"store");
    backup::note_taken(&store, &entry).await.map_err(|error| match error.is_damage() {
        true => damaged(),
        false => refused(&state, &error),
    })?;
    let snapshot = store.snapshot().map_err(|error| refused(&state, &error))?;
    store.durable(snapshot.position()).await.map_err(|error| refused(&state, &error))?;
    let reader = Reader {
        writer: Writer::new(snapshot, state.now()),
        credential: asked.headers.get(http::header::AUTHORIZATION).cloned(),
        until: Instant::now() + state.options.backup_time_max,
        state,
        _room: room,
    };
    Ok(Answer::backup(Stream { reader: Some(Box::new(reader)), reading: None }))
}

fn refused(state: &State, error: &dyn std::error::Error) -> Problem {
    if state.engine.store().poison().is_some() {
        return Problem::new(Code::StoreStopped, "the store has stopped");
    }
    if state.engine.store().pause().is_some() {
        return store_paused();
    }
    state.trouble(&format!("a backup: {error}"));
    Problem::new(Code::Internal, "the server's log says more")
}

/// A backup that does not come to its end: what was sent is none.
#[derive(Debug, thiserror::Error)]
#[error("the backup ends before its end: {0}")]
pub(crate) struct Cut(String);

/// The pieces, each read when the client has taken the one before.
pub(crate) struct Stream {
    /// None while it reads, and at the end.
    reader: Option<Box<Reader>>,
    reading: Option<Reading>,
}

type Piece = Result<Option<Bytes>, Cut>;
type Reading = Pin<Box<dyn Future<Output = (Option<Box<Reader>>, Piece)> + Send>>;

impl Stream {
    pub(crate) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.reading.is_none() {
            let Some(reader) = self.reader.take() else { return Poll::Ready(None) };
            self.reading = Some(Box::pin(reader.next()));
        }
        let reading = self.reading.as_mut().expect("it was just made");
        let Poll::Ready((reader, piece)) = reading.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.reading = None;
        if matches!(piece, Ok(Some(_))) {
            self.reader = reader;
        }
        Poll::Ready(piece.transpose())
    }
}

struct Reader {
    state: Arc<State>,
    writer: Writer,
    /// Looked at again before each piece: a key that is revoked gets no more.
    credential: Option<HeaderValue>,
    /// A snapshot is not held for ever, however slowly it is taken.
    until: Instant,
    _room: OwnedSemaphorePermit,
}

impl Reader {
    async fn next(mut self: Box<Self>) -> (Option<Box<Self>>, Piece) {
        if let Err(why) = self.may_go_on() {
            return (None, Err(self.cut(why)));
        }
        let state = Arc::clone(&self.state);
        let read = tokio::task::spawn_blocking(move || {
            let piece = self.writer.next();
            (self, piece)
        });
        match read.await {
            Ok((reader, Ok(piece))) => (Some(reader), Ok(piece)),
            Ok((reader, Err(error))) => (None, Err(reader.cut(&error.to_string()))),
            Err(error) => {
                state.trouble(&format!("a backup: {error}"));
                (None, Err(Cut(error.to_string())))
            }
        }
    }

    fn may_go_on(&self) -> Result<(), &'static str> {
        if self.state.is_draining() {
            return Err("the server stops");
        }
        if Instant::now() >= self.until {
            return Err("it takes longer than it may");
        }
        let caller = self.state.access.authenticate(self.credential.as_ref(), self.state.now());
        match caller {
            Ok(caller) if caller.may(Role::Admin) => Ok(()),
            _ => Err("the credential is no longer good"),
        }
    }

    /// Whoever looks after the server is told, and the client finds no end.
    fn cut(&self, why: &str) -> Cut {
        self.state.trouble(&format!("a backup was cut off: {why}"));
        Cut(why.to_owned())
    }
}
