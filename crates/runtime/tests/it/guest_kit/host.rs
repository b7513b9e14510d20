//! A host that follows a script and remembers what it was asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use bytes::Bytes;
use indelible_http::Request;
use indelible_journal::{Failure, Micros, Outcome, Payload, RetryPolicy, Timestamp};
use indelible_records::labels::Label;
use indelible_runtime::guest::{Context, Host, Level, Refusal, Settled, WaitRequest, WaitResult};

/// What a [`Host`] of a test does. Shared by the test and its hosts.
#[derive(Clone, Default)]
pub struct Script(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: Mutex<Vec<String>>,
    /// How often a wait is still pending.
    pending: AtomicU32,
    replaying: AtomicBool,
    /// After how many journaled calls the host refuses, and how.
    refusal: Mutex<Option<(u32, Refusal)>>,
    panics: AtomicBool,
    got: Mutex<Option<WaitResult>>,
    /// Hosts that exist.
    hosts: AtomicU32,
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits are pending this often.
    pub fn pending(self, times: u32) -> Self {
        self.0.pending.store(times, Ordering::Relaxed);
        self
    }

    /// What waits come to; else promise 7 with an empty payload.
    pub fn got(self, got: WaitResult) -> Self {
        *self.0.got.lock().unwrap() = Some(got);
        self
    }

    /// Refuses after so many journaled calls.
    pub fn refuse(self, after: u32, refusal: Refusal) -> Self {
        *self.0.refusal.lock().unwrap() = Some((after, refusal));
        self
    }

    /// Panics when the guest wants the time.
    pub fn panics(self) -> Self {
        self.0.panics.store(true, Ordering::Relaxed);
        self
    }

    /// Whether the guest replays.
    pub fn replaying(&self, replaying: bool) {
        self.0.replaying.store(replaying, Ordering::Relaxed);
    }

    /// What was asked.
    pub fn asked(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.asked.lock().unwrap()
    }

    /// How many hosts exist.
    pub fn hosts(&self) -> u32 {
        self.0.hosts.load(Ordering::Relaxed)
    }

    pub fn host(&self) -> Scripted {
        self.0.hosts.fetch_add(1, Ordering::Relaxed);
        Scripted(self.0.clone())
    }
}

/// The host itself.
pub struct Scripted(Arc<Inner>);

impl Drop for Scripted {
    fn drop(&mut self) {
        self.0.hosts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Scripted {
    fn asked(&self, what: String) -> Result<(), Refusal> {
        self.0.asked.lock().unwrap().push(what);
        let mut refusal = self.0.refusal.lock().unwrap();
        match &mut *refusal {
            None => Ok(()),
            Some((0, refusal)) => Err(refusal.clone()),
            Some((after, _)) => {
                *after -= 1;
                Ok(())
            }
        }
    }
}

impl Host for Scripted {
    fn call(&mut self, function: &str, input: Payload) -> Result<Result<u32, Failure>, Refusal> {
        self.asked(format!("call {function} {}", input.bytes.len()))?;
        Ok(Ok(7))
    }

    fn http(&mut self, request: Request, _: Result<RetryPolicy, String>) -> Result<u32, Refusal> {
        self.asked(format!("send-http {}", request.label()))?;
        Ok(7)
    }

    fn start_timer(&mut self, duration: Micros) -> Result<u32, Refusal> {
        self.asked(format!("start-timer {duration}"))?;
        Ok(7)
    }

    fn wait(&mut self, want: &WaitRequest) -> Result<Poll<WaitResult>, Refusal> {
        let pending = self.0.pending.load(Ordering::Relaxed);
        if pending > 0 {
            self.0.pending.store(pending - 1, Ordering::Relaxed);
            return Ok(Poll::Pending);
        }
        self.asked(format!("wait {want:?}"))?;
        let got = self.0.got.lock().unwrap().clone();
        let settled = || Settled { promise: 7, outcome: Outcome::Ok(Payload::empty()) };
        Ok(Poll::Ready(got.unwrap_or_else(|| WaitResult::Settled(settled()))))
    }

    fn create_join_set(&mut self) -> Result<u32, Refusal> {
        self.asked("create-join-set".into())?;
        Ok(1)
    }

    fn submit(&mut self, join_set: u32, promise: u32) -> Result<(), Refusal> {
        self.asked(format!("submit {join_set} {promise}"))
    }

    fn now(&mut self) -> Result<Timestamp, Refusal> {
        assert!(!self.0.panics.load(Ordering::Relaxed), "a host that panics");
        self.asked("now".into())?;
        Ok(Timestamp::EPOCH)
    }

    fn random(&mut self, length: u32) -> Result<Bytes, Refusal> {
        self.asked(format!("random {length}"))?;
        Ok(vec![0xAB; usize::try_from(length).unwrap()].into())
    }

    fn context(&mut self) -> Context {
        Context {
            execution_id: "e".into(),
            attempt: 2,
            parent_id: Some("p".into()),
            function: "f".into(),
        }
    }

    fn label(&mut self, label: Label) -> Result<(), Refusal> {
        self.0.asked.lock().unwrap().push(format!("label {label}"));
        Ok(())
    }

    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        self.0.asked.lock().unwrap().push(format!("log {level:?} {message} {fields:?}"));
        Ok(())
    }

    fn is_live(&mut self) -> bool {
        !self.0.replaying.load(Ordering::Relaxed)
    }
}
