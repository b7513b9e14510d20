//! What a running guest asks for, on its way to its tree: under the tree's lock, call by call.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use indelible_execution::GuestCalls as Calls;
use indelible_http::Request;
use indelible_journal::{Failure, JournalKey, Micros, Payload, Replay, RetryPolicy, Timestamp};

use crate::cell::Cell;
use crate::guest::host::{Context, Got, Host, Level, Refusal, Want};
use crate::shared::Shared;
use crate::world::LogLine;

/// What one guest asks of its tree.
pub(crate) struct GuestCalls {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cell: Arc<Cell>,
    pub(crate) key: JournalKey,
}

impl GuestCalls {
    fn with<T>(&self, call: impl FnOnce(Calls<'_>) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut hosted = self.cell.hosted();
        let hosted = hosted.tree();
        let answer = call(hosted.machine().guest(&self.shared.context(), &self.key));
        hosted.heed(&self.shared);
        if hosted.is_full() || self.shared.in_lockstep() {
            hosted.commit(&self.shared);
        }
        answer
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

    fn wait(&mut self, want: &Want) -> Result<Poll<Got>, Refusal> {
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
        let function = hosted.tree().machine().function(&self.key);
        Context {
            execution_id: self.key.execution_id().to_string(),
            attempt: self.key.attempts().own().get(),
            parent_id: self.key.execution_id().parent().map(|parent| parent.to_string()),
            function: function.map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// What was logged before is not logged again.
    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        if self.cell.hosted().tree().machine().guest_is(&self.key, Replay::is_new) {
            let line = LogLine { key: &self.key, level, message: &message, fields: &fields };
            self.shared.observer.logged(line);
        }
        Ok(())
    }

    fn is_live(&mut self) -> bool {
        self.cell.hosted().tree().machine().guest_is(&self.key, Replay::is_live)
    }
}
