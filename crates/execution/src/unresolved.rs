//! Effects of which nobody knows whether they happened (D5): their reconciler is asked, or they
//! wait for a person; a person, or an answer that comes late, resolves them (C-38).

use indelible_http::End;
use indelible_journal::{
    Attempt, Codec, ErrorKind, Failure, JournalKey, Micros, OpenInvoke, Outcome, Payload,
    PromiseId, RetryCause, Timestamp,
};
use indelible_operations::effect::{self, Next};
use indelible_records::idempotency_keys::Answer;
use indelible_records::timers::Timer;
use indelible_records::unresolved::{Asking, Effect, State, Unresolved};

use crate::Tree;
use crate::audit::{About, Actor};
use crate::context::Cx;
use crate::effects::{Came, attempt_of};
use crate::execution::{Phase, number};
use crate::input::{NotDone, Reconciled, Resolution, Resolve};
use crate::output::Outgoing;
use crate::reconcile::{self, Answered, Which};
use crate::retry::backoff;
use crate::unresolved_effect::UnresolvedEffect;

/// How often a reconciler is asked that does not know.
const QUESTIONS_MAX: u32 = 20;

/// When a question that could not be asked is asked again.
const NOT_ASKED: Micros = Micros::from_secs(10);

/// Who is said to have done what no person did.
const PEER: &str = "peer";

impl Tree {
    /// Nobody knows how an attempt ended, and its effect is not `idem`.
    pub(crate) fn unknown(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        open: &OpenInvoke,
        attempt: Attempt,
        why: String,
        ask: bool,
    ) {
        let (now, label) = (cx.now, open.function_name.to_string());
        let state = if ask {
            State::Asking(Asking { answers: 0, not_done: false, ask_at: now })
        } else {
            State::Held
        };
        let unresolved = Unresolved { attempt, since: now, label, why, state };
        self.put_unresolved(key, number(&open.promise_id), unresolved);
    }

    fn put_unresolved(&mut self, key: &JournalKey, child: u32, now: Unresolved) {
        let effect = Effect { key: key.clone(), child };
        match now.state {
            State::Asking(Asking { ask_at, .. }) => {
                self.put_timer(Timer { due: ask_at, key: key.clone(), child: Some(child) });
            }
            State::Held => {
                let shown = Box::new(UnresolvedEffect::new(effect.clone(), now.clone()));
                self.pending.outgoing.push(Outgoing::Held(shown));
            }
        }
        if !self.execution(key).volatile {
            self.pending.unresolved.push((effect, Some(now.clone())));
        }
        self.execution(key).unresolved.insert(child, now);
        self.touch(key);
    }

    /// It is not unresolved any more.
    pub(crate) fn take_unresolved(&mut self, key: &JournalKey, child: u32) -> Option<Unresolved> {
        let taken = self.execution(key).unresolved.remove(&child)?;
        if let State::Asking(Asking { ask_at, .. }) = taken.state {
            self.delete_timer(Timer { due: ask_at, key: key.clone(), child: Some(child) });
        }
        if !self.execution(key).volatile {
            self.pending.unresolved.push((Effect { key: key.clone(), child }, None));
        }
        Some(taken)
    }

    /// The time of the next question has come. True: the timer's row stays until it is answered.
    pub(crate) fn question_time(
        &mut self,
        cx: Cx<'_>,
        timer: &Timer,
        open: &OpenInvoke,
        child: u32,
    ) -> bool {
        let key = &timer.key;
        let Some(unresolved) = self.execution(key).unresolved.get(&child) else { return false };
        let State::Asking(asking) = unresolved.state else { return false };
        if asking.ask_at != timer.due {
            return false;
        }
        let (attempt, question) = (unresolved.attempt, asking.answers + 1);
        let which = Which { key, child, attempt, question };
        let Some(request) = self.execution(key).requests.get(&child).cloned() else {
            return false;
        };
        let own = *self.execution(key).journal.component_digest().expect("it has started");
        match reconcile::ask(cx, own, open, &which, &request) {
            Ok(reconcile::Asked::Begins(root, start)) => {
                self.pending.outgoing.push(Outgoing::Tell(root, *start));
            }
            Ok(reconcile::Asked::UnderWay) => {}
            Ok(reconcile::Asked::Answered(answered)) => {
                self.answered(cx, key, child, asking, answered);
            }
            Err(why) => {
                self.trouble(format!("a reconciler of {key:#} is not asked: {why}"));
                let ask_at = cx.now.saturating_add(NOT_ASKED);
                self.ask_again(key, child, Asking { ask_at, ..asking });
            }
        }
        // It is deleted with the answer.
        true
    }

