//! What an accepted event changes. It cannot fail: `check` has accepted the event.

use std::sync::Arc;

use super::index::{
    Child, Delivery, InputHash, InvokeState, JoinSet, LiveWait, Membership, Phase, Signal, Timer,
};
use super::{Cancel, Ending, Journal};
use crate::event::{Event, Record, Sequence};
use crate::ids::PromiseId;
use crate::payload::{ErrorKind, Outcome};
use crate::policy::RetryCause;
use crate::status::Status;

const CHECKED: &str = "check accepted the event";

/// Where the last one stands. There are no more of them than children.
fn last_index(members: &[u32]) -> u32 {
    u32::try_from(members.len() - 1).expect("children have u32 numbers")
}

impl Journal {
    pub(super) fn apply(&mut self, record: &Record) {
        let at = record.sequence;
        let calls = (self.children.len(), self.submitted, self.taken);
        match &record.event {
            Event::ExecutionStarted(started) => self.started = Some(started.clone()),
            Event::ExecutionCompleted { result } => {
                self.ending = Some(Ending::Completed(result.clone()));
            }
            Event::ExecutionFailed { error } => self.ending = Some(Ending::Failed(error.clone())),
            Event::CancelRequested { reason } => {
                self.cancel = Some(Cancel { at, reason: reason.clone() });
            }
            Event::ExecutionCancelled { reason } => {
                self.ending = Some(Ending::Cancelled(reason.clone()));
            }
            Event::InvokeScheduled { kind, function_name, input, retry_policy, .. } => {
                self.children.push(Child::Invoke(InvokeState {
                    scheduled_at: at,
                    scheduled_time: record.timestamp,
                    kind: *kind,
                    function_name: function_name.clone(),
                    input: InputHash::of(input),
                    retry_policy: Arc::clone(retry_policy),
                    phase: Phase::Scheduled,
                    retries_counted: 0,
                    maybe_performed: false,
                    membership: None,
                }));
            }
            Event::InvokeStarted { promise_id, attempt } => {
                self.invoke_mut(promise_id).phase = Phase::Started(*attempt, record.timestamp);
                self.effect_started = true;
            }
            Event::InvokeCompleted { promise_id, result, .. } => {
                self.completed(promise_id, result, at);
            }
            Event::InvokeRetrying { promise_id, failed_attempt, cause, error, retry_at } => {
                let invoke = self.invoke_mut(promise_id);
                invoke.phase = Phase::Retrying(*failed_attempt, *retry_at);
                invoke.retries_counted += u32::from(cause.counts());
                invoke.maybe_performed |= match cause {
                    RetryCause::EngineLost | RetryCause::Operator => true,
                    RetryCause::Failed => error.kind != ErrorKind::NotPerformed,
                    RetryCause::NotSent | RetryCause::ReconciledNotDone => false,
                };
            }
            Event::RandomGenerated { value, .. } => {
                self.children.push(Child::Random(value.clone()));
            }
            Event::TimeRecorded { time, .. } => self.children.push(Child::Time(*time)),
            Event::TimerScheduled { duration, fire_at, .. } => {
                let timer = Timer { duration: *duration, fire_at: *fire_at, fired_at: None };
                self.children.push(Child::Timer(timer));
            }
            Event::TimerFired { promise_id } => {
                let number = self.number(promise_id);
                let Child::Timer(timer) = &mut self.children[number as usize] else {
                    unreachable!("{CHECKED}")
                };
                timer.fired_at = Some(at);
                self.count_resolved(number);
            }
            Event::SignalDelivered { signal_name, payload, .. } => {
                self.signals.deliver(signal_name, self.deliveries.len());
                self.unread_bytes += payload.bytes.len();
                let delivery = Delivery { name: signal_name.clone(), payload: payload.clone() };
                self.deliveries.push(delivery);
            }
            Event::SignalReceived { promise_id, signal_name, payload, .. } => {
                self.signals.consume(signal_name);
                // `check` has made sure that this is the payload of the delivery.
                self.unread_bytes -= payload.bytes.len();
                let (name, payload) = (signal_name.clone(), payload.clone());
                self.children.push(Child::Signal(Signal { name, payload, received_at: at }));
                self.count_resolved(self.number(promise_id));
            }
            Event::ExecutionAwaiting { waiting_on, .. } => {
                self.wait = waiting_on.listed().map(|_| LiveWait {
                    resolved: self.resolutions(waiting_on).filter(|(_, at)| at.is_some()).count(),
                });
            }
            Event::ExecutionResumed => {}
            Event::JoinSetCreated { .. } => self.children.push(Child::JoinSet(Box::default())),
            Event::JoinSetSubmitted { join_set_id, promise_id } => {
                let set = self.number(join_set_id.place());
                let member = self.number(promise_id);
                self.submitted += 1;
                let submitted = {
                    let set = self.join_set_mut(set);
                    set.members.push(member);
                    last_index(&set.members)
                };
                let invoke = self.invoke_mut(promise_id);
                invoke.membership = Some(Membership { set, submitted, taken: None });
                if let Some(at) = invoke.completed_at() {
                    self.ready(set, member, at);
                }
            }
            Event::JoinSetAwaited { join_set_id, promise_id, .. } => {
                self.take(self.number(join_set_id.place()), promise_id);
            }
        }
        if matches!(record.event, Event::ExecutionAwaiting { .. }) {
            self.awaited_at = Some(at);
        } else if calls != (self.children.len(), self.submitted, self.taken) {
            self.awaited_at = None;
        }
        self.length += 1;
        self.last_timestamp = record.timestamp;
        self.status = Some(self.status.take().unwrap_or(Status::Running).after(&record.event));
        if self.wait.is_some() && !matches!(self.status, Some(Status::Blocked { .. })) {
            self.wait = None;
        }
    }

