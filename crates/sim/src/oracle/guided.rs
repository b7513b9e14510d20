//! The guided oracle: it interprets the program of a tree, and takes from the journals what was
//! free to vary. Everything else is computed and compared: which calls are made, with which inputs,
//! how often each is tried, what it returns.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{
    Attempt, Ending, ErrorKind, ExecutionId, Idempotency, JournalKey, Micros, OnUnknown,
    RetryBound, RetryPolicy,
};
use serde_json::{Value, json};

use super::interpret::{
    self, AttemptResult, End, Facts, Failure, Halt, Outcome, Wait, WaitOutcome,
};
use super::recorded::{Child, Recorded, failure, value};
use crate::agree::callee;
use crate::ledger::{Ledger, Word};
use crate::store::StoredJournal;

/// How often each function of the guest is tried again, and whether also after it has begun a call
/// or an effect. `None`: there is no such function.
pub(super) fn policy(function: &str) -> Option<(u64, bool)> {
    match function {
        "main" => Some((0, false)),
        "idem" => Some((3, true)),
        "plain" => Some((3, false)),
        _ => None,
    }
}

/// The failure of a call of a function that the component does not have.
pub(super) fn nobody(function: &str) -> Failure {
    let message = format!("the component has no function {function:?}");
    Failure { kind: "NotPerformed", message }
}

const NOT_BEGUN: &str = "the execution was cancelled before it began";
const CALLER_ENDED: &str = "the caller has ended";
const OUT_OF_TIME: &str = " (the time limit for cleaning up passed)";

/// A tree whose journals are compared with its program.
pub(super) struct Tree<'a> {
    journals: BTreeMap<&'a JournalKey, Recorded>,
    ledger: &'a Ledger,
    /// How long cleaning up may take; `None` if the clock was set back.
    cleanup_max: Option<Micros>,
    seen: BTreeSet<JournalKey>,
}

/// What an attempt came to.
enum AttemptOutcome {
    Over(Outcome),
    /// Another one follows.
    Again,
}

impl<'a> Tree<'a> {
    pub(super) fn read(
        tree: &'a [StoredJournal],
        ledger: &'a Ledger,
        cleanup_max: Option<Micros>,
    ) -> Result<Self, String> {
        let mut journals = BTreeMap::new();
        for (key, records) in tree {
            journals.insert(key, Recorded::read(key, records, cleanup_max.is_some())?);
        }
        Ok(Self { journals, ledger, cleanup_max, seen: BTreeSet::new() })
    }

    /// The root's outcome. Every journal must be part of what leads to it.
    pub(super) fn root(
        mut self,
        root: &ExecutionId,
        function: &str,
        program: &Value,
    ) -> Result<Outcome, String> {
        let outcome = self.attempts(JournalKey::first(root.clone()), function, program)?;
        for key in self.journals.keys() {
            ensure!(self.seen.contains(key), "nothing in the program leads to {key:#}");
        }
        Ok(outcome)
    }

    /// All attempts at an execution, from its first.
    fn attempts(
        &mut self,
        first: JournalKey,
        function: &str,
        program: &Value,
    ) -> Result<Outcome, String> {
        let mut key = first;
        loop {
            let tried = self.attempt(&key, function, program)?;
            let next = key.next_attempt().ok_or("attempts have run out")?;
            let there = self.journals.contains_key(&next);
            match tried {
                AttemptOutcome::Over(outcome) => {
                    ensure!(!there, "{key:#} was not to be tried again");
                    return Ok(outcome);
                }
                AttemptOutcome::Again => ensure!(there, "{key:#} was to be tried again"),
            }
            key = next;
        }
    }