    /// A reconciler has answered.
    pub(crate) fn reconciled(&mut self, cx: Cx<'_>, answer: Reconciled) {
        let Reconciled { execution, operation_id, answered } = answer;
        // It may be over meanwhile.
        let Ok(key) = self.latest(cx, &execution) else { return };
        let Some(child) = reconcile::child_of(&operation_id) else { return };
        let Some(unresolved) = self.execution(&key).unresolved.get(&child) else { return };
        let State::Asking(asking) = unresolved.state else { return };
        let (attempt, question) = (unresolved.attempt, asking.answers + 1);
        let which = Which { key: &key, child, attempt, question };
        // It may have been told twice, or be about an attempt that is over.
        if reconcile::operation_id(&which) == operation_id {
            self.answered(cx, &key, child, asking, answered);
        }
    }

    /// What follows an answer of the reconciler's.
    fn answered(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        asking: Asking,
        answered: Answered,
    ) {
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        let Some(unresolved) = execution.unresolved.get(&child) else { return };
        let question = asking.answers + 1;
        let settle = open.retry_policy.reconciler.as_ref().map_or(Micros::ZERO, |r| r.settle);
        let settled_at = unresolved.since.saturating_add(settle);
        let now = cx.now;
        match answered {
            Answered::Happened(response) => {
                self.take_unresolved(key, child);
                let payload = Payload::new(Codec::HTTP, response.encode());
                self.complete_effect(cx, key, child, Outcome::Ok(payload));
            }
            // Said twice, and late enough: a request on the wire can arrive after the question.
            Answered::DidNotHappen if asking.not_done && now >= settled_at => {
                let message = "its reconciler says that it did not happen";
                let deadline = open.retry_policy.deadline;
                let over =
                    deadline.is_some_and(|all| now > open.scheduled_time.saturating_add(all));
                if over && open.maybe_performed {
                    let why = "an attempt before may have happened, and its deadline has passed";
                    return self.unanswered(cx, key, child, &open, why);
                }
                self.take_unresolved(key, child);
                if over {
                    let message = format!("{message}, and its deadline has passed");
                    let failure = Failure::new(ErrorKind::NotPerformed, message);
                    return self.complete_effect(cx, key, child, failure.into());
                }
                let failure = Failure::new(ErrorKind::NotPerformed, message);
                self.again(cx, key, child, RetryCause::ReconciledNotDone, failure, now);
            }
            Answered::DidNotHappen => {
                let next =
                    Asking { answers: question, not_done: true, ask_at: settled_at.max(now) };
                self.ask_again(key, child, next);
            }
            Answered::NotKnownYet => {
                let wait = backoff(cx, key, &open.retry_policy, question - 1);
                let ask_at = now.saturating_add(wait);
                let deadline = open.retry_policy.deadline;
                let in_time =
                    deadline.is_none_or(|all| ask_at <= open.scheduled_time.saturating_add(all));
                if question < QUESTIONS_MAX && in_time {
                    let next = Asking { answers: question, not_done: false, ask_at };
                    return self.ask_again(key, child, next);
                }
                let why = "its reconciler cannot say whether it happened";
                self.unanswered(cx, key, child, &open, why);
            }
        }
    }

    fn ask_again(&mut self, key: &JournalKey, child: u32, next: Asking) {
        let Some(unresolved) = self.take_unresolved(key, child) else { return };
        let unresolved = Unresolved { state: State::Asking(next), ..unresolved };
        self.put_unresolved(key, child, unresolved);
    }

    /// Nobody is left to ask.
    fn unanswered(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        open: &OpenInvoke,
        why: &str,
    ) {
        let Some(unresolved) = self.take_unresolved(key, child) else { return };
        let why = format!("{}; {why}", unresolved.why);
        match effect::unresolved(&open.retry_policy, false) {
            Next::Hold => {
                let held = Unresolved { state: State::Held, why, ..unresolved };
                self.put_unresolved(key, child, held);
            }
            _ => {
                let failure = Failure::new(ErrorKind::Indeterminate, why);
                self.complete_effect(cx, key, child, failure.into());
            }
        }
    }

    /// Its caller ends, and nobody has said whether it happened: nobody will (C-40).
    pub(crate) fn close_unresolved(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(unresolved) = self.take_unresolved(key, child) else { return };
        let message = format!("{}; its caller has ended", unresolved.why);
        let failure = Failure::new(ErrorKind::Indeterminate, message);
        self.complete_effect(cx, key, child, failure.into());
    }

    /// Another attempt at an effect of which nobody knew.
    fn again(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        cause: RetryCause,
        failure: Failure,
        at: Timestamp,
    ) {
        let promise = key.execution_id().child(child);
        let journal = &mut self.execution(key).journal;
        match journal.retry_invoke(cx.now, &promise, cause, failure, at) {
            Ok(entry) => {
                self.written(key, [entry]);
                self.put_timer(Timer { due: at, key: key.clone(), child: Some(child) });
            }
            Err(violation) => self.breaks(key, &violation),
        }
    }

