//! What the engine has shown to clients. None of it may ever be taken back, whatever happens to the
//! process (D2).

use std::collections::BTreeMap;

use indelible_http::Response;
use indelible_journal::{
    Ending, Event, ExecutionId, JournalKey, Outcome, Payload, PromiseId, Record,
};
use indelible_records::doubts::{Doubt, DoubtId, DoubtState};
use indelible_records::executions::{self, Execution};
use indelible_store::Store;

use crate::client::{Answer, Client, How, Request, answer_of, person};
use crate::doubts;
use crate::store::{self, StoredJournal};

/// What the client knows of a request that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// It was acknowledged.
    Done,
    /// It was refused.
    Refused,
    /// Its client got no answer: it may have been carried out.
    Unknown,
}

/// A signal that was sent.
#[derive(Debug, Clone)]
pub(crate) struct SentSignal {
    pub(crate) id: ExecutionId,
    pub(crate) name: &'static str,
    pub(crate) value: u64,
    pub(crate) word: Word,
    /// The delivery number, once acknowledged, and the tick of the acknowledgement.
    delivery: Option<(u64, u64)>,
    asked_at: u64,
}

/// A cancel that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Cancel {
    pub(crate) id: ExecutionId,
    pub(crate) reason: String,
    pub(crate) word: Word,
}

/// What a person said of an effect.
#[derive(Debug, Clone)]
pub(crate) struct Resolution {
    pub(crate) promise: PromiseId,
    pub(crate) how: How,
    pub(crate) value: u64,
    pub(crate) word: Word,
}

impl Resolution {
    /// Whether it has settled a doubt.
    pub(crate) fn has_settled(&self, doubts: &[(DoubtId, Doubt)]) -> bool {
        doubts.iter().any(|(id, doubt)| {
            id.promise() == self.promise
                && matches!(&doubt.state, DoubtState::Settled(settled)
                    if settled.actor == person(self.value))
        })
    }

    /// Whether this event records the resolution.
    pub(crate) fn is_in(&self, event: &Event) -> bool {
        let says = |message: &str, what: &str| message == format!("{} {what}", person(self.value));
        match (self.how, event) {
            (
                How::Happened,
                Event::InvokeCompleted { promise_id, result: Outcome::Ok(got), .. },
            ) => {
                *promise_id == self.promise
                    && Response::decode(&got.bytes).as_ref() == Ok(&answer_of(self.value))
            }
            (
                How::DidNotHappen,
                Event::InvokeCompleted { promise_id, result: Outcome::Err(got), .. },
            ) => {
                *promise_id == self.promise && says(&got.message, "reported that it did not happen")
            }
            (How::RunAgain, Event::InvokeRetrying { promise_id, error, .. }) => {
                *promise_id == self.promise && says(&error.message, "asked for another attempt")
            }
            _ => false,
        }
    }
}

/// What was shown.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The execution of each program, when its start was acknowledged.
    pub(crate) roots: BTreeMap<usize, ExecutionId>,
    /// Programs whose start was acknowledged as new.
    new: Vec<usize>,
    pub(crate) endings: BTreeMap<ExecutionId, Vec<Ending>>,
    /// The rows that were shown, each with its tick.
    rows: BTreeMap<JournalKey, Vec<(u64, Execution)>>,
    pub(crate) signals: Vec<SentSignal>,
    pub(crate) cancels: Vec<Cancel>,
    pub(crate) said: Vec<Resolution>,
}

impl Ledger {
    /// A client asks: until it is answered, the result is unknown.
    pub(crate) fn asked(&mut self, request: &Request, asked_at: u64) {
        let word = Word::Unknown;
        match request {
            Request::Signal(id, name, value) => {
                let (id, value) = (id.clone(), *value);
                self.signals.push(SentSignal { id, name, value, word, delivery: None, asked_at });
            }
            Request::Resolve(promise, how, value) => {
                let (promise, how, value) = (promise.clone(), *how, *value);
                self.said.push(Resolution { promise, how, value, word });
            }
            Request::Cancel(id, reason) => {
                self.cancels.push(Cancel { id: id.clone(), reason: reason.clone(), word });
            }
            _ => {}
        }
    }