    fn attempt(
        &mut self,
        key: &JournalKey,
        function: &str,
        program: &Value,
    ) -> Result<AttemptOutcome, String> {
        self.seen.insert(key.clone());
        let recorded = self.journals.get(key).ok_or_else(|| format!("there is no {key:#}"))?;
        ensure!(recorded.function == function, "{key:#} runs {}", recorded.function);
        ensure!(recorded.input == *program, "{key:#} was given {}", recorded.input);
        self.asked_for(key, recorded)?;
        let mut calls = BTreeMap::new();
        for number in 0..recorded.children.len() as u32 {
            if let Some(outcome) = self.call(key, number)? {
                calls.insert(number, outcome);
            }
        }
        let recorded = &self.journals[key];
        let attempt = u64::from(key.attempts().own().get());
        let cut = matches!(&recorded.ending, Ending::Cancelled(why) if why.ends_with(OUT_OF_TIME));
        if self.is_abandoned(key, recorded) {
            return Ok(AttemptOutcome::Over(outcome(&recorded.ending)));
        }
        let wrong = |wrong: String| format!("{key:#}: {wrong}");
        let judged = |cut| {
            let mut guided = Guided { recorded, calls: &calls, attempt, cut, told: false };
            let ran = interpret::run(program, &mut guided);
            if let Halt::Wrong(what) = ran.halt {
                return Err(what);
            }
            all_is_used(&ran, recorded)?;
            if cut {
                self.time_was_over(recorded)?;
                return Ok(AttemptOutcome::Over(outcome(&recorded.ending)));
            }
            judge(&ran, recorded, function, attempt)
        };
        ensure!(
            !(cut && recorded.is_unknown_since_cancel()),
            "{key:#} was cancelled with something in flight, and nobody knows whether it happened"
        );
        let judgement = judged(cut);
        if judgement.is_err() && is_cancelled_unknown(recorded) {
            // This ending does not say whether the time to clean up was over: try that, too.
            return judged(true).map_err(wrong);
        }
        judgement.map_err(wrong)
    }

    /// A guest is not cut before its time to clean up is over. Not checked if the clock was set
    /// back.
    fn time_was_over(&self, recorded: &Recorded) -> Result<(), String> {
        let (Some((_, asked_at, _)), Some(cleanup_max)) = (&recorded.cancel, self.cleanup_max)
        else {
            return Ok(());
        };
        let due = asked_at.saturating_add(cleanup_max);
        ensure!(recorded.ended_at >= due, "it had until {due} to clean up");
        Ok(())
    }

    /// What a call came to; `None` if it never began and never completed.
    fn call(&mut self, caller: &JournalKey, number: u32) -> Result<Option<Outcome>, String> {
        let recorded = &self.journals[caller];
        let Child::Call { function, input, scheduled_at, started, completed } =
            &recorded.children[number as usize]
        else {
            return Ok(None);
        };
        let promise = caller.execution_id().child(number);
        let first = callee(caller, &promise, Attempt::FIRST);
        let begun = self.journals.contains_key(&first);
        if policy(function).is_none() {
            ensure!(!begun, "{promise:#} is nobody's, and began");
            let expected = Err(nobody(function));
            let got = completed.as_ref().map(|(_, outcome)| outcome);
            ensure!(got == Some(&expected), "{promise:#} is nobody's, and came to {got:?}");
            return Ok(Some(expected));
        }
        if !begun {
            let Some((_, outcome)) = completed else {
                ensure!(!started, "{promise:#} was started, and is not there");
                return Ok(None);
            };
            let never = Failure { kind: "Cancelled", message: NOT_BEGUN.to_owned() };
            ensure!(*outcome == Err(never), "{promise:#} never began, and came to {outcome:?}");
            let cancelled = recorded.cancel.as_ref().is_some_and(|(at, ..)| scheduled_at < at);
            ensure!(cancelled, "{promise:#} never began, and nobody cancelled its caller");
            return Ok(Some(outcome.clone()));
        }
        let (function, input, got) = (function.clone(), input.clone(), completed.clone());
        let outcome = self.attempts(first, &function, &input)?;
        let got = got.map(|(_, outcome)| outcome);
        ensure!(
            got.as_ref() == Some(&outcome),
            "{promise:#} came to {outcome:?}, and its caller got {got:?}"
        );
        Ok(Some(outcome))
    }

    /// Every recorded signal and cancel was asked for: signals by a client, cancels by a client or
    /// the parent.
    fn asked_for(&self, key: &JournalKey, recorded: &Recorded) -> Result<(), String> {
        let id = key.execution_id();
        for (place, (name, value)) in recorded.delivered.iter().enumerate() {
            let sent = self.ledger.signals.iter().any(|sent| {
                sent.id == *id
                    && sent.name == name
                    && json!(sent.value) == *value
                    && sent.word != Word::Refused
            });
            ensure!(sent, "nobody sent {value} to {key:#}");
            let twice = recorded.delivered[..place].iter().any(|(_, other)| other == value);
            ensure!(!twice, "{value} came to {key:#} twice");
        }
        let Some((.., reason)) = &recorded.cancel else { return Ok(()) };
        ensure!(
            self.may_be_cancelled(key, reason),
            "nobody asked to cancel {key:#} because of {reason:?}"
        );
        Ok(())
    }

