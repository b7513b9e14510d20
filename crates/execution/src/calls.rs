//! What a running guest asks for, answered from its journal or appended to it (J-72, C-30).
//!
//! Every call asks [`Replay`] first: a recorded answer is returned, an absent one is appended. Live
//! and replayed runs take the same path.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use indelible_http::Request;
use indelible_journal::{
    CallLookup, ErrorKind, Failure, FunctionName, Idempotency, Invoke, InvokeKind, JoinSetId,
    Journal, JournalKey, Micros, Outcome, Payload, PromiseId, Replay, ReplayError, ReplayMatch,
    RetryPolicy, Rule, Timestamp, Violation,
};

use indelible_records::labels::Label;
use indelible_records::timers::Timer;

use crate::Tree;
use crate::context::{Cx, Purpose};
use crate::execution::{Phase, number};
use crate::guest::{Refusal, WaitRequest, WaitResult};
use crate::tree::Work;

/// Why a call has no answer.
pub(crate) enum CallStop {
    /// The guest's mistake: it traps.
    Mistake(String),
    /// The execution cannot go on, and is stuck for this reason (C-25).
    Stuck(String),
    /// The guest must stop; its tree knows why.
    Doomed,
}

impl From<ReplayError> for CallStop {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Refused(refused) => Self::Mistake(refused.to_string()),
            ReplayError::Diverged(divergence) => Self::Stuck(divergence.to_string()),
        }
    }
}

impl From<Violation> for CallStop {
    /// The journal must accept what replay answered as absent: if not, the engine has made a
    /// mistake (D1).
    fn from(violation: Violation) -> Self {
        Self::Stuck(format!(
            "the engine was about to break a journal rule (a defect of Indelible): {violation}"
        ))
    }
}

/// What a running guest can ask of its tree: one method for each function of `interface host`.
pub struct GuestCalls<'a> {
    tree: &'a mut Tree,
    cx: Cx<'a>,
    key: &'a JournalKey,
}

impl GuestCalls<'_> {
    /// The guest calls a function: a promise, or (inner Err) a failure that the guest can handle.
    pub fn call(self, function: &str, input: Payload) -> Result<Result<u32, Failure>, Refusal> {
        self.with(|tree, cx, key| tree.call(cx, key, function, input))
    }

    /// The guest wants a request to be sent. Err of `policy`: why the policy makes no sense.
    pub fn http(
        self,
        request: &Request,
        policy: Result<RetryPolicy, String>,
    ) -> Result<u32, Refusal> {
        self.with(|tree, cx, key| tree.http(cx, key, request, policy))
    }

    /// The guest starts a timer.
    pub fn start_timer(self, duration: Micros) -> Result<u32, Refusal> {
        self.with(|tree, cx, key| tree.start_timer(cx, key, duration))
    }

    /// The guest waits. After `Pending`, it asks for the same wait again at every resume.
    pub fn wait(self, want: &WaitRequest) -> Result<Poll<WaitResult>, Refusal> {
        self.with(|tree, cx, key| tree.wait(cx, key, want))
    }

    /// The guest creates a join set.
    pub fn create_join_set(self) -> Result<u32, Refusal> {
        self.with(Tree::create_join_set)
    }

    /// The guest puts a call into a join set.
    pub fn submit(self, join_set: u32, promise: u32) -> Result<(), Refusal> {
        self.with(|tree, cx, key| tree.submit(cx, key, join_set, promise))
    }

    /// The guest wants the time.
    pub fn now(self) -> Result<Timestamp, Refusal> {
        self.with(Tree::now)
    }

    /// The guest wants random bytes.
    pub fn random(self, length: usize) -> Result<Bytes, Refusal> {
        self.with(|tree, cx, key| tree.random(cx, key, length))
    }

    /// The guest labels its execution (C-79).
    pub fn label(self, label: Label) -> Result<(), Refusal> {
        self.with(|tree, _, key| tree.label(key, label))
    }

    /// Calls `call` with the tree and the guest's execution, if the guest may go on at all.
    fn with<T>(
        self,
        call: impl FnOnce(&mut Tree, Cx<'_>, &JournalKey) -> Result<T, CallStop>,
    ) -> Result<T, Refusal> {
        let Self { tree, cx, key } = self;
        let may = tree.may_go_on(key, cx.limits.journal_events_max);
        may.and_then(|()| call(tree, cx, key)).map_err(|stopped| match stopped {
            CallStop::Mistake(message) => Refusal::Trap(message),
            CallStop::Doomed => Refusal::Stop,
            CallStop::Stuck(why) => {
                if let Some(execution) = tree.find(key) {
                    execution.stuck = Some(why);
                }
                Refusal::Stop
            }
        })
    }
}

