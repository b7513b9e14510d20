//! HTTP effects of an execution: scheduled by its guest, started when there is room, sent when that
//! is durable, and settled by what came of it (D2, D5, J-71, C-29, C-38, C-41).
//!
//! What follows an attempt is decided in `indelible_operations::effect`; here it is written down.

use std::sync::Arc;
use std::time::Duration;

use indelible_http::{End, Request, Response};
use indelible_idempotency::{ConsumerNamespace, KeyMinter};
use indelible_journal::{
    Attempt, Codec, ErrorKind, Failure, Found, FunctionName, Idempotency, Invoke, InvokeKind,
    InvokePhase, JournalKey, Micros, OnUnknown, OpenInvoke, Outcome, Payload, PromiseId,
    RetryCause, RetryPolicy, SpanId, Started, TraceContext,
};
use indelible_machine::Guard;
use indelible_operations::effect::{self, Ended, Next, Situation, Unknown};
use indelible_records::timers::Timer;

use crate::Tree;
use crate::calls::Stopped;
use crate::cancel::NOT_BEGUN;
use crate::context::Cx;
use crate::execution::{Phase, number};
use crate::input::EffectEnded;
use crate::load::LoadError;
use crate::output::{Notice, Outgoing, Place, Sending};
use crate::retry::backoff;
use crate::tree::Work;
use crate::volatile::{is_volatile, kills};

/// How long an attempt may take, if its effect does not say.
const TIMEOUT: Micros = Micros::from_secs(30);

/// Less than this before its deadline, an attempt has no use for what is left.
const LEFT_MIN: Micros = Micros::from_millis(100);

/// Whose keys those are that effects send: not part of the key (I-29).
const KEYS_OF: &str = "indelible";

/// How an attempt came to its end, as far as the engine knows.
pub(crate) enum Came {
    /// As its sender said.
    To(End),
    /// Another process started it: nobody knows.
    EngineLost,
}

impl Came {
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

