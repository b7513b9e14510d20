//! What a running guest asks of the engine: the Rust side of `interface host` in
//! `crates/sdk/wit/guest.wit`, in the journal's words.

use std::task::Poll;

use bytes::Bytes;
pub use indelible_execution::guest::{Refusal, Settled, WaitRequest, WaitResult};
use indelible_journal::{Micros, Payload, Timestamp};
use indelible_records::labels::Label;

/// What an execution can know of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its id.
    pub execution_id: String,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// Its parent.
    pub parent_id: Option<String>,
    /// The function's name.
    pub function: String,
}

/// How important a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Everything.
    Trace,
    /// For finding a mistake.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth a look.
    Warn,
    /// Something failed.
    Error,
}

/// What the engine does for one running guest. None of these blocks; a wait that is not over is
/// `Pending`, the guest is suspended, and the wait is asked for again when it is resumed.
pub trait Host: Send + 'static {
    /// The guest calls a function: a promise, or (inner Err) a failure that it can handle.
    fn call(
        &mut self,
        function: &str,
        input: Payload,
    ) -> Result<Result<u32, indelible_journal::Failure>, Refusal>;
    /// The guest sends an HTTP request. Err of `policy`: why the policy is invalid, which the guest
    /// learns when it awaits the promise.
    fn http(
        &mut self,
        request: indelible_http::Request,
        policy: Result<indelible_journal::RetryPolicy, String>,
    ) -> Result<u32, Refusal>;
    /// The guest starts a timer.
    fn start_timer(&mut self, duration: Micros) -> Result<u32, Refusal>;
    /// The guest waits. After `Pending`, the same wait is asked for again at every resume.
    fn wait(&mut self, want: &WaitRequest) -> Result<Poll<WaitResult>, Refusal>;
    /// The guest creates a join set.
    fn create_join_set(&mut self) -> Result<u32, Refusal>;
    /// The guest puts a call into a join set.
    fn submit(&mut self, join_set: u32, promise: u32) -> Result<(), Refusal>;
    /// The guest wants the time.
    fn now(&mut self) -> Result<Timestamp, Refusal>;
    /// The guest wants random bytes.
    fn random(&mut self, length: u32) -> Result<Bytes, Refusal>;
    /// The guest asks about itself.
    fn context(&mut self) -> Context;
    /// The guest labels its execution.
    fn label(&mut self, label: Label) -> Result<(), Refusal>;
    /// The guest logs a line.
    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<(), Refusal>;
    /// Whether the guest is past its journal. Replayed work is not counted against its CPU budget
    /// (D8).
    fn is_live(&mut self) -> bool;
}
