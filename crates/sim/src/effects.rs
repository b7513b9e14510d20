//! What must be true of HTTP effects: what their journals say of each attempt is what the wire
//! knows, and a request that is not `idem` is never processed twice unless a person wanted it (D5,
//! V-24, C-29, C-38, C-41).
//!
//! Looked at after every process, so that it is known which of them wrote what: an answer counts if
//! the process that got it also had it on disk. Otherwise nobody knows of it.

use std::collections::BTreeMap;

use indelible_http::{End, Response};
use indelible_idempotency::{ConsumerNamespace, KeyMinter};
use indelible_journal::{
    Attempt, ErrorKind, Event, Failure, Idempotency, InvokeKind, JournalKey, Micros, OnUnknown,
    Outcome, Payload, PromiseId, Record, RetryCause, RetryPolicy,
};

use crate::agree::invoked;
use crate::client::How;
use crate::ledger::{Ledger, Said, Word};
use crate::peer::Sent;
use crate::store::Stored;

/// The key that every attempt at an effect has to carry, computed from its promise alone (I-2).
fn key_of(promise: &PromiseId) -> String {
    let namespace = ConsumerNamespace::new("indelible").expect("it is a name");
    let key = KeyMinter::new(namespace).mint([promise.to_string()]);
    key.expect("a promise is not blank").value().to_owned()
}

/// The effects of a journal, each with its events by their places.
fn effects(records: &[Record]) -> BTreeMap<u32, Vec<(usize, &Event)>> {
    let mut all = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        let Some(promise) = invoked(&record.event) else { continue };
        let child = promise.path().last().copied().unwrap_or_default();
        if let Event::InvokeScheduled { kind: InvokeKind::Http, .. } = &record.event {
            all.insert(child, vec![(place, &record.event)]);
        } else if let Some(events) = all.get_mut(&child) {
            events.push((place, &record.event));
        }
    }
    all
}

/// The attempts at the effect of this key that are in flight in these journals.
pub(crate) fn in_flight(all: &[Stored], key: &str) -> Vec<(JournalKey, u32, Attempt)> {
    let mut found = Vec::new();
    for (journal, records) in all {
        for (child, events) in effects(records) {
            if let Some((_, Event::InvokeStarted { promise_id, attempt })) = events.last()
                && key_of(promise_id) == key
            {
                found.push((journal.clone(), child, *attempt));
            }
        }
    }
    found
}

/// Which process an attempt was started by, and which wrote how it ended.
#[derive(Debug, Clone, Copy)]
struct Processes {
    started: u64,
    settled: Option<u64>,
    /// Whether its execution was ending when that process was over.
    ending: bool,
}

/// What is known of every attempt that was ever on disk.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<(JournalKey, u32, Attempt), Processes>);

/// What is true of one attempt.
struct Attempted<'a> {
    policy: &'a RetryPolicy,
    sent: Option<&'a Sent>,
    processes: Processes,
    /// A person had an earlier attempt run again: that one may have happened.
    maybe_before: bool,
}

impl Attempted<'_> {
    fn idem(&self) -> bool {
        self.policy.class.idempotency == Idempotency::Idem
    }

    fn is_lost(&self) -> bool {
        self.processes.settled.is_some_and(|settled| self.processes.started < settled)
    }

    /// What the process that settled it was told first.
    fn told(&self) -> Option<&End> {
        if self.is_lost() {
            return None;
        }
        self.sent.and_then(|sent| sent.reports.first())
    }

    /// Whether nobody can know if it happened: its process died, or got no complete answer.
    fn is_unknown(&self) -> bool {
        match self.told() {
            None => self.is_lost(),
            Some(End::Unknown { .. }) => true,
            Some(End::Answered(answer)) => self.policy.is_no_answer(answer.status),
            // Nothing left this time, and nobody knows of the time before.
            Some(End::NotSent { .. } | End::Refused { .. }) => self.maybe_before,
            Some(End::TooLarge(_)) => false,
        }
    }

    fn is_processed(&self) -> bool {
        self.sent.is_some_and(|sent| sent.processed)
    }
}

impl Known {
    /// Looks at everything that is on disk when this process is over. `cleanup_max`: how long cleaning
    /// up may take, if the clock can tell.
    pub(crate) fn look(
        &mut self,
        all: &[Stored],
        process: u64,
        sent: &[Sent],
        ledger: &Ledger,
        cleanup_max: Option<Micros>,
    ) -> Result<(), String> {
        for (journal, records) in all {
            for (child, events) in effects(records) {
                let known = &mut *self;
                let mut effect =
                    Effect { known, journal, child, records, sent, ledger, cleanup_max };
                let looked = effect.look(&events, process);
                looked.map_err(|wrong| format!("effect {journal:#}.{child}: {wrong}"))?;
            }
        }
        for one in sent {
            let Sent { journal, child, attempt, process, .. } = one;
            let known = self.0.get(&(journal.clone(), *child, *attempt));
            let by = known.map(|known| known.started);
            ensure!(
                by == Some(*process),
                "attempt {attempt} at {journal:#}.{child} was sent by {process}, started by {by:?}"
            );
        }
        Ok(())
    }
}