    /// For people.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::To(End::Answered(response)) => format!("it was answered {}", response.status),
            Self::To(End::TooLarge(response)) => {
                format!("it was answered {}, with a larger body than it may have", response.status)
            }
            Self::To(End::NotSent { why }) => format!("it was not sent: {why}"),
            Self::To(End::Refused { why }) => format!("it may not be sent: {why}"),
            Self::To(End::Unknown { why, .. }) => why.clone(),
            Self::EngineLost => "the engine stopped while it was in flight".to_owned(),
        }
    }

    fn response(&self) -> Option<&Response> {
        match self {
            Self::To(End::Answered(response) | End::TooLarge(response)) => Some(response),
            _ => None,
        }
    }

    /// A failure of this kind, with what was answered, if anything was.
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
    ) -> Result<u32, Stopped> {
        let label = FunctionName::new(&request.label()).expect("a label is a name");
        let input = Payload::new(Codec::HTTP, request.encode());
        let (journal, replay) = self.execution(key).guest_place();
        let (promise, found) = replay.invoke(journal, InvokeKind::Http, &label, &input)?;
        if found == Found::Absent {
            let (bytes, max) = (input.bytes.len(), cx.limits.payload_bytes_max);
            if bytes > max {
                let message = format!("a request has {bytes} bytes; at most {max} are allowed");
                return Err(Stopped::Mistake(message));
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

    /// Whether an execution may send under this policy.
    fn may_send(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        mut policy: RetryPolicy,
    ) -> Result<RetryPolicy, String> {
        // Nobody would find it: what is volatile is in no list, and its guest waits in memory.
        if self.execution(key).volatile {
            policy.on_unknown = OnUnknown::Indeterminate;
        }
        if policy.class.idempotency == Idempotency::NonIdem && self.reconciles(cx, key) {
            return Err("a reconciler may send only what is idem".to_owned());
        }
        if let Some(reconciler) = &policy.reconciler {
            let own = self.execution(key).journal.component_digest().copied();
            let name = reconciler.function.as_str();
            let function = own.and_then(|own| cx.surroundings.function(&own, name).ok().flatten());
            match function {
                None => {
                    return Err(format!(
                        "its reconciler {name:?} is no function of this component"
                    ));
                }
                // Whether it was asked, and what it said, must be found again.
                Some((_, policy)) if is_volatile(&policy) => {
                    return Err(format!("its reconciler {name:?} is volatile"));
                }
                Some(_) => {}
            }
        }
        Ok(policy)
    }

    /// An attempt at an effect is due, the first or another: it begins when there is room for it.
    pub(crate) fn want_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(open) = self.may_begin(cx, key, child) else { return };
        let Some(attempt) = next_attempt(&open) else { return };
        let own = *self.execution(key).journal.component_digest().expect("it has started");
        let names = cx.surroundings.names_of(&own);
        let component = names.first().map_or("", String::as_str).into();
        let label = open.function_name.as_str().into();
        let place = Place { key: key.clone(), child, attempt, component, label };
        self.notices.push(Notice::RoomWanted(place));
    }

    /// An effect of which an attempt may begin. One that was cancelled before is over.
    fn may_begin(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) -> Option<OpenInvoke> {
        let execution = self.find(key)?;
        // What is held is left as it is, and an end drops what has not begun (C-40).
        if matches!(execution.phase, Phase::Held { .. } | Phase::Ending { .. } | Phase::Ended) {
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

    /// An attempt at an effect begins: it is written as started, and leaves when that is durable (D2).
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
                // It was dropped with its caller's end.
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
        let sending = Sending {
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
    pub(crate) fn effect_ended(&mut self, cx: Cx<'_>, ended: EffectEnded) {
        let EffectEnded { key, run, child, attempt, end } = ended;
        match self.load(cx, &key) {
            Ok(()) => {}
            // An answer that came late, to what was volatile or is swept.
            Err(LoadError::Absent) => return,
            Err(error) => {
                return self.trouble(format!("{key:#} does not hear of its request: {error}"));
            }
        }
        let execution = self.execution(&key);
        if execution.run != run {
            // It was asked for by one that was released, and this is another.
            return;
        }
        if execution.in_flight.get(&child) != Some(&attempt) {
            return self.late_answer(cx, &key, child, attempt, end);
        }
        execution.in_flight.remove(&child);
        self.settle_effect(cx, &key, child, &Came::To(end));
    }

    /// An attempt that another process started, at an effect or a volatile call: nobody knows how it
    /// ended (C-41).
    pub(crate) fn effect_lost(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(execution) = self.find(key) else { return };
        if execution.lost.remove(&child) {
            self.touch(key);
            self.settle_effect(cx, key, child, &Came::EngineLost);
        }
    }

    /// What follows an attempt that is over.
    fn settle_effect(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32, came: &Came) {
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
            Next::Ask => self.unknown(cx, key, &open, attempt, came.why(), true),
            Next::Hold => self.unknown(cx, key, &open, attempt, came.why(), false),
        }
    }

    /// An effect has an outcome.
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
                self.weighs(weight);
                self.child_ended(cx, key, child);
            }
            Err(violation) => self.breaks(key, &violation),
        }
    }

    /// An effect that is not in flight, and will not be, is over: as cancelled, unless an attempt
    /// before may have happened and must not happen twice.
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
        execution.requests.remove(&child);
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        if let InvokePhase::Retrying { retry_at, .. } = open.phase {
            self.delete_timer(Timer { due: retry_at, key: key.clone(), child: Some(child) });
        }
        let idem = open.retry_policy.class.idempotency == Idempotency::Idem;
        // Of a function that is tried again, the attempt before had an outcome or no effect (C-32).
        let failure = if open.kind == InvokeKind::Http && open.maybe_performed && !idem {
            let message = format!("an attempt may have happened; {reason}");
            Failure::new(ErrorKind::Indeterminate, message)
        } else {
            Failure::new(ErrorKind::Cancelled, reason)
        };
        self.settle_open(cx, key, &promise, failure);
    }

    /// Retries that were due while their execution was held begin.
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

    /// The time of an effect's next attempt, or of the next question to its reconciler, has come.
    /// True: the timer's row stays.
    pub(crate) fn effect_time(
        &mut self,
        cx: Cx<'_>,
        timer: &Timer,
        open: &OpenInvoke,
        child: u32,
    ) -> bool {
        let held = matches!(self.execution(&timer.key).phase, Phase::Held { .. });
        match open.phase {
            // It is begun when its execution is released.
            InvokePhase::Retrying { .. } if held => true,
            InvokePhase::Retrying { retry_at, .. } if retry_at == timer.due => {
                self.want_effect(cx, &timer.key, child);
                // It goes when the attempt begins; if that has not to begin any more, it has gone.
                let open = self.execution(&timer.key).journal.open_invoke(&open.promise_id);
                open.is_some()
            }
            InvokePhase::Started { .. } => self.question_time(cx, timer, open, child),
            _ => false,
        }
    }
}

/// How long an attempt may take, of an effect that was asked for so long ago.
fn timeout(open: &OpenInvoke, since: Micros) -> Duration {
    let own = open.retry_policy.attempt_timeout.unwrap_or(TIMEOUT);
    let left = open.retry_policy.deadline.map(|all| all.get().saturating_sub(since.get()));
    // What begins when the deadline is over, a person wants: it has the time of any attempt.
    let left = left.filter(|left| *left >= LEFT_MIN.get());
    Duration::from_micros(left.map_or(own.get(), |left| left.min(own.get())))
}

/// What every attempt at an effect sends as its `Idempotency-Key`: minted from the promise, which
/// all attempts share, also those of its caller (I-2, C-29, C-32).
pub(crate) fn idempotency_key(promise: &PromiseId) -> String {
    minted([&promise.to_string()])
}

/// What an effect sends as `traceparent`: the trace of its execution, under the span of this step.
/// It is computed whenever it is sent, and not journaled: no replay can depend on it.
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

/// The attempt that begins next; none if one is in flight, or there are no more numbers.
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
