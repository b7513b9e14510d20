//! How a writer begins: with its file, or without one.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use indelible_api::Code;
use tokio::task::spawn_blocking;

use super::decide::{Copies, Stop, check};
use super::error::{SequencedError, StopReason};
use super::file::{OnStep, StateFile, StateFileError, WriterStep};
use super::state::{FileState, StreamName};
use super::{Sequenced, facts};
use crate::ledger::Ledger;

/// The attempt of a client that was never refused.
const FIRST_ATTEMPT: u32 = 1;

/// What to do if there is no state file although the server knows the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfMissing {
    /// [`SequencedError::FileMissing`].
    #[default]
    Refuse,
    /// Number and attempt are those that the server says are next.
    ///
    /// The lost file may have held a request that the server has not answered. Whether it was applied
    /// is for the program to find out, in the log of the vault; and a late copy of it can still be
    /// applied, until another transaction has taken its number.
    AskServer,
}

/// A writer that has not begun: options, then `.await`.
#[must_use = "nothing is opened until it is awaited"]
pub struct OpenSequenced {
    ledger: Ledger,
    client_id: String,
    file: PathBuf,
    server_name: Option<String>,
    incarnation: Option<String>,
    if_missing: IfMissing,
    on_step: Option<OnStep>,
}

impl fmt::Debug for OpenSequenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSequenced")
            .field("ledger", &self.ledger)
            .field("client_id", &self.client_id)
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl OpenSequenced {
    pub(crate) fn new(ledger: Ledger, client_id: String, file: PathBuf) -> Self {
        let if_missing = IfMissing::default();
        let (server_name, incarnation, on_step) = (None, None, None);
        Self { ledger, client_id, file, server_name, incarnation, if_missing, on_step }
    }

    /// What the file calls the server, instead of its address. A file belongs to one server, by this
    /// name: it stays the same when the server moves to another address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Writes to this incarnation of the vault and to no other. Without it, to the one that is there
    /// when the writer begins for the first time.
    pub fn incarnation(mut self, incarnation: impl Into<String>) -> Self {
        self.incarnation = Some(incarnation.into());
        self
    }

    /// What to do if there is no state file although the server knows the client.
    pub fn if_missing(mut self, then: IfMissing) -> Self {
        self.if_missing = then;
        self
    }

    /// Called at each step, for tests that kill a writer there.
    #[doc(hidden)]
    pub fn on_step(mut self, step: impl Fn(WriterStep) + Send + Sync + 'static) -> Self {
        self.on_step = Some(Arc::new(step));
        self
    }

    async fn open(self) -> Result<Sequenced, SequencedError> {
        let client = &self.ledger.client;
        let stream = StreamName {
            server: self.server_name.unwrap_or_else(|| client.inner.base.to_string()),
            namespace: client.namespace.as_deref().map(str::to_owned),
            vault: self.ledger.vault.clone(),
            client: self.client_id,
        };
        let (path, on_step, expected) = (self.file.clone(), self.on_step, stream.clone());
        let opened = spawn_blocking(move || StateFile::open(&path, &expected, on_step)).await;
        let (file, found) = opened.unwrap_or_else(|error| {
            let source = std::io::Error::other(error);
            Err(StateFileError::Io { doing: "open", path: self.file, source })
        })?;
        let (state, copies) = match found {
            // What the file holds may have been sent.
            Some(state) => (state, Copies::Unknown),
            None => {
                let state = begin(&self.ledger, &stream, self.if_missing).await?;
                (state, Copies::Answered)
            }
        };
        if let (Some(pinned), Some(found)) = (&self.incarnation, &state.incarnation)
            && pinned != found
        {
            let (sequence, reason) = (None, StopReason::of(Stop::OtherIncarnation));
            return Err(SequencedError::Stopped { stream: Box::new(stream), sequence, reason });
        }
        let incarnation = state.incarnation.clone().or(self.incarnation);
        Ok(Sequenced {
            ledger: self.ledger,
            file: Arc::new(file),
            state: FileState { incarnation, ..state },
            revision: 0,
            durable: 0,
            storing: None,
            copies,
        })
    }
}

/// The state of a client without a file: that of the server.
async fn begin(
    ledger: &Ledger,
    stream: &StreamName,
    if_missing: IfMissing,
) -> Result<FileState, SequencedError> {
    let stopped = |reason| {
        let (stream, sequence) = (Box::new(stream.clone()), None);
        SequencedError::Stopped { stream, sequence, reason }
    };
    let asked = ledger.client_state(&stream.client, None).await;
    let server = asked.map_err(|error| match SequencedError::of(error) {
        SequencedError::Unsettled(problem) if problem.code == Code::ForeignClient => {
            stopped(StopReason::ForeignClient)
        }
        // There is no request yet that could be unsettled.
        SequencedError::Unsettled(problem) => SequencedError::Refused(problem),
        error => error,
    })?;
    if server.owner.is_some() && if_missing == IfMissing::Refuse {
        let last = server.last_committed_sequence;
        return Err(SequencedError::FileMissing { stream: Box::new(stream.clone()), last });
    }
    let facts = facts(&server);
    let state = FileState {
        stream: stream.clone(),
        incarnation: facts.incarnation.clone(),
        restores: facts.restores,
        committed: facts.last,
        attempt: facts.next_attempt.unwrap_or(FIRST_ATTEMPT),
        request: None,
    };
    match facts.next_attempt {
        None => Err(stopped(StopReason::of(Stop::AttemptsExhausted))),
        Some(_) => {
            check(&state, &facts).map(|()| state).map_err(|why| stopped(StopReason::of(why)))
        }
    }
}

impl IntoFuture for OpenSequenced {
    type Output = Result<Sequenced, SequencedError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
