//! Clients that number their writes to a vault, beside the programs. Their network keeps copies of what
//! they sent, and delivers some of them late. In the end each transfer that was acknowledged took place
//! once, none that was refused did, and the balances add up.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_journal::{Micros, Namespace, Timestamp};
use indelible_ledger::{
    Actor, Answer, Attempt, ClientId, Content, EntityKey, Limits, Operation, Origin, Request,
    Run as Writes, Scope, Sequence, StreamRefusal, Unit, VaultName,
};
use indelible_records::ledger::{self, ScopeRow};
use indelible_runtime::Engine;
use indelible_runtime::ledger::{
    LedgerAnswer, LedgerError, LedgerWrite, VaultSettings, WriteOutcome, Writes as LedgerWrites,
};
use indelible_runtime::world::Clock as _;
use indelible_store::Store;

use crate::Rng;
use crate::run::Run;

/// How many clients write.
const WRITERS: u64 = 3;

/// How many accounts there are, and what is in all of them.
const ACCOUNTS: u64 = 3;
const MONEY: i128 = 100;

/// The most copies that the network keeps.
const COPIES_MAX: usize = 16;

/// Rounds after which a write that is still not answered counts as lost.
const ROUNDS_MAX: usize = 200;

type Waiting = Pin<Box<dyn Future<Output = Result<LedgerAnswer, LedgerError>> + Send>>;

/// What a write does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Deed {
    /// The first of all: money for every account.
    Open,
    /// From one account to another, if there is enough.
    Transfer { from: u64, to: u64, quantity: i128 },
    /// A note of this writer's that expires.
    Note { by: u64, until: Timestamp },
}

/// A write as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    writer: u64,
    sequence: u64,
    attempt: u32,
    deed: Deed,
}

struct Writer {
    number: u64,
    /// The number of its next write.
    sequence: u64,
    attempt: u32,
    /// The write that it waits for, and the wait; `None`: it has to be sent again.
    current: Option<(Sent, Option<Waiting>)>,
    /// What it was told to have been applied.
    acknowledged: BTreeMap<u64, Deed>,
}

/// The clients, and their network.
pub(crate) struct Writers {
    rng: Rng,
    writers: Vec<Writer>,
    /// Copies of writes that were answered.
    copies: Vec<Sent>,
    late: Vec<(Sent, Waiting)>,
}

fn scope() -> Scope {
    let vault = Some(VaultName::new("wallets").expect("it is a name"));
    Scope { namespace: Namespace::new("sim").expect("it is a name"), vault }
}

fn account(number: u64) -> EntityKey {
    EntityKey::new(&format!("account-{number}")).expect("it is a key")
}

fn unit() -> Unit {
    Unit::new("EUR").expect("it is a unit")
}

impl Sent {
    fn write(&self) -> LedgerWrite {
        let operations = match &self.deed {
            Deed::Open => (0..ACCOUNTS)
                .map(|number| Operation::Set {
                    key: account(number),
                    content: Content::amount(MONEY, unit()),
                    expires_at: None,
                    condition: None,
                })
                .collect(),
            Deed::Transfer { from, to, quantity } => vec![Operation::Transfer {
                from: account(*from),
                to: account(*to),
                quantity: *quantity,
                unit: Some(unit()),
                min: Some(0),
                max: None,
            }],
            Deed::Note { by, until } => vec![Operation::Set {
                key: EntityKey::new(&format!("note-{by}")).expect("it is a key"),
                content: Content::amount(1, unit()),
                expires_at: Some(*until),
                condition: None,
            }],
        };
        let request = Request::single(operations, &Limits::DEFAULT).expect("it is within bounds");
        let client = ClientId::new(&format!("writer-{}", self.writer)).expect("it is a name");
        let sequence = Sequence::new(self.sequence).expect("numbers begin with 1");
        let attempt = Attempt::new(self.attempt).expect("attempts begin with 1");
        let writes = LedgerWrites::Run(Writes::one(client, sequence, Some(attempt), request));
        LedgerWrite { scope: scope(), incarnation: None, actor: Actor::new("client:sim"), writes }
    }

    fn send(&self, engine: &Arc<Engine>) -> Waiting {
        let (engine, write) = (Arc::clone(engine), self.write());
        Box::pin(async move { engine.write_ledger(write).await })
    }
}

