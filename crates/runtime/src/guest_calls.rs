//! A running guest's calls, each handled by its tree under the tree's lock.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use indelible_execution::GuestCalls as Calls;
use indelible_http::Request;
use indelible_journal::{
    Failure, Journal, JournalKey, Micros, Payload, Replay, RetryPolicy, Timestamp,
};
use indelible_records::labels::Label;
use tracing::event;

use crate::cell::Cell;
use crate::guest::host::{Context, Host, Level, Refusal, WaitRequest, WaitResult};
use crate::hosted_tree::Generation;
use crate::shared::Shared;
use crate::world::LogLine;

/// The target of what functions log, in the server's log.
const FUNCTION: &str = "indelible::function";

/// Logs a function's line, under its own level.
fn log(LogLine { key, level, message, fields }: &LogLine<'_>) {
    let execution = key.execution_id();
    let fields = (!fields.is_empty()).then(|| tracing::field::display(Fields(fields)));
    macro_rules! log {
        ($level:ident) => {
            event!(target: FUNCTION, tracing::Level::$level, %execution, fields, "{message}")
        };
    }
    match level {
        Level::Trace => log!(TRACE),
        Level::Debug => log!(DEBUG),
        Level::Info => log!(INFO),
        Level::Warn => log!(WARN),
        Level::Error => log!(ERROR),
    }
}

/// The fields of a function's line, as `name=value name=value`.
struct Fields<'a>(&'a [(String, String)]);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(number, (name, value))| {
            let space = if number == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")
        })
    }
}

/// The host of one guest: passes its calls to its tree.
pub(crate) struct GuestCalls {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cell: Arc<Cell>,
    pub(crate) key: JournalKey,
    pub(crate) generation: Generation,
}

impl GuestCalls {
    fn with<T>(&self, call: impl FnOnce(Calls<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut hosted = self.cell.hosted();
        let Some(hosted) = hosted.tree(self.generation) else { return Err(Refusal::Stop) };
        let answer = call(hosted.machine().guest(&self.shared.context(), &self.key));
        hosted.heed(&self.shared);
        if hosted.is_full() || self.shared.in_lockstep() {
            hosted.commit(&self.shared);
        }
        answer
    }

    fn guest_is(&self, place: impl FnOnce(&Replay, &Journal) -> bool) -> bool {
        let mut hosted = self.cell.hosted();
        let tree = hosted.tree(self.generation);
        tree.is_some_and(|tree| tree.machine().guest_is(&self.key, place))
    }
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method's path is not general over how long the tree is borrowed"
)]
impl Host for GuestCalls {
    fn call(&mut self, function: &str, input: Payload) -> Result<Result<u32, Failure>, Refusal> {
        self.with(|tree| tree.call(function, input))
    }

    fn http(
        &mut self,
        request: Request,
        policy: Result<RetryPolicy, String>,
    ) -> Result<u32, Refusal> {
        self.with(|tree| tree.http(&request, policy))
    }

    fn start_timer(&mut self, duration: Micros) -> Result<u32, Refusal> {
        self.with(|tree| tree.start_timer(duration))
    }

    fn wait(&mut self, want: &WaitRequest) -> Result<Poll<WaitResult>, Refusal> {
        self.with(|tree| tree.wait(want))
    }

    fn create_join_set(&mut self) -> Result<u32, Refusal> {
        self.with(|tree| tree.create_join_set())
    }

    fn submit(&mut self, join_set: u32, promise: u32) -> Result<(), Refusal> {
        self.with(|tree| tree.submit(join_set, promise))
    }

    fn now(&mut self) -> Result<Timestamp, Refusal> {
        self.with(|tree| tree.now())
    }

    fn random(&mut self, length: u32) -> Result<Bytes, Refusal> {
        self.with(|tree| tree.random(length as usize))
    }

    fn context(&mut self) -> Context {
        let mut hosted = self.cell.hosted();
        let tree = hosted.tree(self.generation);
        let function = tree.and_then(|tree| tree.machine().function(&self.key));
        Context {
            execution_id: self.key.execution_id().to_string(),
            attempt: self.key.attempts().own().get(),
            parent_id: self.key.execution_id().parent().map(|parent| parent.to_string()),
            function: function.map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn label(&mut self, label: Label) -> Result<(), Refusal> {
        self.with(|tree| tree.label(label))
    }

    /// Lines that were logged before a replay are not logged again.
    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        if self.guest_is(Replay::is_new) {
            let line = LogLine { key: &self.key, level, message: &message, fields: &fields };
            log(&line);
            self.shared.observer.logged(line);
        }
        Ok(())
    }

    fn is_live(&mut self) -> bool {
        self.guest_is(Replay::is_live)
    }
}
