//! Effects whose outcome is unknown (D5). Their reconciler is asked, or they are held for a person;
//! a person, or a late answer, resolves them (C-38).

use indelible_http::End;
use indelible_journal::{
    Attempt, Codec, ErrorKind, Failure, JournalKey, Micros, OpenInvoke, Outcome, Payload,
    PromiseId, RetryCause, Timestamp,
};
use indelible_operations::effect::{self, Next};
use indelible_records::doubts::{
    Doubt, DoubtId, DoubtState, Finding, ReconcilerProgress, Settlement,
};
use indelible_records::idempotency_keys::Answer;
use indelible_records::timers::Timer;

use crate::Tree;
use crate::audit::{Actor, AuditSubject};
use crate::context::Cx;
use crate::doubts::{add_answer, is_meant, settlement};
use crate::effects::{AttemptEnd, attempt_of};
use crate::execution::{Phase, number};
use crate::input::{CommandRefusal, ReconcilerReply, Resolution, Resolve};
use crate::output::{Outgoing, Severity};
use crate::reconcile::{self, QuestionId, ReconcilerAnswer};
use crate::retry::backoff;

/// How many times a reconciler is asked that does not know.
const QUESTIONS_MAX: u32 = 20;

/// How long to wait after a question that could not be asked.
const NOT_ASKED: Micros = Micros::from_secs(10);

/// The actor of a late answer in the audit record.
const PEER: &str = "peer";

/// The actor of what a reconciler found.
const RECONCILER: &str = "reconciler";

impl Tree {
    /// The outcome of an attempt is unknown, and its effect is not `idem`.
    pub(crate) fn unknown(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        open: &OpenInvoke,
        why: &str,
        ask: bool,
    ) {
        let state = if ask {
            let progress = ReconcilerProgress { answers: 0, not_done: false, ask_at: cx.now };
            DoubtState::Asking(progress)
        } else {
            DoubtState::Held
        };
        let doubt = self.new_doubt(cx, key, open, why, state);
        self.put_unresolved(cx, key, number(&open.promise_id), None, doubt);
    }

    /// The execution waits for the answer to a doubt: a new one, or one that was put before.
    fn put_unresolved(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        before: Option<Doubt>,
        doubt: Doubt,
    ) {
        let id = DoubtId { key: key.clone(), child };
        if let DoubtState::Asking(ReconcilerProgress { ask_at, .. }) = doubt.state {
            self.put_timer(Timer { due: ask_at, key: key.clone(), child: Some(child) });
        }
        // A volatile execution has no rows: its doubts are stored when they end.
        if !self.execution(key).volatile {
            match before {
                None => self.open_doubt(cx, id, doubt.clone()),
                Some(before) => {
                    if doubt.state == DoubtState::Held {
                        self.tell_of_doubt(&id, &doubt);
                    }
                    self.write_doubt(id, Some(before), doubt.clone());
                }
            }
        }
        self.execution(key).unresolved.insert(child, doubt);
        self.touch(key);
    }

    /// The effect is not unresolved any more. Its doubt must be put again, ended or settled.
    #[must_use]
    fn take_unresolved(&mut self, key: &JournalKey, child: u32) -> Option<Doubt> {
        let taken = self.execution(key).unresolved.remove(&child)?;
        if let DoubtState::Asking(ReconcilerProgress { ask_at, .. }) = taken.state {
            self.delete_timer(Timer { due: ask_at, key: key.clone(), child: Some(child) });
        }
        Some(taken)
    }

    /// The reconciler found out what happened.
    fn found_out(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        finding: Finding,
        status: Option<u16>,
    ) {
        let Some(doubt) = self.take_unresolved(key, child) else { return };
        let (actor, reason) = (RECONCILER.to_owned(), "it was asked".to_owned());
        let settled = Settlement { finding, status, actor, reason, at_us: cx.now.as_micros() };
        self.settle_doubt(key, child, doubt, settled);
    }