impl Writers {
    /// Two of three seeds have clients.
    pub(crate) fn new(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x7661_756c);
        let some = !rng.number().is_multiple_of(3);
        let writer = |number| Writer {
            number,
            sequence: 1,
            attempt: 1,
            current: None,
            acknowledged: BTreeMap::new(),
        };
        some.then(|| Self {
            rng,
            writers: (0..WRITERS).map(writer).collect(),
            copies: Vec::new(),
            late: Vec::new(),
        })
    }

    /// The process is gone: nothing is answered, and everything has to be sent again.
    pub(crate) fn hang_up(&mut self) {
        self.late.clear();
        for (_, waiting) in self.writers.iter_mut().filter_map(|writer| writer.current.as_mut()) {
            *waiting = None;
        }
    }

    /// In some of the calls a client writes, or the network delivers a copy late; then answers are
    /// looked at.
    pub(crate) fn act(&mut self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), String> {
        if !self.is_made() {
            self.make(engine);
            return self.look();
        }
        let number = self.rng.below(WRITERS) as usize;
        if self.rng.percent(10) && self.writers[number].current.is_none() {
            let sent = self.next(number, now);
            self.writers[number].current = Some((sent, None));
        }
        if self.rng.percent(5) && !self.copies.is_empty() {
            let copy = self.rng.pick(&self.copies).clone();
            let waiting = copy.send(engine);
            self.late.push((copy, waiting));
        }
        self.send_again(engine, 30);
        self.look()
    }

    /// The first write was acknowledged.
    fn is_made(&self) -> bool {
        !self.writers[0].acknowledged.is_empty()
    }

    /// The first writer opens the accounts: until then it asks for the vault before each write.
    fn make(&mut self, engine: &Arc<Engine>) {
        if self.writers[0].current.is_none() {
            let sent = Sent { writer: 0, sequence: 1, attempt: 1, deed: Deed::Open };
            self.writers[0].current = Some((sent, None));
        }
        if let Some((sent, waiting @ None)) = &mut self.writers[0].current {
            let (engine, write) = (Arc::clone(engine), sent.write());
            *waiting = Some(Box::pin(async move {
                engine.put_vault(&scope(), VaultSettings::default(), None).await?;
                engine.write_ledger(write).await
            }));
        }
    }

    /// What a client writes next. One in ten writes has a number that is not its turn yet.
    fn next(&mut self, number: usize, now: Timestamp) -> Sent {
        let Self { rng, writers, .. } = self;
        let Writer { number, sequence, attempt, .. } = writers[number];
        let deed = if rng.percent(15) {
            let until = now.saturating_add(Micros::new(rng.below(2_000_000)));
            Deed::Note { by: number, until }
        } else {
            let from = rng.below(ACCOUNTS);
            let to = (from + rng.between(1, ACCOUNTS - 1)) % ACCOUNTS;
            Deed::Transfer { from, to, quantity: rng.between(1, 60).into() }
        };
        let skipped = u64::from(rng.percent(10));
        Sent { writer: number, sequence: sequence + skipped, attempt, deed }
    }

    /// Sends what has no answer and is not under way, with a chance of so many in a hundred.
    fn send_again(&mut self, engine: &Arc<Engine>, percent: u64) {
        for writer in &mut self.writers {
            if let Some((sent, waiting @ None)) = &mut writer.current
                && self.rng.percent(percent)
            {
                *waiting = Some(sent.send(engine));
            }
        }
    }

    /// Looks at the answers that have come.
    pub(crate) fn look(&mut self) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        for writer in &mut self.writers {
            let Some((sent, Some(waiting))) = &mut writer.current else { continue };
            let Poll::Ready(answer) = waiting.as_mut().poll(&mut context) else { continue };
            let sent = sent.clone();
            let answer = match answer {
                Ok(answer) => one(answer)?,
                // The request may have been carried out: it is sent again, with the same bytes.
                Err(_) => {
                    writer.current = Some((sent, None));
                    continue;
                }
            };
            writer.told(&sent, &answer)?;
            if self.copies.len() < COPIES_MAX {
                self.copies.push(sent);
            } else {
                let place = self.rng.below(COPIES_MAX as u64) as usize;
                self.copies[place] = sent;
            }
        }
        let mut late = std::mem::take(&mut self.late);
        late.retain_mut(|(copy, waiting)| match waiting.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                if let Ok(answer) = answer
                    && let Ok(Answer::Fresh(_)) = one(answer)
                {
                    // Told below: a closure cannot end the run.
                    self.copies.push(Sent { sequence: 0, ..copy.clone() });
                }
                false
            }
        });
        self.late = late;
        match self.copies.iter().find(|copy| copy.sequence == 0) {
            Some(copy) => Err(format!("a late copy was applied: {copy:?}")),
            None => Ok(()),
        }
    }
}

