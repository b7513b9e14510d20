//! HTTP effects of an execution: scheduled by its guest, started when it has a permit, sent when
//! the start is durable, and settled by how the attempt ended (D2, D5, J-71, C-29, C-38, C-41).
//!
//! `indelible_operations::effect` decides what follows an attempt; this module records it.

use std::sync::Arc;
use std::time::Duration;

use indelible_http::{End, Request, Response};
use indelible_idempotency::{ConsumerNamespace, KeyMinter};
use indelible_journal::{
    Attempt, CallLookup, Codec, ErrorKind, Failure, FunctionName, Idempotency, Invoke, InvokeKind,
    InvokePhase, JournalKey, Micros, OnUnknown, OpenInvoke, Outcome, Payload, PromiseId,
    RetryCause, RetryPolicy, SpanId, Started, TraceContext,
};
use indelible_machine::Guard;
use indelible_operations::effect::{self, Ended, Next, Situation, Unknown};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::calls::CallStop;
use crate::cancel::NOT_BEGUN;
use crate::context::Cx;
use crate::execution::{Phase, number};
use crate::input::EffectReport;
use crate::load::LoadError;
use crate::output::{AttemptRef, EffectSend, Notice, Outgoing, Severity};
use crate::retry::backoff;
use crate::tree::Work;
use crate::volatile::{is_volatile, kills};

/// The longest that an attempt may take, if its effect sets no timeout.
const TIMEOUT: Micros = Micros::from_secs(30);

/// An attempt that begins with less time than this before its deadline is not bound by the
/// deadline.
const LEFT_MIN: Micros = Micros::from_millis(100);

/// The namespace in which the keys of effects are minted: not part of the key (I-29).
const KEYS_OF: &str = "indelible";

/// How an attempt ended, as far as the engine knows.
pub(crate) enum AttemptEnd {
    /// As its sender reported.
    To(End),
    /// A process that died started it: its outcome is unknown.
    EngineLost,
}

impl AttemptEnd {
    fn ended(&self) -> Ended {
        match self {
            Self::To(End::Answered(response)) => Ended::Answered { status: response.status },
            Self::To(End::TooLarge(_)) => Ended::TooLarge,
            Self::To(End::NotSent { .. }) => Ended::NotSent,
            Self::To(End::Refused { .. }) => Ended::Refused,
            Self::To(End::Unknown { timed_out: true, .. }) => Ended::Unknown(Unknown::TimedOut),
            Self::To(End::Unknown { .. }) => Ended::Unknown(Unknown::NoAnswer),
            Self::EngineLost => Ended::Unknown(Unknown::EngineLost),
        }
    }

    /// A text for people.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::To(End::Answered(response)) => format!("the response was {}", response.status),
            Self::To(End::TooLarge(response)) => {
                format!("the response was {}, with a body above the size limit", response.status)
            }
            Self::To(End::NotSent { why }) => format!("the request was not sent: {why}"),
            Self::To(End::Refused { why }) => format!("the request is not allowed: {why}"),
            Self::To(End::Unknown { why, .. }) => why.clone(),
            Self::EngineLost => "the engine stopped while the request was in flight".to_owned(),
        }
    }

    fn response(&self) -> Option<&Response> {
        match self {
            Self::To(End::Answered(response) | End::TooLarge(response)) => Some(response),
            _ => None,
        }
    }

    /// A failure of this kind, with the response, if there was one.
    pub(crate) fn failure(&self, kind: ErrorKind) -> Failure {
        let detail = self.response().map(|response| Payload::new(Codec::HTTP, response.encode()));
        Failure { kind, message: self.why(), detail }
    }
}

impl Tree {
    /// The guest wants a request to be sent.
    pub(crate) fn http(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        request: &Request,
        policy: Result<RetryPolicy, String>,
    ) -> Result<u32, CallStop> {
        let label = FunctionName::new(&request.label()).expect("a label is a name");
        let input = Payload::new(Codec::HTTP, request.encode());
        let (journal, replay) = self.execution(key).guest_place();
        let (promise, found) = replay.invoke(journal, InvokeKind::Http, &label, &input)?;
        if found == CallLookup::Absent {
            let (bytes, max) = (input.bytes.len(), cx.limits.payload_bytes_max);
            if bytes > max {
                let message = format!("the request has {bytes} bytes; at most {max} are allowed");
                return Err(CallStop::Mistake(message));
            }
            let policy = policy.and_then(|policy| self.may_send(cx, key, policy));
            let (retry_policy, refused) = match policy {
                Ok(policy) => (Arc::new(policy), None),
                Err(why) => (Arc::default(), Some(why)),
            };
            let kind = InvokeKind::Http;
            let invoke = Invoke { kind, function_name: label, input, retry_policy };
            self.schedule_invoke(cx, key, &promise, invoke, refused)?;
        }
        Ok(number(&promise))
    }

