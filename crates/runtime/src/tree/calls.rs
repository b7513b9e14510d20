//! What a running guest asks for, answered from its journal or appended to it (J-72, C-30).
//!
//! Every call asks [`Replay`] first. What is recorded is returned; what is absent is appended.
//! Live and replayed runs take the same way.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use indelible_http::Request;
use indelible_journal::{
    ErrorKind, Failure, Found, FunctionName, Idempotency, Invoke, InvokeKind, JoinSetId, Journal,
    JournalKey, Micros, Outcome, Payload, PromiseId, Recorded, Replay, ReplayError, RetryPolicy,
    Rule, Timestamp, Violation,
};

use indelible_records::timers::Timer;

use super::execution::{Phase, number};
use super::{Tree, Work};
use crate::cell::Cell;
use crate::component::Callee;
use crate::guest::host::{Context, Got, Host, Level, Refusal, Want};
use crate::shared::Shared;
use crate::world::{LogLine, Purpose};

/// What one guest asks of its tree.
pub(crate) struct GuestCalls {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cell: Arc<Cell>,
    pub(crate) key: JournalKey,
}

/// Why a call has no answer, in this module's words.
pub(super) enum Stopped {
    /// The guest's mistake: it traps.
    Mistake(String),
    /// It goes nowhere: the execution is held with this (C-25).
    Stuck(String),
    /// It is not to go on; the engine knows why.
    Doomed,
}

impl From<ReplayError> for Stopped {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Refused(refused) => Self::Mistake(refused.to_string()),
            ReplayError::Diverged(divergence) => Self::Stuck(divergence.to_string()),
        }
    }
}

impl From<Violation> for Stopped {
    /// What replay answered as absent, the journal accepts: a mistake of the engine's (D1).
    fn from(violation: Violation) -> Self {
        Self::Stuck(format!("the engine was about to break a rule: {violation}"))
    }
}

impl GuestCalls {
    /// Does something with the tree and the guest's execution, if it may go on at all.
    fn with<T>(
        &self,
        call: impl FnOnce(&mut Tree, &Shared, &JournalKey) -> Result<T, Stopped>,
    ) -> Result<T, Refusal> {
        let mut tree = self.cell.tree();
        let result = match tree.may_go_on(&self.key, self.shared.options.journal_events_max) {
            Ok(()) => call(&mut tree, &self.shared, &self.key),
            Err(stopped) => Err(stopped),
        };
        if tree.is_full() || self.shared.in_lockstep() {
            tree.commit(&self.shared);
        }
        result.map_err(|stopped| match stopped {
            Stopped::Mistake(message) => Refusal::Trap(message),
            Stopped::Doomed => Refusal::Stop,
            Stopped::Stuck(why) => {
                if let Some(execution) = tree.find(&self.key) {
                    execution.stuck = Some(why);
                }
                Refusal::Stop
            }
        })
    }

    /// Something about the guest's place in its journal.
    fn at(&self, place: impl FnOnce(&Replay, &Journal) -> bool) -> bool {
        let mut tree = self.cell.tree();
        let Some(execution) = tree.find(&self.key) else { return false };
        let journal = &execution.journal;
        execution.replay.as_ref().is_some_and(|replay| place(replay, journal))
    }
}

impl Tree {
    fn may_go_on(&mut self, key: &JournalKey, events_max: u64) -> Result<(), Stopped> {
        let Some(execution) = self.find(key) else { return Err(Stopped::Doomed) };
        if !matches!(execution.phase, Phase::Running { doomed: None, .. }) {
            return Err(Stopped::Doomed);
        }
        // Only what is new: a guest that runs again over a full journal has to come to where it
        // was, or it would seem to have diverged.
        let journal = &execution.journal;
        let live = execution.replay.as_ref().is_some_and(|replay| replay.is_live(journal));
        if live && journal.len() >= events_max {
            let message = format!("its journal has {events_max} events, which is the most");
            return Err(Stopped::Mistake(message));
        }
        Ok(())
    }