    /// A client was answered: the answer must fit everything shown before it was asked for.
    pub(crate) fn answered(
        &mut self,
        client: &Client,
        answer: &Answer,
        now: u64,
    ) -> Result<(), String> {
        match (&client.request, answer) {
            (_, Answer::Unknown(_))
            | (Request::Conflict(_), Answer::Conflict)
            | (Request::Start(_) | Request::Call(_) | Request::Conflict(_), Answer::Busy) => Ok(()),
            (Request::Start(number), Answer::Started(started)) => {
                self.started(*number, &started.execution_id, started.attached())
            }
            (Request::Call(number), Answer::Called(started, ending)) => {
                self.started(*number, &started.execution_id, started.attached())?;
                self.ended(&started.execution_id, ending)
            }
            (Request::Signal(.., value), answer) => self.signalled(*value, answer, now),
            (Request::Cancel(_, reason), answer) => {
                let known = self.cancels.iter_mut().find(|cancel| cancel.reason == *reason);
                let cancel = known.expect("it was asked for");
                cancel.word = word(answer);
                Ok(())
            }
            (Request::Resolve(.., value), answer) => {
                let said = self.said.iter_mut().find(|said| said.value == *value);
                said.expect("it was said").word = word(answer);
                Ok(())
            }
            (Request::Outcome(id), Answer::Outcome(Some(ending))) => self.ended(id, ending),
            (Request::Outcome(id), Answer::Outcome(None))
            | (Request::Row(id), Answer::Row(None)) => self.is_unknown(id, client.asked_at),
            (Request::Row(_), Answer::Row(Some(row))) => self.row(row, client.asked_at, now),
            (request, answer) => Err(format!("{request:?} was answered with {answer:?}")),
        }
    }

    fn started(&mut self, number: usize, id: &ExecutionId, attached: bool) -> Result<(), String> {
        let known = self.roots.entry(number).or_insert_with(|| id.clone());
        ensure!(known == id, "program {number} was started as {known}, and then as {id}");
        if !attached {
            ensure!(!self.new.contains(&number), "program {number} was started anew twice");
            self.new.push(number);
        }
        Ok(())
    }

    fn signalled(&mut self, value: u64, answer: &Answer, now: u64) -> Result<(), String> {
        let place = self.signals.iter().position(|sent| sent.value == value);
        let place = place.expect("it was sent");
        self.signals[place].word = word(answer);
        let Answer::Delivered(number) = answer else { return Ok(()) };
        self.signals[place].delivery = Some((*number, now));
        let this = &self.signals[place];
        // A signal acknowledged before this one was sent has a lower number. Only for roots: a
        // child counts its signals anew when its parent is tried again.
        let before = self
            .signals
            .iter()
            .filter(|sent| this.id.is_root() && sent.id == this.id && sent.name == this.name);
        for other in before {
            let Some((earlier, told_at)) = other.delivery else { continue };
            if told_at < this.asked_at {
                ensure!(
                    earlier < *number,
                    "signal {} has number {earlier}, and {value} came later with {number}",
                    other.value
                );
            }
        }
        Ok(())
    }

    fn ended(&mut self, id: &ExecutionId, ending: &Ending) -> Result<(), String> {
        let known = self.endings.entry(id.clone()).or_default();
        if !known.contains(ending) {
            // A child may end several ways: it is called again when its parent is tried again.
            ensure!(
                known.is_empty() || !id.is_root(),
                "{id:#} ended with {:?}, and then with {ending:?}",
                known[0]
            );
            known.push(ending.clone());
        }
        Ok(())
    }

    /// A client was told that there is no such execution: then no client may have seen it before.
    fn is_unknown(&self, id: &ExecutionId, asked_at: u64) -> Result<(), String> {
        let shown = self.rows.iter().any(|(key, rows)| {
            key.execution_id() == id && rows.iter().any(|(shown_at, _)| *shown_at < asked_at)
        });
        ensure!(!shown, "{id:#} was shown, and then there was no such execution");
        Ok(())
    }

    /// A row may be older than one that was shown after this request was made, but not older than
    /// one shown before it.
    fn row(&mut self, row: &Execution, asked_at: u64, now: u64) -> Result<(), String> {
        let shown = self.rows.entry(row.key.clone()).or_default();
        for (shown_at, before) in shown.iter() {
            if *shown_at < asked_at {
                follows(before, row)?;
            }
        }
        shown.push((now, row.clone()));
        Ok(())
    }

    /// Everything that was shown is in the store of a new process. Called before recovery: checks
    /// only what must hold at any time.
    pub(crate) fn kept(&self, store: &Store) -> Result<(), String> {
        let read = |error| format!("the store cannot be read: {error}");
        for (key, shown) in &self.rows {
            let row = executions::get(store, key).map_err(read)?.value;
            let row = row.ok_or_else(|| format!("{key:#} was shown, and is gone"))?;
            for (_, before) in shown {
                follows(before, &row)?;
            }
        }
        for (number, id) in &self.roots {
            let tree = store::tree(store, id).map_err(read)?;
            ensure!(!tree.is_empty(), "the start of program {number} is gone");
            let doubts = doubts::of_tree(store, id).map_err(read)?;
            self.kept_in(id, &tree, &doubts)?;
        }
        Ok(())
    }