    /// Whether a client or the parent asked to cancel this execution for this reason.
    fn may_be_cancelled(&self, key: &JournalKey, reason: &str) -> bool {
        let id = key.execution_id();
        let asked = self.ledger.cancels.iter().any(|cancel| {
            cancel.id == *id && cancel.reason == reason && cancel.word != Word::Refused
        });
        let caller = crate::agree::caller(key);
        let calling = caller.as_ref().and_then(|caller| self.journals.get(caller));
        let passed_on = calling.is_some_and(|calling| {
            reason == CALLER_ENDED
                || calling.cancel.as_ref().is_some_and(|(.., other)| other == reason)
        });
        asked || passed_on
    }

    /// Whether this is a retry that was cancelled before it was due. The cancel that ends it may be
    /// another than the one it inherited.
    fn is_abandoned(&self, key: &JournalKey, recorded: &Recorded) -> bool {
        let Ending::Cancelled(reason) = &recorded.ending else { return false };
        let next = key.attempts().own() > Attempt::FIRST;
        next && recorded.never_ran && self.may_be_cancelled(key, reason)
    }
}

/// The journal records what the program did, and no more.
fn all_is_used(ran: &AttemptResult, recorded: &Recorded) -> Result<(), String> {
    let count = recorded.children.len();
    ensure!(
        ran.numbers as usize == count,
        "the program asks for {} things, and {count} are recorded",
        ran.numbers
    );
    for (set, (submitted, taken)) in &ran.sets {
        let length = |of: &BTreeMap<u32, Vec<u32>>| of.get(set).map_or(0, Vec::len);
        let found = (length(&recorded.submitted), length(&recorded.taken));
        ensure!(found == (*submitted, *taken), "set {set} has {found:?} submitted and taken");
    }
    Ok(())
}

/// Whether an attempt ended as the program does.
fn judge(
    ran: &AttemptResult,
    recorded: &Recorded,
    function: &str,
    attempt: u64,
) -> Result<AttemptOutcome, String> {
    let ending = &recorded.ending;
    let asked = recorded.cancel.as_ref().map(|(.., reason)| reason.as_str()).unwrap_or_default();
    let holds = match &ran.halt {
        // A call or effect during the clean-up is Indeterminate, so the execution does not end as
        // Cancelled (C-24).
        Halt::End(End::Returned(_) | End::Failed(_))
            if ran.told && recorded.is_unknown_since_cancel() =>
        {
            is_cancelled_unknown(recorded)
        }
        Halt::End(End::Returned(_)) if ran.told => is_cancelled(ending, asked),
        Halt::End(End::Failed(failure)) if ran.told => {
            let Failure { kind, message } = failure;
            match *kind {
                "Cancelled" => is_cancelled(ending, asked),
                _ => {
                    is_cancelled(ending, &format!("{asked} (while cleaning up: {kind}: {message})"))
                }
            }
        }
        Halt::End(End::Returned(expected)) => {
            matches!(ending, Ending::Completed(payload) if value(payload) == *expected)
        }
        Halt::End(End::Failed(expected)) if expected.kind == "Transient" => {
            has_failed(ending, recorded, "Transient", &expected.message)
        }
        Halt::End(End::Failed(expected)) => {
            matches!(ending, Ending::Failed(error) if failure(error) == *expected)
        }
        Halt::End(End::Trapped(text)) => {
            has_failed(ending, recorded, "Trap", text.as_deref().unwrap_or_default())
        }
        _ => false,
    };
    ensure!(holds, "the program comes to {:?}, and it ended with {ending:?}", ran.halt);
    let failed = match &ran.halt {
        Halt::End(End::Trapped(_)) => true,
        Halt::End(End::Failed(failure)) => failure.kind == "Transient" && !ran.told,
        _ => false,
    };
    let (retries, idem) = policy(function).unwrap_or_default();
    let safe = (idem || !recorded.effect_started()) && !recorded.is_unknown();
    if failed && attempt <= retries && safe {
        return Ok(AttemptOutcome::Again);
    }
    Ok(AttemptOutcome::Over(outcome(ending)))
}

/// Whether an attempt failed with this kind and text. If one of its calls or effects ended as
/// Indeterminate, so does the attempt (C-32).
fn has_failed(ending: &Ending, recorded: &Recorded, kind: &str, text: &str) -> bool {
    let Ending::Failed(error) = ending else { return false };
    let failure = failure(error);
    let kind = if recorded.is_unknown() { "Indeterminate" } else { kind };
    failure.kind == kind && failure.message.contains(text)
}