impl Tree {
    /// What the guest of this execution can ask for, while it runs.
    pub fn guest<'a>(&'a mut self, cx: Cx<'a>, key: &'a JournalKey) -> GuestCalls<'a> {
        GuestCalls { tree: self, cx, key }
    }

    /// Asks about a guest's place in its journal: [`Replay::is_new`], [`Replay::is_live`].
    pub fn guest_is(
        &self,
        key: &JournalKey,
        place: impl FnOnce(&Replay, &Journal) -> bool,
    ) -> bool {
        let Some(execution) = self.executions.get(key) else { return false };
        execution.replay.as_ref().is_some_and(|replay| place(replay, &execution.journal))
    }

    /// The function that an execution runs.
    pub fn function(&self, key: &JournalKey) -> Option<&FunctionName> {
        Some(&self.executions.get(key)?.journal.started()?.function_name)
    }
}

impl Tree {
    fn may_go_on(&mut self, key: &JournalKey, events_max: u64) -> Result<(), CallStop> {
        let Some(execution) = self.find(key) else { return Err(CallStop::Doomed) };
        if !matches!(execution.phase, Phase::Running { doomed: None, .. }) {
            return Err(CallStop::Doomed);
        }
        // The bound is for new entries only: a guest that replays a full journal has to come to
        // where it was, or it would seem to have diverged.
        let journal = &execution.journal;
        let live = execution.replay.as_ref().is_some_and(|replay| replay.is_live(journal));
        if live && journal.len() >= events_max {
            let message = format!("its journal has reached the limit of {events_max} events");
            return Err(CallStop::Mistake(message));
        }
        Ok(())
    }

    /// The guest calls a function.
    fn call(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        name: &str,
        input: Payload,
    ) -> Result<Result<u32, Failure>, CallStop> {
        self.not_volatile(key, "call functions")?;
        let refused = |message: String| Ok(Err(Failure::new(ErrorKind::NotPerformed, message)));
        let function = match FunctionName::new(name) {
            Ok(function) => function,
            Err(error) => return refused(format!("invalid function name: {error}")),
        };
        let (journal, replay) = self.execution(key).guest_place();
        let asked = replay.invoke(journal, InvokeKind::Function, &function, &input);
        let (promise, found) = match asked {
            Ok(asked) => asked,
            // The depth follows from the id alone: a replay is refused too.
            Err(ReplayError::Refused(refusal)) if refusal.rule == Rule::J82 => {
                return refused(refusal.reason);
            }
            Err(error) => return Err(error.into()),
        };
        if found == CallLookup::Absent {
            // The bound is for new calls only, and traps: a bound that has changed since the first
            // run must not lead a replay elsewhere (D6).
            let (bytes, max) = (input.bytes.len(), cx.limits.payload_bytes_max);
            if bytes > max {
                let message =
                    format!("the input of the call has {bytes} bytes; at most {max} are allowed");
                return Err(CallStop::Mistake(message));
            }
            self.schedule_call(cx, key, &promise, function, input)?;
        }
        Ok(Ok(number(&promise)))
    }

    /// Records a new call. A function that no component has is refused.
    fn schedule_call(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        promise: &PromiseId,
        function_name: FunctionName,
        input: Payload,
    ) -> Result<(), CallStop> {
        let journal = &self.execution(key).journal;
        let own = *journal.component_digest().expect("it has started");
        let mut callee = cx.surroundings.callee(&own, &function_name);
        if let Ok(retry_policy) = &callee
            && retry_policy.class.idempotency != Idempotency::Idem
            && self.reconciles(cx, key)
        {
            callee = Err("a reconciler may only call functions that are `idem`".to_owned());
        }
        let (retry_policy, refused) = match callee {
            Ok(retry_policy) => (retry_policy, None),
            Err(why) => (Arc::default(), Some(why)),
        };
        let invoke = Invoke { kind: InvokeKind::Function, function_name, input, retry_policy };
        self.schedule_invoke(cx, key, promise, invoke, refused)
    }

