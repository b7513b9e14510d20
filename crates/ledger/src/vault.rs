//! The state of a vault at its head, and what a transaction does to it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use indelible_journal::{FunctionName, OperationId, Payload, Timestamp};

use crate::bounds::{Limits, REFUSED_VALUE_BYTES_MAX};
use crate::hashes::{ChainHash, StateHash};
use crate::names::{EntityKey, Scope, Unit};
use crate::numbers::{Height, Incarnation};
use crate::operation::{Condition, Operation, OperationResult};
use crate::proof::{self, LtHash};
use crate::reads::Reads;
use crate::refusal::{Code, Refusal};
use crate::transaction::{Proposal, Receipt, Record, Success, Transaction};
use crate::value::{Amount, Content, Entity, EntitySummary};

/// The head of a scope: everything about it but its entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vault {
    incarnation: Incarnation,
    height: Height,
    time: Timestamp,
    head: ChainHash,
    state: LtHash,
}

impl Vault {
    /// A vault without a transaction. Its chain begins with the scope and the incarnation, so that
    /// no line of one vault fits another.
    pub fn new(scope: &Scope, incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            height: Height::ZERO,
            time: Timestamp::EPOCH,
            head: proof::genesis(scope, incarnation),
            state: LtHash::default(),
        }
    }

    /// A vault as it was stored.
    pub fn stored(
        incarnation: Incarnation,
        height: Height,
        time: Timestamp,
        head: ChainHash,
        state: LtHash,
    ) -> Self {
        Self { incarnation, height, time, head, state }
    }

    /// Which life of the scope this is (C-47).
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How many transactions it has had.
    pub fn height(&self) -> Height {
        self.height
    }

    /// The time of the last one.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The head of its chain.
    pub fn head(&self) -> ChainHash {
        self.head
    }

    /// The hash of what it holds, as it is added to and taken from.
    pub fn state(&self) -> &LtHash {
        &self.state
    }

    /// The digest of that.
    pub fn state_hash(&self) -> StateHash {
        self.state.digest()
    }

    /// Applies a transaction, all of it or nothing. After a refusal or an error the vault is what it
    /// was. Of [`Limits`] only the bound of results counts here.
    pub fn apply<R: Reads>(
        &mut self,
        proposal: Proposal,
        now: Timestamp,
        limits: &Limits,
        reads: &mut R,
    ) -> Result<Application, R::Error> {
        let Proposal { id, origin, request, actor } = proposal;
        let height = self.height.next();
        let results_left = limits.result_bytes_max;
        let mut work = Work { reads, height, results_left, touched: BTreeMap::new() };
        let mut results = Vec::with_capacity(request.operations().len());
        for (index, operation) in request.operations().iter().enumerate() {
            match work.operate(operation, || id.operation(index)) {
                Ok(result) => results.push(result),
                Err(Stop::Failed(why)) => return Err(why),
                Err(Stop::Refused(code, key)) => {
                    return Ok(Application::Refused(work.refusal(index, code, key)));
                }
            }
        }
        let (changes, before) = work.changes(&mut self.state);
        // The clock of a server can be set back; the times of a scope never go back.
        let time = now.max(self.time);
        let starts = starts(request.operations());
        let transaction = Transaction { id, height, time, origin, request, actor };
        let (state_hash, head) = self.advance(&transaction);
        let success = Success { transaction: id, height, time, head, results };
        let receipt = Arc::new(Receipt { hash: transaction.request.hash(), success });
        let record = Record { transaction, before, state_hash, head };
        Ok(Application::Applied(Applied { record, receipt, changes, starts }))
    }
}

impl Vault {
    /// The transaction has changed the state: the chain goes on with it.
    fn advance(&mut self, transaction: &Transaction) -> (StateHash, ChainHash) {
        let state_hash = self.state.digest();
        let head = proof::next_head(self.head, self.incarnation, transaction, state_hash);
        (self.height, self.time, self.head) = (transaction.height, transaction.time, head);
        (state_hash, head)
    }