    /// The next question is due. True: the timer's row stays until the question is answered.
    pub(crate) fn question_time(
        &mut self,
        cx: Cx<'_>,
        timer: &Timer,
        open: &OpenInvoke,
        child: u32,
    ) -> bool {
        let key = &timer.key;
        let Some(unresolved) = self.execution(key).unresolved.get(&child) else { return false };
        let DoubtState::Asking(asking) = unresolved.state else { return false };
        if asking.ask_at != timer.due {
            return false;
        }
        let (attempt, question) = (unresolved.attempt, asking.answers + 1);
        let which = QuestionId { key, child, attempt, question };
        let Some(request) = self.execution(key).requests.get(&child).cloned() else {
            return false;
        };
        let own = *self.execution(key).journal.component_digest().expect("it has started");
        match reconcile::ask(cx, own, open, &which, &request) {
            Ok(reconcile::QuestionOutcome::Start(root, start)) => {
                self.pending.outgoing.push(Outgoing::Tell(root, *start));
            }
            Ok(reconcile::QuestionOutcome::UnderWay) => {}
            Ok(reconcile::QuestionOutcome::ReconcilerAnswer(answered)) => {
                self.answered(cx, key, child, asking, answered);
            }
            Err(why) => {
                let message = "reconciler cannot be started";
                self.trouble(Severity::Warning, message, key.execution_id(), &why);
                let ask_at = cx.now.saturating_add(NOT_ASKED);
                self.ask_again(cx, key, child, ReconcilerProgress { ask_at, ..asking });
            }
        }
        // The row is deleted with the answer.
        true
    }

    /// A reconciler has answered.
    pub(crate) fn reconciled(&mut self, cx: Cx<'_>, answer: ReconcilerReply) {
        let ReconcilerReply { execution, operation_id, answered } = answer;
        // The execution may be over meanwhile.
        let Ok(key) = self.latest(cx, &execution) else { return };
        let Some(child) = reconcile::child_of(&operation_id) else { return };
        let Some(unresolved) = self.execution(&key).unresolved.get(&child) else { return };
        let DoubtState::Asking(asking) = unresolved.state else { return };
        let (attempt, question) = (unresolved.attempt, asking.answers + 1);
        let which = QuestionId { key: &key, child, attempt, question };
        // The answer may come twice, or be about an attempt that is over.
        if reconcile::operation_id(&which) == operation_id {
            self.answered(cx, &key, child, asking, answered);
        }
    }

    /// What follows an answer of the reconciler.
    fn answered(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        asking: ReconcilerProgress,
        answered: ReconcilerAnswer,
    ) {
        let promise = key.execution_id().child(child);
        let execution = self.execution(key);
        let Some(open) = execution.journal.open_invoke(&promise) else { return };
        let Some(unresolved) = execution.unresolved.get_mut(&child) else { return };
        // The next change of the doubt writes it.
        add_answer(unresolved, cx.now, answered.words());
        let question = asking.answers + 1;
        let settle = open.retry_policy.reconciler.as_ref().map_or(Micros::ZERO, |r| r.settle);
        let settled_at = unresolved.since.saturating_add(settle);
        let now = cx.now;
        match answered {
            ReconcilerAnswer::Happened(response) => {
                self.found_out(cx, key, child, Finding::Happened, Some(response.status));
                let payload = Payload::new(Codec::HTTP, response.encode());
                self.complete_effect(cx, key, child, Outcome::Ok(payload));
            }
            // Said twice, and late enough: a request on the wire can arrive after the question.
            ReconcilerAnswer::DidNotHappen if asking.not_done && now >= settled_at => {
                let message = "the reconciler found that it did not happen";
                let deadline = open.retry_policy.deadline;
                let over =
                    deadline.is_some_and(|all| now > open.scheduled_time.saturating_add(all));
                if over && open.maybe_performed {
                    let why = "an earlier attempt may have succeeded, and its deadline has passed";
                    return self.unanswered(cx, key, child, &open, why);
                }
                self.found_out(cx, key, child, Finding::DidNotHappen, None);
                if over {
                    let message = format!("{message}, and its deadline has passed");
                    let failure = Failure::new(ErrorKind::NotPerformed, message);
                    return self.complete_effect(cx, key, child, failure.into());
                }
                let failure = Failure::new(ErrorKind::NotPerformed, message);
                self.again(cx, key, child, RetryCause::ReconciledNotDone, failure, now);
            }
            ReconcilerAnswer::DidNotHappen => {
                let next = ReconcilerProgress {
                    answers: question,
                    not_done: true,
                    ask_at: settled_at.max(now),
                };
                self.ask_again(cx, key, child, next);
            }
            ReconcilerAnswer::NotKnownYet => {
                let wait = backoff(cx, key, &open.retry_policy, question - 1);
                let ask_at = now.saturating_add(wait);
                let deadline = open.retry_policy.deadline;
                let in_time =
                    deadline.is_none_or(|all| ask_at <= open.scheduled_time.saturating_add(all));
                if question < QUESTIONS_MAX && in_time {
                    let next = ReconcilerProgress { answers: question, not_done: false, ask_at };
                    return self.ask_again(cx, key, child, next);
                }
                let why = "the reconciler cannot tell whether it happened";
                self.unanswered(cx, key, child, &open, why);
            }
        }
    }

