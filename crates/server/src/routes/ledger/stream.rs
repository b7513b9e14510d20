//! The transactions of a vault as they happen, and all of them as a file. Both are read from the log, a
//! page at a time when the client takes it: a client that does not read holds one page.
//!
//! ```text
//! id: 12
//! event: transaction
//! data: {"transaction":{"height":12,…},"results":[…]}
//! ```
//! The id is the height: resumed with it, a stream goes on after it, and has each transaction once and
//! in order. A stream that begins with what comes next has, as its first line, the id of what was before.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use indelible_api::{Code, Problem};
use indelible_ledger::export::{end_line, header_line, record_line};
use indelible_ledger::{ChainHash, Height, Scope};
use indelible_runtime::ledger::{FollowVault, LedgerError};
use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;

use super::read::beyond;
use super::{height, logged, pinned, scope};
use crate::answer::{Answer, CutOff, Pieces};
use crate::request::{ApiRequest, malformed};
use crate::routes::events::ALIVE;
use crate::state::State;

const LINES: HeaderValue = HeaderValue::from_static("application/jsonl");

/// The most transactions of a piece; its bytes are bounded by the page of the log.
const PIECE_TRANSACTIONS: usize = 256;

/// A log that is being read, by a client that may read it.
struct Reader {
    state: Arc<State>,
    scope: Scope,
    /// The height of the next transaction.
    next: Height,
    /// Checked again after each read: a revoked key ends its streams.
    credential: Option<HeaderValue>,
    _waiter: OwnedSemaphorePermit,
}

impl Reader {
    fn new(
        state: Arc<State>,
        asked: &ApiRequest,
        scope: Scope,
        next: Height,
    ) -> Result<Self, Problem> {
        let credential = asked.headers.get(http::header::AUTHORIZATION).cloned();
        let _waiter = state.waiter()?;
        Ok(Self { state, scope, next, credential, _waiter })
    }

    fn may_go_on(&self) -> bool {
        self.state.access.authenticate(self.credential.as_ref(), self.state.now()).is_ok()
    }
}

/// Follows a vault.
pub(crate) async fn events(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (scope, pinned) = (scope(&asked)?, pinned(&asked)?);
    // Subscribed before the first read, so that no transaction in between is missed.
    let follow = state.engine.follow_vault(&scope);
    let vault = state.engine.vault(&scope).await;
    let vault = vault.map_err(|error| state.ledger_error(&error))?;
    if let (Some(pinned), Some(is)) = (pinned, vault.incarnation)
        && pinned != is
    {
        return Err(state.ledger_error(&LedgerError::OtherIncarnation(is)));
    }
    let last = asked.header("last-event-id")?.filter(|id| !id.is_empty());
    let last = last.map(|id| id.parse().map(Height::new));
    let last = last.transpose().map_err(|_| malformed("last-event-id is no height"))?;
    let (after, begin) = match (last, height(&asked, "from")) {
        (Some(last), _) => (last, None),
        (None, Some(from)) => (Height::new(from.get().saturating_sub(1)), None),
        (None, None) => (vault.height, Some(vault.height)),
    };
    // What was never sent cannot be the last that was received. A vault that was restored, or made
    // again, can be lower than what its client has seen.
    if after > vault.height {
        return Err(beyond(vault.height));
    }
    if after < vault.log_from {
        return Err(state.ledger_error(&LedgerError::Compacted { log_from: vault.log_from }));
    }
    let next = Height::new(after.get() + 1);
    let reader = Reader::new(state, &asked, scope, next)?;
    Ok(Answer::events(follower(Box::new(Follower { reader, follow, begin }))))
}

struct Follower {
    reader: Reader,
    follow: FollowVault,
    /// The height at which the stream begins, until the client was told.
    begin: Option<Height>,
}

fn follower(mut follower: Box<Follower>) -> Pieces {
    Pieces::new(async move {
        let piece = follower.next().await?;
        Some((Ok(piece), Some(self::follower(follower))))
    })
}