    /// The guest calls a function.
    fn call(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        name: &str,
        input: Payload,
    ) -> Result<Result<u32, Failure>, Stopped> {
        self.not_volatile(key, "call functions")?;
        let refused = |message: String| Ok(Err(Failure::new(ErrorKind::NotPerformed, message)));
        let function = match FunctionName::new(name) {
            Ok(function) => function,
            Err(error) => return refused(format!("no function is called this: {error}")),
        };
        let (journal, replay) = self.execution(key).guest_place();
        let asked = replay.invoke(journal, InvokeKind::Function, &function, &input);
        let (promise, found) = match asked {
            Ok(asked) => asked,
            // How deep it is depends on nothing but its id: a replay is refused too.
            Err(ReplayError::Refused(refusal)) if refusal.rule == Rule::J82 => {
                return refused(refusal.reason);
            }
            Err(error) => return Err(error.into()),
        };
        if found == Found::Absent {
            // Only what is new, and by a trap: a limit that was another when this ran before
            // must not lead a replay elsewhere (D6).
            let (bytes, max) = (input.bytes.len(), shared.guests.options().payload_bytes_max);
            if bytes > max {
                let message =
                    format!("the input of a call has {bytes} bytes; at most {max} are allowed");
                return Err(Stopped::Mistake(message));
            }
            self.schedule_call(shared, key, &promise, function, input)?;
        }
        Ok(Ok(number(&promise)))
    }

    /// Writes down a new call. One that no component has is refused.
    fn schedule_call(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        promise: &PromiseId,
        function_name: FunctionName,
        input: Payload,
    ) -> Result<(), Stopped> {
        let journal = &self.execution(key).journal;
        let own = *journal.component_digest().expect("it has started");
        let mut callee = shared.components.callee(&own, &function_name);
        if let Ok(Callee { retry_policy, .. }) = &callee
            && retry_policy.class.idempotency != Idempotency::Idem
            && self.reconciles(shared, key)
        {
            callee = Err("a reconciler may call only what is idem".to_owned());
        }
        let (retry_policy, refused) = match callee {
            Ok(Callee { retry_policy, .. }) => (retry_policy, None),
            Err(why) => (Arc::default(), Some(why)),
        };
        let invoke = Invoke { kind: InvokeKind::Function, function_name, input, retry_policy };
        self.schedule_invoke(shared, key, promise, invoke, refused)
    }

    /// Writes down a new call or effect. One that is refused is over at once: its guest learns it when
    /// it waits, live and replayed alike. The others start when it is their turn.
    pub(super) fn schedule_invoke(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        promise: &PromiseId,
        invoke: Invoke,
        refused: Option<String>,
    ) -> Result<(), Stopped> {
        let now = shared.clock.now();
        let input = invoke.input.clone();
        let bytes = input.bytes.len();
        let journal = &mut self.execution(key).journal;
        let (_, entry) = journal.schedule_invoke(now, invoke)?;
        let mut entries = vec![entry];
        match refused {
            None => {
                let child = number(promise);
                self.execution(key).unstarted.insert(child, input);
                self.work.push_back(Work::Start(key.clone(), child));
            }
            Some(why) => {
                let failure = Failure::new(ErrorKind::NotPerformed, why);
                entries.extend(journal.settle_invoke(now, promise, failure.into())?);
            }
        }
        self.written(key, entries);
        self.weighs(bytes);
        Ok(())
    }

    fn start_timer(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        duration: Micros,
    ) -> Result<u32, Stopped> {
        let (journal, replay) = self.execution(key).guest_place();
        let (promise, recorded) = replay.timer(journal, duration)?;
        let child = number(&promise);
        if recorded == Recorded::Absent {
            let (_, entry) = journal.schedule_timer(shared.clock.now(), duration)?;
            let due = entry.timestamp().saturating_add(duration);
            self.written(key, [entry]);
            self.put_timer(Timer { due, key: key.clone(), child: Some(child) });
        }
        Ok(child)
    }

    fn create_join_set(&mut self, shared: &Shared, key: &JournalKey) -> Result<u32, Stopped> {
        self.not_volatile(key, "use join sets")?;
        let (journal, replay) = self.execution(key).guest_place();
        let (join_set, recorded) = replay.join_set(journal)?;
        let child = number(join_set.place());
        if recorded == Recorded::Absent {
            let (_, entry) = journal.create_join_set(shared.clock.now())?;
            self.written(key, [entry]);
        }
        Ok(child)
    }