    fn ask_again(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32, next: ReconcilerProgress) {
        let Some(before) = self.take_unresolved(key, child) else { return };
        let doubt = Doubt { state: DoubtState::Asking(next), ..before.clone() };
        self.put_unresolved(cx, key, child, Some(before), doubt);
    }

    /// The reconciler cannot say: the effect is held, or over as Indeterminate.
    fn unanswered(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        open: &OpenInvoke,
        why: &str,
    ) {
        let Some(before) = self.take_unresolved(key, child) else { return };
        let why = format!("{}; {why}", before.why);
        match effect::unresolved(&open.retry_policy, false) {
            Next::Hold => {
                let held = Doubt { state: DoubtState::Held, why, ..before.clone() };
                self.put_unresolved(cx, key, child, Some(before), held);
            }
            _ => {
                self.end_doubt(cx, key, child, before, &why);
                let failure = Failure::new(ErrorKind::Indeterminate, why);
                self.complete_effect(cx, key, child, failure.into());
            }
        }
    }

    /// The caller of an unresolved effect ends: the effect is over as Indeterminate (C-40).
    pub(crate) fn close_unresolved(&mut self, cx: Cx<'_>, key: &JournalKey, child: u32) {
        let Some(before) = self.take_unresolved(key, child) else { return };
        let message = format!("{}; the caller has ended", before.why);
        self.end_doubt(cx, key, child, before, &message);
        let failure = Failure::new(ErrorKind::Indeterminate, message);
        self.complete_effect(cx, key, child, failure.into());
    }

    /// Schedules another attempt at an effect that was unresolved.
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

    /// A person says how an effect ended: one whose execution waits for it (C-38), or one that is
    /// over as Indeterminate (C-78).
    pub(crate) fn resolve(
        &mut self,
        cx: Cx<'_>,
        resolve: &Resolve,
    ) -> Result<Answer, CommandRefusal> {
        let Some(execution) = resolve.promise.parent() else { return Err(CommandRefusal::Unknown) };
        let child = number(&resolve.promise);
        let conflict = |why: &str| Err(CommandRefusal::NotUnresolved(why.to_owned()));
        let key = match self.latest(cx, &execution) {
            Ok(key) => key,
            // Its execution is over, and perhaps deleted; the doubt is not.
            Err(refused @ (CommandRefusal::Over(_) | CommandRefusal::Unknown)) => {
                return match self.settle_ended(cx, resolve) {
                    Err(CommandRefusal::Unknown) => Err(refused),
                    settled => settled,
                };
            }
            Err(refused) => return Err(refused),
        };
        let execution = self.execution(&key);
        let Some(unresolved) = execution.unresolved.get(&child) else {
            return match self.settle_ended(cx, resolve) {
                Err(CommandRefusal::Unknown) => self.not_unresolved(&key, &resolve.promise),
                settled => settled,
            };
        };
        is_meant(resolve, unresolved.attempt)?;
        if matches!(execution.phase, Phase::Stuck { .. }) {
            return conflict("its execution is stuck; release the execution first");
        }
        let cancelled = execution.journal.cancel_requested().map(|(at, _)| at);
        let open = execution.journal.open_invoke(&resolve.promise);
        let called_back =
            open.is_some_and(|open| cancelled.is_some_and(|at| open.scheduled_at < at));
        if called_back && resolve.resolution == Resolution::RunAgain {
            return conflict("its execution is being cancelled, so the effect cannot run again");
        }
        let Some(doubt) = self.take_unresolved(&key, child) else {
            return Err(CommandRefusal::Unknown);
        };
        let why = doubt.why.clone();
        let settled = settlement(cx, &resolve.resolution, &resolve.actor, &resolve.reason);
        self.settle_doubt(&key, child, doubt, settled);
        let person = resolve.actor.as_str();
        match &resolve.resolution {
            Resolution::Happened(response) => {
                let payload = Payload::new(Codec::HTTP, response.encode());
                self.complete_effect(cx, &key, child, Outcome::Ok(payload));
            }
            Resolution::DidNotHappen => {
                let message = format!("{person} reported that it did not happen");
                let failure = Failure::new(ErrorKind::NotPerformed, message);
                self.complete_effect(cx, &key, child, failure.into());
            }
            Resolution::RunAgain => {
                let message = format!("{person} asked for another attempt");
                let failure = Failure::new(ErrorKind::Indeterminate, message);
                let now = cx.now;
                self.again(cx, &key, child, RetryCause::Operator, failure, now);
            }
            Resolution::AcceptUnknown => {
                let message = format!("{why}; {person} accepted that it stays unknown");
                let failure = Failure::new(ErrorKind::Indeterminate, message);
                self.complete_effect(cx, &key, child, failure.into());
            }
        }
        self.audit_resolution(cx, &key, resolve);
        Ok(Answer::Done)
    }