    /// A person says how an effect ended (C-38).
    pub(crate) fn resolve(&mut self, cx: Cx<'_>, resolve: &Resolve) -> Result<Answer, NotDone> {
        let Some(execution) = resolve.promise.parent() else { return Err(NotDone::Unknown) };
        let key = self.latest(cx, &execution)?;
        let child = number(&resolve.promise);
        let conflict = |why: String| Err(NotDone::NotUnresolved(why));
        let execution = self.execution(&key);
        if !execution.unresolved.contains_key(&child) {
            let journal = &execution.journal;
            return match (journal.result(&resolve.promise), journal.open_invoke(&resolve.promise)) {
                (Some(Outcome::Err(failure)), _) if failure.kind == ErrorKind::Indeterminate => {
                    conflict("it ended as Indeterminate, and its workflow knows that".to_owned())
                }
                (Some(outcome), _) => conflict(format!("it is over: {}", kind_of(outcome))),
                (None, Some(open)) if attempt_of(&open).is_some() => {
                    conflict("an attempt is in flight".to_owned())
                }
                (None, Some(_)) => conflict("its next attempt has not begun".to_owned()),
                (None, None) => Err(NotDone::Unknown),
            };
        }
        if matches!(execution.phase, Phase::Held { .. }) {
            return conflict("its execution is held, and has to be released first".to_owned());
        }
        let cancelled = execution.journal.cancel_requested().map(|(at, _)| at);
        let open = execution.journal.open_invoke(&resolve.promise);
        let called_back =
            open.is_some_and(|open| cancelled.is_some_and(|at| open.scheduled_at < at));
        if called_back && resolve.resolution == Resolution::RunAgain {
            return conflict("its execution is being cancelled: nothing of it begins".to_owned());
        }
        self.take_unresolved(&key, child);
        let person = resolve.actor.as_str();
        match &resolve.resolution {
            Resolution::Happened(response) => {
                let payload = Payload::new(Codec::HTTP, response.encode());
                self.complete_effect(cx, &key, child, Outcome::Ok(payload));
            }
            Resolution::DidNotHappen => {
                let message = format!("{person} says that it did not happen");
                let failure = Failure::new(ErrorKind::NotPerformed, message);
                self.complete_effect(cx, &key, child, failure.into());
            }
            Resolution::RunAgain => {
                let message = format!("{person} has it run again");
                let failure = Failure::new(ErrorKind::Indeterminate, message);
                let now = cx.now;
                self.again(cx, &key, child, RetryCause::Operator, failure, now);
            }
        }
        let (action, reason) = (resolve.resolution.action(), &resolve.reason);
        self.audit_effect(cx, &resolve.actor, &key, &resolve.promise, action, reason);
        Ok(Answer::Done)
    }

    /// An answer came after its attempt was given up. If nobody has said how it ended, it says;
    /// otherwise it changes nothing, and is put on record.
    pub(crate) fn late_answer(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        attempt: Attempt,
        end: End,
    ) {
        let (response, too_large) = match end {
            End::Answered(response) => (response, false),
            End::TooLarge(response) => (response, true),
            End::NotSent { .. } | End::Refused { .. } | End::Unknown { .. } => return,
        };
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        let policy = execution.journal.open_invoke(&promise).map(|open| open.retry_policy);
        let says_nothing = policy.is_some_and(|policy| policy.is_no_answer(response.status));
        let waits = execution.unresolved.get(&child).is_some_and(|own| own.attempt == attempt);
        if waits && !says_nothing {
            self.take_unresolved(key, child);
            if too_large {
                let failure = Came::To(End::TooLarge(response)).failure(ErrorKind::Uncategorized);
                return self.complete_effect(cx, key, child, failure.into());
            }
            let payload = Payload::new(Codec::HTTP, response.encode());
            return self.complete_effect(cx, key, child, Outcome::Ok(payload));
        }
        let actor = Actor::new(PEER);
        let reason = format!("attempt {attempt} was answered {} after all", response.status);
        self.audit_effect(cx, &actor, key, &promise, "late answer", &reason);
    }

    fn audit_effect(
        &mut self,
        cx: Cx<'_>,
        actor: &Actor,
        key: &JournalKey,
        promise: &PromiseId,
        action: &str,
        reason: &str,
    ) {
        let about = About::Promise(key.clone(), promise.clone());
        self.pending.audit.push(crate::audit::entry(
            cx.surroundings,
            cx.now,
            actor,
            about,
            action,
            reason,
        ));
    }
}

/// How something ended, in a few words.
fn kind_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok(_) => "it was answered".to_owned(),
        Outcome::Err(failure) => failure.kind.to_string(),
    }
}