    fn completed(&mut self, promise: &PromiseId, result: &Outcome, at: Sequence) {
        let number = self.number(promise);
        let invoke = self.invoke_mut(promise);
        invoke.phase = Phase::Completed { at, result: result.clone() };
        if let Some(set) = invoke.join_set() {
            self.ready(set, number, at);
        }
        self.count_resolved(number);
    }

    /// Counts a child towards the present wait, if there is one and it is a member.
    fn count_resolved(&mut self, number: u32) {
        if let (Some(wait), Some(Status::Blocked { waiting_on, .. })) =
            (&mut self.wait, &self.status)
            && waiting_on.lists_number(number)
        {
            wait.resolved += 1;
        }
    }

    /// Queues a completed member by when it completed, whenever it was submitted (C-37). Nearly
    /// always it goes to the end.
    fn ready(&mut self, set: u32, member: u32, at: Sequence) {
        let Child::JoinSet(state) = &self.children[set as usize] else { unreachable!("{CHECKED}") };
        let earlier = |other: &u32| {
            self.children[*other as usize].resolved_at().is_some_and(|resolved| resolved < at)
        };
        let place = match state.ready.back() {
            Some(last) if !earlier(last) => state.ready.partition_point(earlier),
            _ => state.ready.len(),
        };
        let state = self.join_set_mut(set);
        state.ready.insert(place, member);
        state.ready_count += 1;
    }

    fn take(&mut self, set: u32, promise: &PromiseId) {
        let member = self.number(promise);
        self.taken += 1;
        let taken = {
            let set = self.join_set_mut(set);
            set.taken.push(member);
            set.ready_count -= 1;
            last_index(&set.taken)
        };
        self.invoke_mut(promise).membership.as_mut().expect(CHECKED).taken = Some(taken);
        // Usually the member taken is at the front. If not, it stays in the queue until those
        // before it are taken: each member is passed over once.
        while let Some(front) = self.join_set_mut(set).ready.front().copied() {
            match &self.children[front as usize] {
                Child::Invoke(invoke) if invoke.is_taken() => {
                    self.join_set_mut(set).ready.pop_front()
                }
                _ => break,
            };
        }
    }

    fn number(&self, promise: &PromiseId) -> u32 {
        promise.number_in(self.key.execution_id()).expect(CHECKED)
    }

    fn invoke_mut(&mut self, promise: &PromiseId) -> &mut InvokeState {
        let number = self.number(promise);
        match &mut self.children[number as usize] {
            Child::Invoke(invoke) => invoke,
            _ => unreachable!("{CHECKED}"),
        }
    }

    fn join_set_mut(&mut self, number: u32) -> &mut JoinSet {
        match &mut self.children[number as usize] {
            Child::JoinSet(set) => set,
            _ => unreachable!("{CHECKED}"),
        }
    }
}