    fn submit(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        join_set: u32,
        promise: u32,
    ) -> Result<(), Stopped> {
        let own = key.execution_id();
        let (join_set, promise) = (JoinSetId::at(own.child(join_set)), own.child(promise));
        let (journal, replay) = self.execution(key).guest_place();
        if replay.submit(journal, &join_set, &promise)? == Recorded::Absent {
            let entry = journal.submit(shared.clock.now(), &join_set, &promise)?;
            // A submission takes no number: the run has seen it when it has asked again.
            replay.submit(journal, &join_set, &promise)?;
            self.written(key, [entry]);
        }
        Ok(())
    }

    fn now(&mut self, shared: &Shared, key: &JournalKey) -> Result<Timestamp, Stopped> {
        let (journal, replay) = self.execution(key).guest_place();
        if let Some(time) = replay.now(journal)? {
            return Ok(time);
        }
        let (time, entry) = journal.record_time(shared.clock.now())?;
        self.written(key, [entry]);
        Ok(time)
    }

    fn random(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        length: usize,
    ) -> Result<Bytes, Stopped> {
        let (journal, replay) = self.execution(key).guest_place();
        if let Some(bytes) = replay.random(journal, length)? {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; length];
        shared.entropy.fill(Purpose::Guest(&journal.next_promise()), &mut bytes);
        let bytes = Bytes::from(bytes);
        let (_, entry) = journal.generate_random(shared.clock.now(), bytes.clone())?;
        self.written(key, [entry]);
        self.weighs(length);
        Ok(bytes)
    }

    /// How a promise that is resolved ended.
    pub(super) fn outcome(&mut self, key: &JournalKey, promise: &PromiseId) -> Outcome {
        match self.execution(key).journal.result(promise) {
            Some(outcome) => outcome.clone(),
            // A timer.
            None => Outcome::Ok(Payload::empty()),
        }
    }
}

impl Host for GuestCalls {
    fn call(&mut self, function: &str, input: Payload) -> Result<Result<u32, Failure>, Refusal> {
        self.with(|tree, shared, key| tree.call(shared, key, function, input))
    }

    fn http(
        &mut self,
        request: Request,
        policy: Result<RetryPolicy, String>,
    ) -> Result<u32, Refusal> {
        self.with(|tree, shared, key| tree.http(shared, key, &request, policy))
    }

    fn start_timer(&mut self, duration: Micros) -> Result<u32, Refusal> {
        self.with(|tree, shared, key| tree.start_timer(shared, key, duration))
    }

    fn wait(&mut self, want: &Want) -> Result<Poll<Got>, Refusal> {
        self.with(|tree, shared, key| tree.wait(shared, key, want))
    }

    fn create_join_set(&mut self) -> Result<u32, Refusal> {
        self.with(Tree::create_join_set)
    }

    fn submit(&mut self, join_set: u32, promise: u32) -> Result<(), Refusal> {
        self.with(|tree, shared, key| tree.submit(shared, key, join_set, promise))
    }

    fn now(&mut self) -> Result<Timestamp, Refusal> {
        self.with(Tree::now)
    }

    fn random(&mut self, length: u32) -> Result<Bytes, Refusal> {
        self.with(|tree, shared, key| tree.random(shared, key, length as usize))
    }

    fn context(&mut self) -> Context {
        let mut tree = self.cell.tree();
        let started = tree.find(&self.key).and_then(|execution| execution.journal.started());
        Context {
            execution_id: self.key.execution_id().to_string(),
            attempt: self.key.attempts().own().get(),
            parent_id: self.key.execution_id().parent().map(|parent| parent.to_string()),
            function: started.map(|s| s.function_name.to_string()).unwrap_or_default(),
        }
    }

    /// What was logged before is not logged again.
    fn log(
        &mut self,
        level: Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        if self.at(Replay::is_new) {
            let line = LogLine { key: &self.key, level, message: &message, fields: &fields };
            self.shared.observer.logged(line);
        }
        Ok(())
    }

    fn is_live(&mut self) -> bool {
        self.at(Replay::is_live)
    }
}