    /// What was acknowledged of a tree is in it.
    pub(crate) fn kept_in(
        &self,
        root: &ExecutionId,
        tree: &[StoredJournal],
        doubts: &[(DoubtId, Doubt)],
    ) -> Result<(), String> {
        for sent in self.signals.iter().filter(|sent| sent.id.root() == root.root()) {
            let found = deliveries(tree, &sent.id, sent.value);
            let SentSignal { value, id, word, .. } = sent;
            match word {
                Word::Done => {
                    let count = found.len();
                    ensure!(count == 1, "signal {value} of {id:#} is there {count} times");
                    let number = sent.delivery.map(|(number, _)| number);
                    ensure!(
                        !id.is_root() || found.first().copied() == number,
                        "signal {value} of {id:#} was told to be {number:?} and is {found:?}"
                    );
                }
                Word::Refused => ensure!(found.is_empty(), "signal {value} was refused"),
                Word::Unknown => ensure!(found.len() <= 1, "signal {value} is there twice"),
            }
        }
        for Cancel { id, reason, word } in &self.cancels {
            if id.root() == root.root() && *word == Word::Done {
                ensure!(was_cancelled(tree, id), "the cancel of {id:#}, {reason}, is gone");
            }
        }
        for said in self.said.iter().filter(|said| said.promise.root() == root.root()) {
            let records = tree.iter().flat_map(|(_, records)| records);
            let count = records.filter(|record| said.is_in(&record.event)).count();
            // What has ended as Indeterminate is settled without an event (C-78).
            let settled = said.has_settled(doubts);
            let legal = match said.word {
                Word::Done => count == 1 || (count == 0 && settled),
                Word::Refused => count == 0 && !settled,
                Word::Unknown => count <= 1,
            };
            ensure!(legal, "what was said is there {count} times: {said:?}");
        }
        for (id, endings) in &self.endings {
            if id.root() == root.root() {
                for ending in endings {
                    let found = has_ended(tree, id, ending);
                    ensure!(found, "{id:#} was shown to end with {ending:?}, and did not");
                }
            }
        }
        Ok(())
    }
}

fn word(answer: &Answer) -> Word {
    match answer {
        Answer::CommandRefusal(_) | Answer::Busy => Word::Refused,
        _ => Word::Done,
    }
}

/// Whether a row can come after another that was shown.
fn follows(before: &Execution, after: &Execution) -> Result<(), String> {
    let key = &before.key;
    ensure!(
        after.length >= before.length,
        "{key:#} was shown with {} events, and then with {}",
        before.length,
        after.length
    );
    ensure!(
        !before.standing.is_terminal() || before == after,
        "{key:#} was shown as {}, and then as {}",
        before.standing.name(),
        after.standing.name()
    );
    Ok(())
}

/// The numbers under which the last attempts of an execution got this signal. When another attempt
/// of the parent calls the child again, that is another execution: signals stay with the one that
/// they reached.
fn deliveries(tree: &[StoredJournal], id: &ExecutionId, value: u64) -> Vec<u64> {
    let payload = Payload::json(value.to_string());
    let mut last = BTreeMap::new();
    for (key, records) in tree.iter().filter(|(key, _)| key.execution_id() == id) {
        let attempts = key.attempts().as_slice();
        last.insert(attempts[..attempts.len() - 1].to_vec(), records);
    }
    let delivered = |record: &Record| match &record.event {
        Event::SignalDelivered { payload: found, delivery_id, .. } if *found == payload => {
            Some(delivery_id.get())
        }
        _ => None,
    };
    last.values().flat_map(|records| records.iter().filter_map(delivered)).collect()
}

fn was_cancelled(tree: &[StoredJournal], id: &ExecutionId) -> bool {
    let asked = |record: &Record| matches!(record.event, Event::CancelRequested { .. });
    tree.iter().any(|(key, records)| key.execution_id() == id && records.iter().any(asked))
}

fn has_ended(tree: &[StoredJournal], id: &ExecutionId, ending: &Ending) -> bool {
    let last = |records: &[Record]| match records.last().map(|record| &record.event) {
        Some(Event::ExecutionCompleted { result }) => Some(Ending::Completed(result.clone())),
        Some(Event::ExecutionFailed { error }) => Some(Ending::Failed(error.clone())),
        Some(Event::ExecutionCancelled { reason }) => Some(Ending::Cancelled(reason.clone())),
        _ => None,
    };
    tree.iter()
        .any(|(key, records)| key.execution_id() == id && last(records).as_ref() == Some(ending))
}