fn is_cancelled(ending: &Ending, reason: &str) -> bool {
    matches!(ending, Ending::Cancelled(why) if why == reason)
}

/// Whether it was cancelled, and ended as Indeterminate.
fn is_cancelled_unknown(recorded: &Recorded) -> bool {
    let Some((.., asked)) = &recorded.cancel else { return false };
    let why = if asked.is_empty() { String::new() } else { format!(" ({asked})") };
    let begins = format!("the execution was cancelled{why}, and the outcome of");
    recorded.is_unknown_since_cancel()
        && matches!(&recorded.ending, Ending::Failed(error)
            if error.kind == ErrorKind::Indeterminate && error.message.starts_with(&begins))
}

/// An ending, as the caller gets it.
pub(super) fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Completed(payload) => Ok(value(payload)),
        Ending::Failed(error) => Err(failure(error)),
        Ending::Cancelled(reason) => Err(Failure { kind: "Cancelled", message: reason.clone() }),
    }
}

/// Whether an effect's policy is what its request declares.
fn is_policy(request: &Value, method: &str, policy: &RetryPolicy) -> bool {
    let usual = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"].contains(&method);
    let idem = request["idem"].as_bool().unwrap_or(usual);
    let retries = match policy.bound {
        RetryBound::Bounded(most) => json!(most),
        RetryBound::Unbounded => Value::Null,
    };
    let settle = policy.reconciler.as_ref().map(|reconciler| reconciler.settle.get() / 1_000);
    (policy.class.idempotency == Idempotency::Idem) == idem
        && request["retries"] == retries
        && request["settle"].as_u64() == settle
        && request["hold"] == json!(policy.on_unknown == OnUnknown::Hold)
}

/// Facts from the journal of one attempt.
struct Guided<'a> {
    recorded: &'a Recorded,
    calls: &'a BTreeMap<u32, Outcome>,
    attempt: u64,
    /// Its time to clean up was over: the program may have stopped at any request that is not
    /// recorded.
    cut: bool,
    told: bool,
}

impl Guided<'_> {
    fn absent(&self, what: std::fmt::Arguments<'_>) -> Halt {
        if self.cut {
            Halt::Cut
        } else {
            Halt::Wrong(format!("it asks for {what}, which is not recorded"))
        }
    }

    /// Compares what the program asks for with what is recorded under that number.
    fn expect(
        &self,
        number: u32,
        what: std::fmt::Arguments<'_>,
        is: impl FnOnce(&Child) -> bool,
    ) -> Result<(), Halt> {
        match self.recorded.children.get(number as usize) {
            None => Err(self.absent(what)),
            Some(child) if is(child) => Ok(()),
            Some(child) => Err(Halt::Wrong(format!("it asks for {what}, and got {child:?}"))),
        }
    }

    /// Which of these ended first, and where in the journal.
    fn first(&self, of: &[u32]) -> Option<(u64, u32)> {
        of.iter().filter_map(|number| Some((self.recorded.resolved_at(*number)?, *number))).min()
    }

    /// Where in the journal a wait was over, and what came of it.
    fn came(&self, wait: &Wait) -> Result<Option<(u64, WaitOutcome)>, Halt> {
        let first =
            |of: &[u32]| self.first(of).map(|(at, number)| (at, WaitOutcome::First(number)));
        Ok(match wait {
            Wait::One(number) => {
                self.recorded.resolved_at(*number).map(|at| (at, WaitOutcome::All))
            }
            Wait::Any(numbers) => first(numbers),
            Wait::All(numbers) => {
                let mut all = numbers.iter().map(|number| self.recorded.resolved_at(*number));
                all.try_fold(0, |last, at| at.map(|at| last.max(at)))
                    .map(|at| (at, WaitOutcome::All))
            }
            Wait::Signal { name, or, next } => {
                let signal = match self.recorded.children.get(*next as usize) {
                    Some(Child::Signal { name: other, value, at }) if other == name => {
                        Some((*at, WaitOutcome::Signal(value.clone())))
                    }
                    _ => None,
                };
                match (signal, first(or)) {
                    (Some(signal), Some(other)) if signal.0 < other.0 => Some(signal),
                    (_, Some(other)) => Some(other),
                    (signal, None) => signal,
                }
            }
            Wait::Next { set, rest, taken } => {
                let recorded = self.recorded.taken.get(set).and_then(|all| all.get(*taken));
                let first = self.first(rest);
                match (recorded, first) {
                    (Some(number), Some((at, first))) if *number == first => {
                        Some((at, WaitOutcome::First(first)))
                    }
                    (Some(number), first) => {
                        let wrong =
                            format!("{number} was taken from {set}, and {first:?} was first");
                        return Err(Halt::Wrong(wrong));
                    }
                    // Not taken: but the wait may have delivered a cancel first.
                    (None, first) => first.map(|(at, number)| (at, WaitOutcome::First(number))),
                }
            }
        })
    }
}

