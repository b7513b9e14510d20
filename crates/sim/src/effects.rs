//! What must be true of HTTP effects: what their journals say of each attempt is what the wire
//! knows, and a request that is not `idem` is never processed twice unless a person wanted it (D5,
//! V-24, C-29, C-38, C-41).
//!
//! Checked after every process, so that it is known which process wrote what: an answer counts if
//! the process that got it also committed it. Otherwise the answer is lost with the process.

use std::collections::BTreeMap;

use indelible_http::{End, Response};
use indelible_idempotency::{ConsumerNamespace, KeyMinter};
use indelible_journal::{
    Attempt, ErrorKind, Event, Failure, Idempotency, InvokeKind, JournalKey, Micros, OnUnknown,
    Outcome, Payload, PromiseId, Record, RetryCause, RetryPolicy,
};

use crate::agree::invoked;
use crate::client::How;
use crate::ledger::{Ledger, Resolution, Word};
use crate::peer::SentAttempt;
use crate::store::StoredJournal;

/// The key that every attempt at an effect has to carry, computed from its promise alone (I-2).
pub(crate) fn key_of(promise: &PromiseId) -> String {
    let namespace = ConsumerNamespace::new("indelible").expect("it is a name");
    let key = KeyMinter::new(namespace).mint([promise.to_string()]);
    key.expect("a promise is not blank").value().to_owned()
}

/// The effects of a journal by their child numbers, each with its events and their places in the
/// journal.
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
pub(crate) fn in_flight(all: &[StoredJournal], key: &str) -> Vec<(JournalKey, u32, Attempt)> {
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
    /// Whether its execution was ending, by the journal that the settling process left.
    ending: bool,
}

/// What is known of every attempt that was ever on disk.
#[derive(Debug, Default)]
pub(crate) struct AttemptFacts(BTreeMap<(JournalKey, u32, Attempt), Processes>);

/// What is true of one attempt.
struct AttemptFact<'a> {
    policy: &'a RetryPolicy,
    sent: Option<&'a SentAttempt>,
    processes: Processes,
    /// A person had the effect run again after an earlier attempt, which may have happened.
    maybe_before: bool,
}

impl AttemptFact<'_> {
    fn idem(&self) -> bool {
        self.policy.class.idempotency == Idempotency::Idem
    }

    fn is_lost(&self) -> bool {
        self.processes.settled.is_some_and(|settled| self.processes.started < settled)
    }

    /// The first report to the process that settled the attempt.
    fn told(&self) -> Option<&End> {
        if self.is_lost() {
            return None;
        }
        self.sent.and_then(|sent| sent.reports.first())
    }

    /// Whether the engine cannot know if the effect happened: the attempt's process died, or got no
    /// complete answer.
    fn is_unknown(&self) -> bool {
        match self.told() {
            None => self.is_lost(),
            Some(End::Unknown { .. }) => true,
            Some(End::Answered(answer)) => self.policy.is_no_answer(answer.status),
            // This attempt never left; an earlier one may have happened.
            Some(End::NotSent { .. } | End::Refused { .. }) => self.maybe_before,
            Some(End::TooLarge(_)) => false,
        }
    }

    fn is_processed(&self) -> bool {
        self.sent.is_some_and(|sent| sent.processed)
    }
}

impl AttemptFacts {
    /// Looks at everything that is on disk when this process is over. `cleanup_max`: how long
    /// cleaning up may take; `None` if the clock was set back.
    pub(crate) fn look(
        &mut self,
        all: &[StoredJournal],
        process: u64,
        sent: &[SentAttempt],
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
            let SentAttempt { journal, child, attempt, process, .. } = one;
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
    known: &'a mut AttemptFacts,
    journal: &'a JournalKey,
    child: u32,
    records: &'a [Record],
    sent: &'a [SentAttempt],
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
            let attempted = AttemptFact { policy, sent, processes, maybe_before };
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

    fn sent(&self, attempt: Attempt) -> Option<&SentAttempt> {
        let own = |sent: &&SentAttempt| sent.journal == *self.journal && sent.child == self.child;
        self.sent.iter().filter(own).find(|sent| sent.attempt == attempt)
    }

    /// What a person said, if that led to this event.
    fn said(&self, event: &Event) -> Option<&Resolution> {
        self.ledger.said.iter().find(|said| said.is_in(event) && said.word != Word::Refused)
    }

    /// Checks an event after which another attempt follows.
    fn retried(
        &self,
        attempt: &AttemptFact<'_>,
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

    /// Checks an effect that ended with an answer: the peer's, its reconciler's, or a person's.
    fn answered(
        &self,
        attempt: &AttemptFact<'_>,
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
            // Any attempt under this key may have been processed, also one by an earlier attempt of
            // the caller: this one may never have left, if its process ended first.
            let key = invoked(event).map(key_of);
            let own = |sent: &SentAttempt| Some(&sent.key) == key.as_ref();
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
        ensure!(happened, "a response arrived 200, and not processed");
        Ok(())
    }

    /// Checks an effect that ended without an answer.
    fn failed(
        &self,
        attempt: &AttemptFact<'_>,
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
                // The execution was ending, and its process died before the end was on disk: in the
                // next process the guest goes on.
                let was_ending = attempt.processes.ending && self.is_cleanup_over(place);
                let ending = self.is_ending(place) || was_ending;
                ensure!(!held || ending || unsent, "a person was to be asked");
                // An earlier attempt may have happened, and this one never left.
                let unbegun = attempt.sent.is_none() && attempt.maybe_before;
                !attempt.idem() && (attempt.is_unknown() || unbegun)
            }
            ErrorKind::NotPerformed => {
                let own =
                    |sent: &&SentAttempt| sent.journal == *self.journal && sent.child == self.child;
                let processed = self.sent.iter().filter(own).any(|sent| sent.processed);
                ensure!(!processed, "it was processed");
                // A reconciler said so, when it was too late for another attempt.
                let asked =
                    attempt.policy.reconciler.is_some() && attempt.policy.deadline.is_some();
                matches!(told, Some(End::NotSent { .. } | End::Refused { .. }))
                    || asked && attempt.is_unknown()
            }
            // A cancelled effect was not in flight.
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

    /// Whether the time to clean up was over at this place (C-22). Always, if the clock was set
    /// back.
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