struct Effect<'a> {
    known: &'a mut Known,
    journal: &'a JournalKey,
    child: u32,
    records: &'a [Record],
    sent: &'a [Sent],
    ledger: &'a Ledger,
    cleanup_max: Option<Micros>,
}

impl Effect<'_> {
    fn look(&mut self, events: &[(usize, &Event)], process: u64) -> Result<(), String> {
        let Some((_, Event::InvokeScheduled { retry_policy: policy, .. })) = events.first() else {
            return Ok(());
        };
        let mut maybe_before = false;
        for (place, event) in events {
            let (attempt, settles) = match event {
                Event::InvokeStarted { attempt, .. } => (*attempt, false),
                Event::InvokeRetrying { failed_attempt, .. } => (*failed_attempt, true),
                Event::InvokeCompleted { attempt, .. } => (*attempt, true),
                _ => continue,
            };
            let id = (self.journal.clone(), self.child, attempt);
            let ending = settles && self.is_ending(*place);
            let fresh = Processes { started: process, settled: None, ending: false };
            let processes = self.known.0.entry(id).or_insert(fresh);
            if settles && processes.settled.is_none() {
                (processes.settled, processes.ending) = (Some(process), ending);
            }
            let (processes, sent) = (*processes, self.sent(attempt));
            let attempted = Attempted { policy, sent, processes, maybe_before };
            let wrong = |wrong: String| format!("attempt {attempt}, {}: {wrong}", event.describe());
            match event {
                Event::InvokeRetrying { cause, error, .. } => {
                    self.retried(&attempted, *cause, error, event).map_err(wrong)?;
                    maybe_before |= *cause == RetryCause::Operator;
                }
                Event::InvokeCompleted { result: Outcome::Ok(payload), .. } => {
                    self.answered(&attempted, payload, event).map_err(wrong)?;
                }
                Event::InvokeCompleted { result: Outcome::Err(failure), .. } => {
                    self.failed(&attempted, failure, event, *place).map_err(wrong)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sent(&self, attempt: Attempt) -> Option<&Sent> {
        let own = |sent: &&Sent| sent.journal == *self.journal && sent.child == self.child;
        self.sent.iter().filter(own).find(|sent| sent.attempt == attempt)
    }

    /// What a person said, if that led to this event.
    fn said(&self, event: &Event) -> Option<&Said> {
        self.ledger.said.iter().find(|said| said.is_in(event) && said.word != Word::Refused)
    }

    /// Another attempt follows.
    fn retried(
        &self,
        attempt: &Attempted<'_>,
        cause: RetryCause,
        error: &Failure,
        event: &Event,
    ) -> Result<(), String> {
        let told = attempt.told();
        let holds = match cause {
            RetryCause::NotSent => matches!(told, Some(End::NotSent { .. })),
            RetryCause::Failed if error.kind == ErrorKind::NotPerformed => matches!(told,
                Some(End::Answered(answer)) if attempt.policy.not_processed.contains(answer.status)),
            RetryCause::Failed => attempt.idem() && told.is_some() && attempt.is_unknown(),
            RetryCause::EngineLost => attempt.idem() && attempt.is_lost(),
            RetryCause::ReconciledNotDone => {
                attempt.policy.reconciler.is_some() && attempt.is_unknown()
            }
            RetryCause::Operator => {
                let said = self.said(event).is_some_and(|said| said.how == How::RunAgain);
                said && attempt.is_unknown()
            }
        };
        ensure!(holds, "the wire knows better: {told:?}");
        let twice = attempt.is_processed() && !attempt.idem() && cause != RetryCause::Operator;
        ensure!(!twice, "it is tried again, and was processed");
        Ok(())
    }

    /// It is over with an answer: the peer's, its reconciler's, or a person's.
    fn answered(
        &self,
        attempt: &Attempted<'_>,
        payload: &Payload,
        event: &Event,
    ) -> Result<(), String> {
        let answer = Response::decode(&payload.bytes).map_err(|error| error.to_string())?;
        if self.said(event).is_some() {
            ensure!(attempt.is_unknown(), "a person was asked, and {:?}", attempt.told());
            return Ok(());
        }
        if answer.body.starts_with(b"{\"reconciled\"") {
            let asked = attempt.policy.reconciler.is_some() && attempt.is_unknown();
            ensure!(asked, "a reconciler was asked, and {:?}", attempt.told());
            // By this attempt or another under its key, also one of an earlier attempt at its caller:
            // this one may never have left, if its process ended first.
            let key = invoked(event).map(key_of);
            let own = |sent: &Sent| Some(&sent.key) == key.as_ref();
            let processed = self.sent.iter().any(|sent| own(sent) && sent.processed);
            ensure!(processed, "it never happened");
            return Ok(());
        }
        let came = attempt.sent.filter(|_| !attempt.is_lost());
        let came = came.is_some_and(|sent| sent.reports.contains(&End::Answered(answer.clone())));
        ensure!(came, "nobody answered {answer:?}");
        let counts = attempt.idem() || !attempt.policy.is_no_answer(answer.status);
        ensure!(counts, "{} is no answer", answer.status);
        let happened = answer.status != 200 || attempt.is_processed();
        ensure!(happened, "it was answered 200, and not processed");
        Ok(())
    }

    /// It is over without one.
    fn failed(
        &self,
        attempt: &Attempted<'_>,
        failure: &Failure,
        event: &Event,
        place: usize,
    ) -> Result<(), String> {
        if self.said(event).is_some() {
            ensure!(attempt.is_unknown(), "a person was asked, and {:?}", attempt.told());
            return Ok(());
        }
        let told = attempt.told();
        let holds = match failure.kind {
            ErrorKind::Indeterminate => {
                let held = attempt.policy.on_unknown == OnUnknown::Hold;
                // A person who was asked had it run again, and a cancel came before it was sent.
                let rerun = attempt.sent.is_none() && attempt.maybe_before;
                let unsent = rerun && self.is_cancelled(place);
                // It was ending, and its process died before the end was on disk: the next one's guest
                // goes on.
                let was_ending = attempt.processes.ending && self.is_cleanup_over(place);
                let ending = self.is_ending(place) || was_ending;
                ensure!(!held || ending || unsent, "a person was to be asked");
                // An attempt before may have happened, and this one never began.
                let unbegun = attempt.sent.is_none() && attempt.maybe_before;
                !attempt.idem() && (attempt.is_unknown() || unbegun)
            }
            ErrorKind::NotPerformed => {
                let own = |sent: &&Sent| sent.journal == *self.journal && sent.child == self.child;
                let processed = self.sent.iter().filter(own).any(|sent| sent.processed);
                ensure!(!processed, "it was processed");
                // A reconciler said so, when it was too late for another attempt.
                let asked =
                    attempt.policy.reconciler.is_some() && attempt.policy.deadline.is_some();
                matches!(told, Some(End::NotSent { .. } | End::Refused { .. }))
                    || asked && attempt.is_unknown()
            }
            // It was not in flight.
            ErrorKind::Cancelled => attempt.sent.is_none(),
            ErrorKind::Transient | ErrorKind::Timeout => {
                attempt.idem()
                    && (attempt.is_unknown() || matches!(told, Some(End::NotSent { .. })))
            }
            ErrorKind::Uncategorized => match told {
                Some(End::TooLarge(_)) => true,
                Some(End::Refused { .. }) => attempt.idem(),
                _ => false,
            },
            _ => false,
        };
        ensure!(holds, "the wire knows better: {told:?}");
        Ok(())
    }

    /// Whether a cancel was asked for before this event.
    fn is_cancelled(&self, place: usize) -> bool {
        let before = self.records[..place].iter();
        before.rev().any(|record| matches!(record.event, Event::CancelRequested { .. }))
    }

    /// Whether the time to clean up was over at this place, by the clock if that can tell (C-22).
    fn is_cleanup_over(&self, place: usize) -> bool {
        let (before, at) = (&self.records[..place], self.records[place].timestamp);
        let cancel =
            before.iter().find(|record| matches!(record.event, Event::CancelRequested { .. }));
        let over = |asked: &Record| {
            self.cleanup_max.is_none_or(|max| asked.timestamp.saturating_add(max) <= at)
        };
        cancel.is_some_and(over)
    }

    /// Whether the guest did nothing from this place on: it had come to its end (C-40).
    fn is_ending(&self, place: usize) -> bool {
        self.records[place + 1..].iter().all(|record| {
            matches!(
                record.event,
                Event::InvokeStarted { .. }
                    | Event::InvokeCompleted { .. }
                    | Event::InvokeRetrying { .. }
                    | Event::TimerFired { .. }
                    | Event::SignalDelivered { .. }
                    | Event::CancelRequested { .. }
                    | Event::ExecutionCompleted { .. }
                    | Event::ExecutionFailed { .. }
                    | Event::ExecutionCancelled { .. }
            )
        })
    }
}