impl Facts for Guided<'_> {
    fn attempt(&self) -> u64 {
        self.attempt
    }

    fn call(&mut self, number: u32, function: &str, input: &Value) -> Result<(), Halt> {
        self.expect(number, format_args!("a call of {function} with {input}"), |child| {
            matches!(child, Child::Call { function: called, input: given, .. }
                if called == function && given == input)
        })
    }

    fn http(&mut self, number: u32, request: &Value) -> Result<(), Halt> {
        self.expect(number, format_args!("the request {request}"), |child| match child {
            Child::Http { method, url, policy, .. } => {
                request["method"] == *method
                    && request["url"] == *url
                    && is_policy(request, method, policy)
            }
            _ => false,
        })
    }

    fn timer(&mut self, number: u32, millis: u64) -> Result<(), Halt> {
        self.expect(
            number,
            format_args!("a timer of {millis} ms"),
            |child| matches!(child, Child::Timer { millis: recorded, .. } if *recorded == millis),
        )
    }

    fn set(&mut self, number: u32) -> Result<(), Halt> {
        self.expect(number, format_args!("a join set"), |child| matches!(child, Child::Set))
    }

    fn submit(&mut self, set: u32, place: usize, number: u32) -> Result<(), Halt> {
        let submitted = self.recorded.submitted.get(&set).and_then(|all| all.get(place));
        match submitted {
            Some(recorded) if *recorded == number => Ok(()),
            Some(recorded) => {
                Err(Halt::Wrong(format!("{recorded} was submitted to {set}, not {number}")))
            }
            None => Err(self.absent(format_args!("a submission of {number} to {set}"))),
        }
    }

    fn now(&mut self, number: u32) -> Result<Value, Halt> {
        self.expect(number, format_args!("the time"), |child| matches!(child, Child::Time(_)))?;
        match &self.recorded.children[number as usize] {
            Child::Time(time) => Ok(json!(time)),
            _ => Ok(Value::Null),
        }
    }

    fn random(&mut self, number: u32, length: u64) -> Result<Value, Halt> {
        self.expect(
            number,
            format_args!("{length} random bytes"),
            |child| matches!(child, Child::Random(bytes) if bytes.len() as u64 == length),
        )?;
        match &self.recorded.children[number as usize] {
            Child::Random(bytes) => Ok(json!(bytes)),
            _ => Ok(Value::Null),
        }
    }

    /// A cancel is told at the first wait that was not over before it (C-22).
    fn wait(&mut self, wait: &Wait) -> Result<WaitOutcome, Halt> {
        let came = self.came(wait)?;
        if let Some((requested_at, _, reason)) = &self.recorded.cancel
            && !self.told
            && came.as_ref().is_none_or(|(at, _)| at > requested_at)
        {
            self.told = true;
            return Ok(WaitOutcome::Cancelled(reason.clone()));
        }
        // A result that was ready counts only if the journal records that it was taken.
        if let Wait::Next { set, taken, .. } = wait
            && self.recorded.taken.get(set).is_none_or(|all| all.len() <= *taken)
        {
            return Err(self.absent(format_args!("{wait:?}")));
        }
        came.map(|(_, came)| came).ok_or_else(|| self.absent(format_args!("{wait:?}")))
    }

    fn outcome(&mut self, number: u32) -> Result<Outcome, Halt> {
        match self.recorded.children.get(number as usize) {
            Some(Child::Timer { .. }) => Ok(Ok(Value::Null)),
            // `effects` compares the journal with the wire; here the journal is taken as given.
            Some(Child::Http { completed, .. }) => {
                let outcome = completed.as_ref().map(|(_, outcome)| outcome.clone());
                outcome.ok_or_else(|| Halt::Wrong(format!("effect {number} has no outcome")))
            }
            Some(Child::Call { .. }) => {
                let outcome = self.calls.get(&number).cloned();
                outcome.ok_or_else(|| Halt::Wrong(format!("call {number} has no outcome")))
            }
            _ => Err(Halt::Wrong(format!("{number} is nothing that has an outcome"))),
        }
    }
}