    /// Applies a transaction again, by the entities of its record in place of the vault's. After an
    /// error the vault is of no more use.
    pub fn replay(&mut self, record: &Record) -> Result<(), ReplayFault> {
        let Record { transaction, before, state_hash, head } = record;
        let height = self.height.next();
        if transaction.height != height {
            return Err(ReplayFault::Height { expected: height, found: transaction.height });
        }
        if transaction.time < self.time {
            return Err(ReplayFault::Time);
        }
        let mut known = Known(before.iter().map(|(key, summary)| (key, summary)).collect());
        let touched = BTreeMap::new();
        let mut work = Work { reads: &mut known, height, results_left: usize::MAX, touched };
        let operations = transaction.request.operations();
        let written = operations.iter().filter(|operation| operation.is_write());
        let written: BTreeSet<&EntityKey> = written.flat_map(Operation::keys).collect();
        for (index, operation) in operations.iter().enumerate() {
            // Of an entity that does not change the record says nothing.
            if operation.keys().all(|key| written.contains(key)) {
                match work.operate(operation, || transaction.id.operation(index)) {
                    Ok(_) => {}
                    Err(Stop::Refused(code, _)) => return Err(ReplayFault::Refused(code)),
                    Err(Stop::Failed(never)) => match never {},
                }
            }
        }
        if work.changes(&mut self.state).1 != *before {
            return Err(ReplayFault::Before);
        }
        let (computed, next) = self.advance(transaction);
        if computed != *state_hash {
            return Err(ReplayFault::StateHash);
        }
        if next == *head { Ok(()) } else { Err(ReplayFault::Head) }
    }
}

/// Why a record does not continue its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFault {
    /// It has another height.
    Height {
        /// The height that comes next.
        expected: Height,
        /// The height of the record.
        found: Height,
    },
    /// It is earlier than the record before it.
    Time,
    /// Its operations would have been refused.
    Refused(Code),
    /// It names other entities than those that its operations change.
    Before,
    /// It has another state hash.
    StateHash,
    /// It has another head.
    Head,
}

/// The entities that a record names.
struct Known<'a>(BTreeMap<&'a EntityKey, &'a EntitySummary>);

impl Reads for Known<'_> {
    type Error = Infallible;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, Infallible> {
        Ok(self.0.get(key).map(|summary| Entity::unseen(summary)))
    }
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Application {
    /// It was applied.
    Applied(Applied),
    /// It was not, and the vault is what it was.
    Refused(Refusal),
}

/// What an applied transaction leaves to be stored and done, all in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The transaction and its proof, for the log.
    pub record: Record,
    /// What its caller is told, for the answer and for every repetition.
    pub receipt: Arc<Receipt>,
    /// The entities that changed, by ascending keys.
    pub changes: Vec<Change>,
    /// The executions that begin in the same commit.
    pub starts: Vec<Start>,
}

/// An entity before and after a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its key.
    pub key: EntityKey,
    /// What it was; `None` if it is new.
    pub before: Option<EntitySummary>,
    /// What it is; `None` if it is gone.
    pub after: Option<Entity>,
}

/// An execution that a transaction starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The index of the operation.
    pub index: usize,
    /// Which function.
    pub function: FunctionName,
    /// With what.
    pub input: Payload,
}

fn starts(operations: &[Operation]) -> Vec<Start> {
    let start = |(index, operation): (usize, &Operation)| match operation {
        Operation::Start { function, input } => {
            Some(Start { index, function: function.clone(), input: input.clone() })
        }
        _ => None,
    };
    operations.iter().enumerate().filter_map(start).collect()
}

/// Why a transaction does not go on.
enum Stop<E> {
    /// An operation is refused, about the entity under this key.
    Refused(Code, EntityKey),
    /// A row could not be read.
    Failed(E),
}

/// An entity that an operation has looked at.
struct Touched {
    before: Option<EntitySummary>,
    now: Option<Entity>,
    is_written: bool,
    /// `now` has no bytes: a transaction that checks a thousand large values does not hold them all.
    is_unseen: bool,
}

/// A transaction on its way: what it has read and changed so far.
struct Work<'a, R> {
    reads: &'a mut R,
    height: Height,
    results_left: usize,
    touched: BTreeMap<EntityKey, Touched>,
}