    /// Whether an execution may send under this policy; the policy to use.
    fn may_send(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        mut policy: RetryPolicy,
    ) -> Result<RetryPolicy, String> {
        // An effect of a volatile execution cannot be held: it is in no list, so an operator would
        // not find it, and its guest waits in memory.
        if self.execution(key).volatile {
            policy.on_unknown = OnUnknown::Indeterminate;
        }
        if policy.class.idempotency == Idempotency::NonIdem && self.reconciles(cx, key) {
            return Err("a reconciler may only send requests that are `idem`".to_owned());
        }
        if let Some(reconciler) = &policy.reconciler {
            let own = self.execution(key).journal.component_digest().copied();
            let name = reconciler.function.as_str();
            let function = own.and_then(|own| cx.surroundings.function(&own, name).ok().flatten());
            match function {
                None => {
                    return Err(format!(
                        "the reconciler {name:?} is not a function of this component"
                    ));
                }
                // The answer of a reconciler must be found again after a crash.
                Some((_, policy)) if is_volatile(&policy) => {
                    return Err(format!(
                        "the reconciler {name:?} is volatile; a reconciler must be durable"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(policy)
    }

    /// An attempt at an effect is due, the first or another: it asks the host for a permit.
    pub(crate) fn want_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(open) = self.may_begin(cx, key, child) else { return };
        let Some(attempt) = next_attempt(&open) else { return };
        let own = *self.execution(key).journal.component_digest().expect("it has started");
        let names = cx.surroundings.names_of(&own);
        let component = names.first().map_or("", String::as_str).into();
        let label = open.function_name.as_str().into();
        let place = AttemptRef { key: key.clone(), child, attempt, component, label };
        self.notices.push(Notice::RoomWanted(place));
    }

    /// An effect of which an attempt may begin now. An effect that was cancelled is settled
    /// instead.
    fn may_begin(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) -> Option<OpenInvoke> {
        let execution = self.find(key)?;
        // A stuck execution begins nothing, and an ending one drops what has not begun (C-40).
        if matches!(execution.phase, Phase::Stuck { .. } | Phase::Ending { .. } | Phase::Ended) {
            return None;
        }
        let open = execution.journal.open_invoke(&key.execution_id().child(child))?;
        if matches!(open.phase, InvokePhase::Started { .. }) {
            return None;
        }
        let cancelled = execution.journal.cancel_requested().map(|(at, _)| at);
        if cancelled.is_some_and(|at| open.scheduled_at < at) {
            self.settle_unbegun(cx, key, child, NOT_BEGUN);
            return None;
        }
        Some(open)
    }

    /// An attempt at an effect begins: it is recorded as started, and sent when that is durable
    /// (D2).
    pub(crate) fn start_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32, permit: Guard) {
        let Some(open) = self.may_begin(cx, key, child) else { return };
        let promise = open.promise_id.clone();
        let execution = self.execution(key);
        let own = *execution.journal.component_digest().expect("it has started");
        let trace_parent = trace_parent(execution.journal.started(), &promise);
        let request = match execution.unstarted.remove(&child) {
            Some(request) => execution.requests.entry(child).insert_entry(request).get().clone(),
            None => match execution.requests.get(&child) {
                Some(request) => request.clone(),
                // The effect was dropped when its caller ended.
                None => return,
            },
        };
        let now = cx.now;
        let attempt = match execution.journal.start_invoke(now, &promise) {
            Ok((attempt, entry)) => {
                execution.in_flight.insert(child, attempt);
                self.written(key, [entry]);
                attempt
            }
            Err(violation) => return self.breaks(key, &violation),
        };
        if let InvokePhase::Retrying { retry_at, .. } = open.phase {
            self.delete_timer(Timer { due: retry_at, key: key.clone(), child: Some(child) });
        }
        let sending = EffectSend {
            key: key.clone(),
            run: self.execution(key).run,
            child,
            attempt,
            request,
            idempotency_key: idempotency_key(&promise),
            trace_parent,
            components: cx.surroundings.names_of(&own),
            timeout: timeout(&open, now.saturating_since(open.scheduled_time)),
            response_bytes_max: cx.limits.payload_bytes_max,
            idem: open.retry_policy.class.idempotency == Idempotency::Idem,
            permit,
        };
        self.pending.outgoing.push(Outgoing::Send(Box::new(sending)));
    }

    /// Whether this attempt at an effect is the next to begin.
    pub(crate) fn is_next(&mut self, key: &JournalKey, child: u32, attempt: Attempt) -> bool {
        let promise = key.execution_id().child(child);
        let open = self.find(key).and_then(|execution| execution.journal.open_invoke(&promise));
        open.is_some_and(|open| next_attempt(&open) == Some(attempt))
    }

    /// An attempt has ended, or a late answer came.
    pub(crate) fn effect_ended(&mut self, cx: Cx<'_>, ended: EffectReport) {
        let EffectReport { key, run, child, attempt, end } = ended;
        match self.load(cx, &key) {
            Ok(()) => {}
            // A late answer, to an execution that was volatile or is purged.
            Err(LoadError::Absent) => return,
            Err(error) => {
                let message = "end of an effect cannot be recorded";
                return self.trouble(Severity::Error, message, key.execution_id(), &error);
            }
        }
        let execution = self.execution(&key);
        if execution.run != run {
            // An earlier run of the volatile root sent it, and was released.
            return;
        }
        if execution.in_flight.get(&child) != Some(&attempt) {
            return self.late_answer(cx, &key, child, attempt, end);
        }
        execution.in_flight.remove(&child);
        self.settle_effect(cx, &key, child, &AttemptEnd::To(end));
    }

    /// An attempt at an effect or a volatile call was started by a process that died: its outcome
    /// is unknown (C-41).
    pub(crate) fn effect_lost(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(execution) = self.find(key) else { return };
        if execution.lost.remove(&child) {
            self.touch(key);
            self.settle_effect(cx, key, child, &AttemptEnd::EngineLost);
        }
    }

    /// Settles an attempt that is over: an outcome, another attempt, a question or a hold.
    fn settle_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32, came: &AttemptEnd) {
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        let InvokePhase::Started { attempt, .. } = open.phase else { return };
        let closing = matches!(execution.phase, Phase::Ending { .. });
        let now = cx.now;
        let asked = came.response().and_then(|response| response.retry_after(now.as_micros()));
        let asked = Micros::new(
            asked.map_or(0, |wait| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)),
        );
        let wait = backoff(cx, key, &open.retry_policy, open.retries_counted).max(asked);
        let retry_at = now.saturating_add(wait);
        let deadline = open.retry_policy.deadline;
        let situation = Situation {
            policy: &open.retry_policy,
            retries_counted: open.retries_counted,
            maybe_performed: open.maybe_performed,
            in_time: deadline.is_none_or(|all| retry_at <= open.scheduled_time.saturating_add(all)),
            closing,
        };
        match effect::after(came.ended(), &situation) {
            Next::Answer => {
                let response = came.response().expect("it was answered");
                let payload = Payload::new(Codec::HTTP, response.encode());
                self.complete_effect(cx, key, child, Outcome::Ok(payload));
            }
            Next::TooLarge => {
                let failure = came.failure(ErrorKind::Uncategorized);
                self.complete_effect(cx, key, child, failure.into());
            }
            Next::Fail(kind) => {
                let failure = came.failure(kind);
                self.complete_effect(cx, key, child, failure.into());
            }
            Next::Indeterminate => {
                let failure = came.failure(ErrorKind::Indeterminate);
                self.leave_doubt(cx, key, &open, &failure.message);
                self.complete_effect(cx, key, child, failure.into());
            }
            Next::Again { cause: RetryCause::EngineLost, error } if kills(&open, attempt) => {
                let failure = came.failure(error);
                self.complete_effect(cx, key, child, failure.into());
            }
            Next::Again { cause, error } => {
                let failure = Failure::new(error, came.why());
                let journal = &mut self.execution(key).journal;
                match journal.retry_invoke(now, &promise, cause, failure, retry_at) {
                    Ok(entry) => {
                        self.written(key, [entry]);
                        let (key, child) = (key.clone(), Some(child));
                        self.put_timer(Timer { due: retry_at, key, child });
                    }
                    Err(violation) => self.breaks(key, &violation),
                }
            }
            Next::Ask => self.unknown(cx, key, &open, &came.why(), true),
            Next::Hold => self.unknown(cx, key, &open, &came.why(), false),
        }
    }

    /// Records the outcome of an effect.
    pub(crate) fn complete_effect(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        outcome: Outcome,
    ) {
        let weight = match &outcome {
            Outcome::Ok(payload) => payload.bytes.len(),
            Outcome::Err(failure) => failure.detail.as_ref().map_or(0, |detail| detail.bytes.len()),
        };
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        execution.requests.remove(&child);
        match execution.journal.complete_invoke(cx.now, &promise, outcome) {
            Ok(entry) => {
                self.written(key, [entry]);
                self.add_weight(weight);
                self.child_ended(cx, key, child);
            }
            Err(violation) => self.breaks(key, &violation),
        }
    }

    /// Settles an effect that is not in flight and will not be: as cancelled; or as Indeterminate,
    /// if an earlier attempt may have happened and the effect is not `idem`.
    pub(crate) fn settle_unbegun(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        reason: &str,
    ) {
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        execution.unstarted.remove(&child);
        let Some(open) = execution.journal.open_invoke(&promise) else {
            execution.requests.remove(&child);
            return;
        };
        if let InvokePhase::Retrying { retry_at, .. } = open.phase {
            self.delete_timer(Timer { due: retry_at, key: key.clone(), child: Some(child) });
        }
        let idem = open.retry_policy.class.idempotency == Idempotency::Idem;
        // A function is tried again only after an attempt that had an outcome or no effect (C-32).
        let failure = if open.kind == InvokeKind::Http && open.maybe_performed && !idem {
            let message = format!("an earlier attempt may have succeeded; {reason}");
            self.leave_doubt(cx, key, &open, &message);
            Failure::new(ErrorKind::Indeterminate, message)
        } else {
            Failure::new(ErrorKind::Cancelled, reason)
        };
        self.execution(key).requests.remove(&child);
        self.settle_open(cx, key, &promise, failure);
    }

    /// Begins retries that became due while their execution was stuck.
    pub(crate) fn begin_due(&mut self, cx: Cx<'_>, key: &JournalKey) {
        let now = cx.now;
        let due = |open: &OpenInvoke| match open.phase {
            InvokePhase::Retrying { retry_at, .. } => retry_at <= now,
            _ => false,
        };
        let open = self.execution(key).journal.open_invokes();
        let open = open.filter(|open| open.kind == InvokeKind::Http).filter(due);
        let starts: Vec<_> =
            open.map(|open| Work::Start(key.clone(), number(&open.promise_id))).collect();
        self.work.extend(starts);
    }

    /// The next attempt at an effect, or the next question to its reconciler, is due. True: the
    /// timer's row stays.
    pub(crate) fn effect_time(
        &mut self,
        cx: Cx<'_>,
        timer: &Timer,
        open: &OpenInvoke,
        child: u32,
    ) -> bool {
        let held = matches!(self.execution(&timer.key).phase, Phase::Stuck { .. });
        match open.phase {
            // The attempt begins when its execution is released.
            InvokePhase::Retrying { .. } if held => true,
            InvokePhase::Retrying { retry_at, .. } if retry_at == timer.due => {
                self.want_effect(cx, &timer.key, child);
                // The row is deleted when the attempt begins; if the effect is over, the row is
                // deleted already.
                let open = self.execution(&timer.key).journal.open_invoke(&open.promise_id);
                open.is_some()
            }
            InvokePhase::Started { .. } => self.question_time(cx, timer, open, child),
            _ => false,
        }
    }
}

/// How long an attempt may take, if its effect was scheduled `since` ago.
fn timeout(open: &OpenInvoke, since: Micros) -> Duration {
    let own = open.retry_policy.attempt_timeout.unwrap_or(TIMEOUT);
    let left = open.retry_policy.deadline.map(|all| all.get().saturating_sub(since.get()));
    // An attempt that begins after the deadline was asked for by a person: it has the time of any
    // attempt.
    let left = left.filter(|left| *left >= LEFT_MIN.get());
    Duration::from_micros(left.map_or(own.get(), |left| left.min(own.get())))
}

/// The `Idempotency-Key` of every attempt at an effect: minted from the promise, which all attempts
/// share, those of its caller included (I-2, C-29, C-32).
pub(crate) fn idempotency_key(promise: &PromiseId) -> String {
    minted([&promise.to_string()])
}

/// The `traceparent` of an effect: the trace of its execution, under the span of this step. It is
/// computed at each send and not journaled, so no replay can depend on it.
fn trace_parent(started: Option<&Started>, promise: &PromiseId) -> Option<String> {
    let started = started?;
    let context = TraceContext::of(started.trace_parent.as_ref()?)?;
    Some(context.under(SpanId::of_step(promise, &started.attempts)).to_string())
}

/// A name made of parts, none of which is blank.
pub(crate) fn minted<const N: usize>(parts: [&str; N]) -> String {
    let namespace = ConsumerNamespace::new(KEYS_OF).expect("it is a name");
    let key = KeyMinter::new(namespace).mint(parts);
    key.expect("no part is blank").value().to_owned()
}

/// The attempt that begins next; none if one is in flight, or all numbers are used.
fn next_attempt(open: &OpenInvoke) -> Option<Attempt> {
    match open.phase {
        InvokePhase::Scheduled => Some(Attempt::FIRST),
        InvokePhase::Started { .. } => None,
        InvokePhase::Retrying { failed, .. } => failed.next(),
    }
}

/// The attempt in flight, as the journal has it.
pub(crate) fn attempt_of(open: &OpenInvoke) -> Option<Attempt> {
    match open.phase {
        InvokePhase::Started { attempt, .. } => Some(attempt),
        _ => None,
    }
}