    /// Why an effect of an execution that goes on cannot be resolved: there is no doubt about it.
    fn not_unresolved(
        &mut self,
        key: &JournalKey,
        promise: &PromiseId,
    ) -> Result<Answer, CommandRefusal> {
        let journal = &self.execution(key).journal;
        let why = match (journal.result(promise), journal.open_invoke(promise)) {
            (Some(outcome), _) => format!("it has already ended: {}", kind_of(outcome)),
            (None, Some(open)) if attempt_of(&open).is_some() => {
                "an attempt is in flight".to_owned()
            }
            (None, Some(_)) => "its next attempt has not begun".to_owned(),
            (None, None) => return Err(CommandRefusal::Unknown),
        };
        Err(CommandRefusal::NotUnresolved(why))
    }

    /// Notes a person's decision in the audit record.
    pub(crate) fn audit_resolution(&mut self, cx: Cx<'_>, key: &JournalKey, resolve: &Resolve) {
        let Resolve { promise, resolution, actor, reason, .. } = resolve;
        self.audit_effect(cx, actor, key, promise, resolution.action(), reason);
    }

    /// An answer came after its attempt was given up. Three cases: (1) the effect is still
    /// unresolved with this attempt: the answer is its outcome; (2) it ended as Indeterminate with
    /// this attempt: the answer settles the doubt, and the journal stays as it is (C-78); (3) else
    /// the answer only goes into the audit record.
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
        // An effect that is over has no policy any more: then the usual one tells.
        let says_nothing = policy.unwrap_or_default().is_no_answer(response.status);
        let waits = execution.unresolved.get(&child).is_some_and(|own| own.attempt == attempt);
        let reason = format!("attempt {attempt} received a late response: {}", response.status);
        let settled = Settlement {
            finding: Finding::Happened,
            status: Some(response.status),
            actor: PEER.to_owned(),
            reason: reason.clone(),
            at_us: cx.now.as_micros(),
        };
        if waits && !says_nothing {
            let Some(doubt) = self.take_unresolved(key, child) else { return };
            self.settle_doubt(key, child, doubt, settled);
            if too_large {
                let failure =
                    AttemptEnd::To(End::TooLarge(response)).failure(ErrorKind::Uncategorized);
                return self.complete_effect(cx, key, child, failure.into());
            }
            let payload = Payload::new(Codec::HTTP, response.encode());
            return self.complete_effect(cx, key, child, Outcome::Ok(payload));
        }
        if !says_nothing {
            let id = DoubtId { key: key.clone(), child };
            self.settle_by_answer(cx, &id, attempt, settled);
        }
        let actor = Actor::new(PEER);
        self.audit_effect(cx, &actor, key, &promise, "late response", &reason);
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
        let about = AuditSubject::Promise(key.clone(), promise.clone());
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

/// An outcome in a few words.
fn kind_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok(_) => "a response arrived".to_owned(),
        Outcome::Err(failure) => failure.kind.to_string(),
    }
}
