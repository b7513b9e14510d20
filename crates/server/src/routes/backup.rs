//! A copy of everything in the store, sent while the server goes on: a snapshot, read a piece at a
//! time when the client takes it. Nothing leaves before the snapshot's position is durable (D2).

use std::sync::Arc;

use http::HeaderValue;
use indelible_api::access::Role;
use indelible_api::{Code, Problem};
use indelible_records::backup::{self, Writer};
use indelible_runtime::EngineError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::answer::{Answer, CutOff, Pieces};
use crate::auth::audited;
use crate::request::ApiRequest;
use crate::state::State;

const KIND: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Audited, since a backup holds the data of all namespaces.
const ACTION: &str = "backup";

/// Sends everything.
pub(super) async fn backup(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let room = Arc::clone(&state.backups).try_acquire_owned();
    let room = room.map_err(|_| {
        Problem::new(Code::Busy, "another backup is in progress; only one can run at a time")
    })?;
    let store = state.engine.store().clone();
    let entry = audited(state.now(), asked.caller.actor(), ACTION, &"store");
    let refused = |error: EngineError| state.engine_error(&error);
    backup::note_taken(&store, &entry).await.map_err(|error| refused(error.into()))?;
    let snapshot = store.snapshot().map_err(|error| refused(error.into()))?;
    store.durable(snapshot.position()).await.map_err(|error| refused(error.into()))?;
    let reader = Reader {
        writer: Writer::new(snapshot, state.now()),
        credential: asked.headers.get(http::header::AUTHORIZATION).cloned(),
        until: Instant::now() + state.options.backup_time_max,
        state,
        _room: room,
    };
    Ok(Answer::pieces(KIND, Box::new(reader).pieces()))
}

struct Reader {
    state: Arc<State>,
    writer: Writer,
    /// Checked again before each piece: a revoked key gets no more.
    credential: Option<HeaderValue>,
    /// Bounds how long the snapshot is held, however slowly the client reads.
    until: Instant,
    _room: OwnedSemaphorePermit,
}

impl Reader {
    /// The pieces, each read when the client has taken the one before.
    fn pieces(mut self: Box<Self>) -> Pieces {
        Pieces::new(async move {
            if let Err(why) = self.may_go_on() {
                return Some((Err(self.cut(why)), None));
            }
            let read = tokio::task::spawn_blocking(move || {
                let piece = self.writer.next();
                (self, piece)
            });
            match read.await {
                Ok((_, Ok(None))) => None,
                Ok((reader, Ok(Some(piece)))) => Some((Ok(piece), Some(reader.pieces()))),
                Ok((reader, Err(error))) => Some((Err(reader.cut(&error.to_string())), None)),
                Err(error) => {
                    error!(%error, "backup panicked");
                    Some((Err(CutOff(error.to_string())), None))
                }
            }
        })
    }

    fn may_go_on(&self) -> Result<(), &'static str> {
        if self.state.is_draining() {
            return Err("the server is stopping");
        }
        if Instant::now() >= self.until {
            return Err("the time limit for a backup passed");
        }
        let caller = self.state.access.authenticate(self.credential.as_ref(), self.state.now());
        match caller {
            Ok(caller) if caller.may(Role::Admin) => Ok(()),
            _ => Err("the credential is no longer valid"),
        }
    }

    /// The log says why, and the client finds no end.
    fn cut(&self, why: &str) -> CutOff {
        warn!(error = why, "backup was cut off");
        CutOff(why.to_owned())
    }
}