impl<R: Reads> Work<'_, R> {
    fn operate(
        &mut self,
        operation: &Operation,
        started: impl FnOnce() -> OperationId,
    ) -> Result<OperationResult, Stop<R::Error>> {
        let version = self.height;
        match operation {
            Operation::Set { key, content, expires_at, condition } => {
                let now = self.meet(key, condition.as_ref())?;
                *now = Some(Entity { content: content.clone(), version, expires_at: *expires_at });
                self.written(key);
                Ok(OperationResult::Set { version })
            }
            Operation::Delete { key, condition } => {
                let gone = self.meet(key, condition.as_ref())?.take();
                self.written(key);
                Ok(OperationResult::Deleted { version: gone.map(|entity| entity.version) })
            }
            Operation::Check { key, condition } => {
                self.meet(key, Some(condition))?;
                Ok(OperationResult::Checked)
            }
            Operation::Get { key } => self.get(key),
            Operation::Add { key, delta, unit, min, max, condition } => {
                self.meet(key, condition.as_ref())?;
                let balance =
                    self.add(key, *delta, unit.as_ref(), Origination::InUnit, (*min, *max))?;
                Ok(OperationResult::Added { version, balance })
            }
            Operation::Transfer { from, to, quantity, unit, min, max } => {
                let taken =
                    self.add(from, -quantity, unit.as_ref(), Origination::Refused, (*min, None))?;
                let unit = self.unit_of(from);
                let given =
                    self.add(to, *quantity, unit.as_ref(), Origination::Refused, (None, *max))?;
                Ok(OperationResult::Transferred { version, from_balance: taken, to_balance: given })
            }
            Operation::Start { .. } => Ok(OperationResult::Started { operation: started() }),
        }
    }

    fn touch(&mut self, key: &EntityKey) -> Result<&mut Touched, Stop<R::Error>> {
        match self.touched.entry(key.clone()) {
            Entry::Occupied(touched) => Ok(touched.into_mut()),
            Entry::Vacant(place) => {
                let mut now = self.reads.entity(key).map_err(Stop::Failed)?;
                let before = now.as_ref().map(Entity::summary);
                let is_large =
                    |entity: &Entity| entity.content.value_bytes() > REFUSED_VALUE_BYTES_MAX;
                let is_unseen = now.as_ref().is_some_and(is_large);
                if is_unseen {
                    now = before.as_ref().map(Entity::unseen);
                }
                Ok(place.insert(Touched { before, now, is_written: false, is_unseen }))
            }
        }
    }

    fn written(&mut self, key: &EntityKey) {
        let touched = self.touched.get_mut(key).expect("an operation touches what it writes");
        (touched.is_written, touched.is_unseen) = (true, false);
    }

    /// The entity under the key, if the condition holds of it.
    fn meet(
        &mut self,
        key: &EntityKey,
        condition: Option<&Condition>,
    ) -> Result<&mut Option<Entity>, Stop<R::Error>> {
        let touched = self.touch(key)?;
        match condition.and_then(|condition| unmet(condition, touched.now.as_ref())) {
            Some(code) => Err(Stop::Refused(code, key.clone())),
            None => Ok(&mut touched.now),
        }
    }

    fn get(&mut self, key: &EntityKey) -> Result<OperationResult, Stop<R::Error>> {
        let touched = self.touch(key)?;
        let entity = match touched.is_unseen {
            true => self.reads.entity(key).map_err(Stop::Failed)?,
            false => touched.now.clone(),
        };
        let bytes = entity.as_ref().map_or(0, |entity| entity.content.value_bytes());
        match self.results_left.checked_sub(bytes) {
            Some(left) => self.results_left = left,
            None => return Err(Stop::Refused(Code::ResultTooLarge, key.clone())),
        }
        Ok(OperationResult::Got(entity))
    }

    /// Changes an amount, and returns how much it is then.
    fn add(
        &mut self,
        key: &EntityKey,
        delta: i128,
        unit: Option<&Unit>,
        origination: Origination,
        (min, max): (Option<i128>, Option<i128>),
    ) -> Result<i128, Stop<R::Error>> {
        let version = self.height;
        let touched = self.touch(key)?;
        let refuse = |code| Err(Stop::Refused(code, key.clone()));
        let (amount, expires_at) = match (&touched.now, unit, origination) {
            (Some(Entity { content: Content::Amount(amount), expires_at, .. }), _, _) => {
                (amount.clone(), *expires_at)
            }
            (Some(_), _, _) => return refuse(Code::UnitMismatch),
            (None, Some(unit), Origination::InUnit) => {
                (Amount { quantity: 0, unit: unit.clone() }, None)
            }
            (None, _, _) => return refuse(Code::KeyNotFound),
        };
        if unit.is_some_and(|unit| *unit != amount.unit) {
            return refuse(Code::UnitMismatch);
        }
        let Some(quantity) = amount.quantity.checked_add(delta) else {
            return refuse(Code::AmountOverflow);
        };
        if min.is_some_and(|min| quantity < min) {
            return refuse(Code::BelowMin);
        }
        if max.is_some_and(|max| quantity > max) {
            return refuse(Code::AboveMax);
        }
        let content = Content::Amount(Amount { quantity, ..amount });
        touched.now = Some(Entity { content, version, expires_at });
        touched.is_written = true;
        Ok(quantity)
    }

    fn unit_of(&self, key: &EntityKey) -> Option<Unit> {
        match &self.touched.get(key)?.now.as_ref()?.content {
            Content::Amount(amount) => Some(amount.unit.clone()),
            Content::Value(_) => None,
        }
    }

    fn refusal(&self, index: usize, code: Code, key: EntityKey) -> Refusal {
        let touched = self.touched.get(&key);
        let current = touched.and_then(|touched| touched.now.as_ref());
        let is_unseen = touched.is_some_and(|touched| touched.is_unseen);
        let current_value = current.and_then(|entity| match &entity.content {
            Content::Value(value)
                if !is_unseen && value.payload().bytes.len() <= REFUSED_VALUE_BYTES_MAX =>
            {
                Some(value.payload().clone())
            }
            _ => None,
        });
        let current = current.map(Entity::summary);
        Refusal { index, code, key, current, current_value }
    }

    /// The entities that are not what they were, in the state hash as well.
    fn changes(self, state: &mut LtHash) -> (Vec<Change>, Vec<(EntityKey, EntitySummary)>) {
        let mut changes = Vec::with_capacity(self.touched.len());
        let mut befores = Vec::new();
        for (key, Touched { before, now: after, is_written, .. }) in self.touched {
            if !is_written || before.is_none() && after.is_none() {
                continue;
            }
            if let Some(before) = &before {
                state.remove(&key, before);
                befores.push((key.clone(), before.clone()));
            }
            if let Some(after) = &after {
                state.add(&key, &after.summary());
            }
            changes.push(Change { key, before, after });
        }
        (changes, befores)
    }
}

/// What an addition does where there is no entity.
#[derive(Clone, Copy)]
enum Origination {
    /// It begins one at zero, if the operation names its unit.
    InUnit,
    /// It is refused: money does not go to an account that was misspelled.
    Refused,
}

/// The code of a condition that does not hold (impl Q-19).
fn unmet(condition: &Condition, entity: Option<&Entity>) -> Option<Code> {
    let Some(entity) = entity else {
        return (!matches!(condition, Condition::Absent)).then_some(Code::KeyNotFound);
    };
    let (holds, code) = match condition {
        Condition::Absent => (false, Code::KeyExists),
        Condition::Present => (true, Code::KeyNotFound),
        Condition::Version(version) => (entity.version == *version, Code::VersionMismatch),
        Condition::Content(content) => {
            (entity.content.summary() == content.summary(), Code::ValueMismatch)
        }
        Condition::Hash(hash) => {
            let of = match &entity.content {
                Content::Value(value) => Some(value.hash()),
                Content::Amount(_) => None,
            };
            (of == Some(*hash), Code::ValueMismatch)
        }
    };
    (!holds).then_some(code)
}