    /// Records a new call or effect. A refused one is over at once: its guest learns that when it
    /// waits, live and replayed alike. The others go into the list of work.
    pub(crate) fn schedule_invoke(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        promise: &PromiseId,
        invoke: Invoke,
        refused: Option<String>,
    ) -> Result<(), CallStop> {
        let now = cx.now;
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
        self.add_weight(bytes);
        Ok(())
    }

    fn start_timer(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        duration: Micros,
    ) -> Result<u32, CallStop> {
        let (journal, replay) = self.execution(key).guest_place();
        let (promise, recorded) = replay.timer(journal, duration)?;
        let child = number(&promise);
        if recorded == ReplayMatch::Absent {
            let (_, entry) = journal.schedule_timer(cx.now, duration)?;
            let due = entry.timestamp().saturating_add(duration);
            self.written(key, [entry]);
            self.put_timer(Timer { due, key: key.clone(), child: Some(child) });
        }
        Ok(child)
    }

    fn create_join_set(&mut self, cx: Cx<'_>, key: &JournalKey) -> Result<u32, CallStop> {
        self.not_volatile(key, "use join sets")?;
        let (journal, replay) = self.execution(key).guest_place();
        let (join_set, recorded) = replay.join_set(journal)?;
        let child = number(join_set.place());
        if recorded == ReplayMatch::Absent {
            let (_, entry) = journal.create_join_set(cx.now)?;
            self.written(key, [entry]);
        }
        Ok(child)
    }

    fn submit(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        join_set: u32,
        promise: u32,
    ) -> Result<(), CallStop> {
        let own = key.execution_id();
        let (join_set, promise) = (JoinSetId::at(own.child(join_set)), own.child(promise));
        let (journal, replay) = self.execution(key).guest_place();
        if replay.submit(journal, &join_set, &promise)? == ReplayMatch::Absent {
            let entry = journal.submit(cx.now, &join_set, &promise)?;
            // A submission takes no number, so replay counts it as seen only when it is asked
            // again.
            replay.submit(journal, &join_set, &promise)?;
            self.written(key, [entry]);
        }
        Ok(())
    }

    fn now(&mut self, cx: Cx<'_>, key: &JournalKey) -> Result<Timestamp, CallStop> {
        let (journal, replay) = self.execution(key).guest_place();
        if let Some(time) = replay.now(journal)? {
            return Ok(time);
        }
        let (time, entry) = journal.record_time(cx.now)?;
        self.written(key, [entry]);
        Ok(time)
    }

    fn random(&mut self, cx: Cx<'_>, key: &JournalKey, length: usize) -> Result<Bytes, CallStop> {
        let (journal, replay) = self.execution(key).guest_place();
        if let Some(bytes) = replay.random(journal, length)? {
            return Ok(bytes.clone());
        }
        let mut bytes = vec![0; length];
        cx.surroundings.fill(Purpose::Guest(&journal.next_promise()), &mut bytes);
        let bytes = Bytes::from(bytes);
        let (_, entry) = journal.generate_random(cx.now, bytes.clone())?;
        self.written(key, [entry]);
        self.add_weight(length);
        Ok(bytes)
    }

    /// Gives the guest's execution a label: a change of its row in the commit of this step, without an
    /// event (C-79). An earlier run committed what it did before its last stored event, so its
    /// replay changes nothing; what it did behind that is done again, and the last value wins.
    fn label(&mut self, key: &JournalKey, label: Label) -> Result<(), CallStop> {
        let bytes = label.name().len() + label.value().len();
        let execution = self.execution(key);
        let (journal, replay) = execution.guest_place();
        if !replay.is_new(journal) {
            return Ok(());
        }
        let labelled = execution.labels.set(label);
        if labelled.map_err(|error| CallStop::Mistake(error.to_string()))? {
            self.touch(key);
            self.add_weight(bytes);
        }
        Ok(())
    }

    /// The outcome of a resolved promise.
    pub(crate) fn outcome(&mut self, key: &JournalKey, promise: &PromiseId) -> Outcome {
        match self.execution(key).journal.result(promise) {
            Some(outcome) => outcome.clone(),
            // It is a timer.
            None => Outcome::Ok(Payload::empty()),
        }
    }
}