impl Writer {
    /// What a client makes of an answer (C-42): the attempt rises after every refusal.
    fn told(&mut self, sent: &Sent, answer: &Answer) -> Result<(), String> {
        self.current = None;
        let mut refused = || self.attempt += 1;
        match answer {
            answer if answer.is_success() => {
                ensure!(sent.sequence == self.sequence, "number {} was skipped", self.sequence);
                self.acknowledged.insert(sent.sequence, sent.deed.clone());
                self.sequence += 1;
            }
            Answer::Refused(_) => refused(),
            Answer::RefusedBefore(before) => {
                refused();
                let is_gap = matches!(before.refusal, StreamRefusal::Gap(_));
                ensure!(is_gap == (sent.sequence > self.sequence), "{sent:?} is told {before:?}");
            }
            Answer::Gap(gap) => {
                refused();
                ensure!(gap.last + 1 == self.sequence, "{sent:?} is told {gap:?}");
                // The same payload, under the number that is next.
                let (sequence, attempt) = (self.sequence, self.attempt);
                self.current = Some((Sent { sequence, attempt, ..sent.clone() }, None));
            }
            answer => return Err(format!("{sent:?} is answered with {answer:?}")),
        }
        Ok(())
    }
}

fn one(answer: LedgerAnswer) -> Result<Answer, String> {
    match answer.outcome {
        WriteOutcome::Run(mut answers) if answers.len() == 1 => Ok(answers.remove(0)),
        outcome => Err(format!("a write is answered with {outcome:?}")),
    }
}

impl Run {
    /// The clients of the vault have their turn.
    pub(crate) fn write_vaults(&mut self) -> Result<(), String> {
        let (engine, now) = (Arc::clone(self.engine()), self.clock.now());
        self.writers.as_mut().map_or(Ok(()), |writers| writers.act(&engine, now))
    }

    /// Lets every write come to its answer.
    pub(crate) fn settle_vaults(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let Some(writers) = &mut self.writers else { return Ok(()) };
            if writers.is_made() && writers.writers.iter().all(|writer| writer.current.is_none()) {
                return Ok(());
            }
            let engine = Arc::clone(self.engine.as_ref().expect("it is open"));
            if writers.is_made() {
                writers.send_again(&engine, 100);
            } else {
                writers.make(&engine);
            }
            drop(engine);
            self.rest()?;
        }
        Err("a write to the vault is never answered".to_owned())
    }

    /// What was acknowledged is in the log, under its number, and nothing else is; the balances add up,
    /// and what expires is gone. That the log proves itself and the state, `check` looks at.
    pub(crate) fn vaults_agree(&self) -> Result<(), String> {
        let Some(writers) = &self.writers else { return Ok(()) };
        let failed = |error: indelible_store::ReadError| error.to_string();
        let store = self.store();
        let Some(ScopeRow::Live(live)) = ledger::scope(store, &scope()).map_err(failed)?.value
        else {
            return Err("the vault is gone".to_owned());
        };
        let incarnation = live.vault.incarnation();
        let mut committed = BTreeMap::<(u64, u64), Request>::new();
        for entry in log(store, incarnation)? {
            let transaction = entry.record.transaction;
            if let Origin::Client { client, sequence, .. } = transaction.origin {
                let writer = client.as_str().trim_start_matches("writer-").parse().unwrap_or(99);
                let known = committed.insert((writer, sequence.get()), transaction.request);
                ensure!(known.is_none(), "number {sequence} of {client} was applied twice");
            }
        }
        for writer in &writers.writers {
            let of = |((number, _), _): &(&(u64, u64), &Request)| *number == writer.number;
            let count = committed.iter().filter(of).count();
            ensure!(
                count == writer.acknowledged.len(),
                "writer {} was told of {}, and the log has {count}",
                writer.number,
                writer.acknowledged.len()
            );
            for (sequence, deed) in &writer.acknowledged {
                let (writer, deed) = (writer.number, deed.clone());
                let sent = Sent { writer, sequence: *sequence, attempt: 1, deed };
                let LedgerWrites::Run(run) = sent.write().writes else { continue };
                let request = committed.get(&(writer, *sequence));
                ensure!(
                    request == run.requests().first(),
                    "{sent:?} was acknowledged, and the log has {request:?}"
                );
            }
        }
        let mut sum = 0;
        let (entities, _) =
            ledger::entities(store, incarnation, "", None, 100).map_err(failed)?.value;
        for (key, entity) in entities {
            ensure!(entity.expires_at.is_none(), "{key} never expired");
            if let Content::Amount(amount) = entity.content {
                ensure!(amount.quantity >= 0, "{key} has {}", amount.quantity);
                sum += amount.quantity;
            }
        }
        ensure!(sum == MONEY * i128::from(ACCOUNTS), "there is {sum} in all accounts");
        Ok(())
    }
}

fn log(
    store: &Store,
    incarnation: indelible_ledger::Incarnation,
) -> Result<Vec<ledger::LogEntry>, String> {
    let mut all: Vec<ledger::LogEntry> = Vec::new();
    loop {
        let from = all.last().map_or(1, |last| last.record.transaction.height.get() + 1);
        let from = indelible_ledger::Height::new(from);
        let page = ledger::log_entries(store, incarnation, from, 1_000);
        let page = page.map_err(|error| error.to_string())?.value;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}