impl Follower {
    /// The next piece; none when the server stops, or the vault or the credential is gone: the client
    /// asks again, and is told.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(height) = self.begin.take() {
            return Some(format!("id: {height}\n\n").into());
        }
        let Reader { state, scope, .. } = &self.reader;
        let state = Arc::clone(state);
        loop {
            let read = state.engine.ledger_log(scope, self.reader.next, PIECE_TRANSACTIONS).await;
            // Checked after the read: the key may be revoked while the read waits for its turn.
            if !self.reader.may_go_on() {
                return None;
            }
            let page = read.inspect_err(|error| drop(state.ledger_error(error))).ok()?;
            if let Some(last) = page.entries.last() {
                let height = last.record.transaction.height.get();
                let mut text = String::new();
                for entry in &page.entries {
                    let height = entry.record.transaction.height;
                    let data = serde_json::to_string(&logged(entry)).expect("wire types are JSON");
                    text.push_str(&format!("id: {height}\nevent: transaction\ndata: {data}\n\n"));
                }
                self.reader.next = Height::new(height + 1);
                return Some(text.into());
            }
            tokio::select! {
                changed = self.follow.changed() => changed.ok()?,
                () = state.draining() => return None,
                () = state.sleep(ALIVE) => return Some(Bytes::from_static(b": alive\n\n")),
            }
        }
    }
}

/// Sends the log of a vault up to now, as `docs/formats/ledger.md` has it.
pub(crate) async fn export(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let scope = scope(&asked)?;
    let start = state.engine.ledger_export_start(&scope).await;
    let (start, lanes) = start.map_err(|error| state.ledger_error(&error))?;
    // Read after the start: a log that is cut off in between only begins later than it could.
    let end = state.engine.vault_state(&scope, None).await;
    let end = end.map_err(|error| state.ledger_error(&error))?;
    let next = Height::new(start.height.get() + 1);
    let reader = Reader::new(state, &asked, scope, next)?;
    let header = header_line(&start, &lanes);
    let export = Export { reader, end: (end.height, end.head) };
    Ok(Answer::pieces(LINES, Box::new(export).pieces(header)))
}

struct Export {
    reader: Reader,
    /// The height and the head with which it ends.
    end: (Height, ChainHash),
}

impl Export {
    /// A first piece, and the pieces behind it. One that cannot be read cuts the export off: it has no
    /// end then.
    fn pieces(self: Box<Self>, first: String) -> Pieces {
        Pieces::new(async move { Some((Ok(first.into()), Some(self.rest()))) })
    }

    fn rest(mut self: Box<Self>) -> Pieces {
        Pieces::new(async move {
            let piece = self.next().await;
            match piece {
                Ok((lines, true)) => Some((Ok(lines.into()), Some(self.rest()))),
                Ok((lines, false)) => Some((Ok(lines.into()), None)),
                Err(why) => {
                    warn!(error = why.detail, "an export was cut off");
                    Some((Err(CutOff(why.detail)), None))
                }
            }
        })
    }

    /// The next lines, and whether more follow.
    async fn next(&mut self) -> Result<(String, bool), Problem> {
        let Reader { state, scope, next, .. } = &self.reader;
        let (height, head) = self.end;
        if *next > height {
            return Ok((end_line(height, head), false));
        }
        if state.is_draining() {
            return Err(Problem::new(Code::Stopping, "the server is stopping"));
        }
        let page = state.engine.ledger_log(scope, *next, PIECE_TRANSACTIONS).await;
        let page = page.map_err(|error| state.ledger_error(&error))?;
        if !self.reader.may_go_on() {
            return Err(Problem::new(Code::Unauthenticated, "the credential is no longer valid"));
        }
        let mut lines = String::new();
        let mut next = self.reader.next;
        for entry in &page.entries {
            let at = entry.record.transaction.height;
            if at != next || at > height {
                break;
            }
            lines.push_str(&record_line(&entry.record));
            next = Height::new(at.get() + 1);
        }
        if next == self.reader.next {
            // The vault was deleted, and another one made.
            return Err(Problem::new(Code::NotFound, "the log ended before its height"));
        }
        self.reader.next = next;
        Ok((lines, true))
    }
}
