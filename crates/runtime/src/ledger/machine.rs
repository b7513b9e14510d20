//! A scope of the ledger as a machine (D14, D15): its head, the streams of its clients, and what
//! changed since the last commit. The rules are those of `indelible-ledger`; this loads what they look
//! at, and collects the rows of what they allow.
//!
//! Each request works on copies of the head and the stream, which count only when all of it was read
//! and applied: a row that cannot be read leaves nothing half done.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_execution::{Actor as Person, Purpose, audit_entry};
use indelible_journal::{
    ComponentDigest, FunctionName, Micros, Namespace, OperationKey, Payload, Timestamp,
};
use indelible_ledger::{
    Actor, Answer, Application, Applied, ClientId, Condition, Entity, EntityKey, Height,
    Incarnation, Limits, Operation, OperationResult, Origin, OriginRecord, OriginVerdict, Proposal,
    Reads, Receipt, Request, ResponseCache, RestoreCount, Run, Scope, Sequence, SequenceReads,
    Stream, TransactionId, Vault,
};
use indelible_machine::{CallerId, Changes, Machine, TimerChange};
use indelible_operations::id;
use indelible_operations::retention::Age;
use indelible_records::audit::{self, AuditSubject};
use indelible_records::ledger::{self, LiveScope, ScopeRow, StoredOrigin, WriteName};
use indelible_records::restores;
use indelible_slots::Slot;
use indelible_store::{Batch, Read, ReadError};

use super::{LedgerAnswer, LedgerError, NamedAnswer, VaultSettings, WriteOutcome, Writes};
use crate::rooms::{
    BegunTree, Context, Input, Outgoing, RoomMachine, RoomRows, RoomStart, RoomTimer,
};
use crate::shared::lock;
use crate::{EngineError, StartRefused};

/// The actor of transactions that delete what has expired (C-84).
const EXPIRY: &str = "system:expiry";

/// With so many bytes or rows the changes are committed before the next request. The largest request
/// has less than what a batch has room for beyond that.
const PENDING_BYTES_MAX: usize = 8 << 20;
const PENDING_ROWS_MAX: usize = 20_000;

/// How many streams stay in memory between two commits.
const STREAMS_MAX: usize = 1_024;

/// How many transactions, or rows of a deleted vault, one commit of the clean-up takes.
const COMPACTED_MAX: usize = 500;

/// How often a log that has nothing to cut off is looked at again, at most.
const COMPACTION_PAUSE: Micros = Micros::from_secs(60);

/// What the first byte of a timer means.
const EXPIRES: u8 = 1;
const COMPACTS: u8 = 2;
const PURGES: u8 = 3;

/// What all scopes of a server share.
#[derive(Debug, Default)]
pub(crate) struct LedgerMemory {
    /// What recent numbers were answered.
    pub(crate) cache: Mutex<ResponseCache>,
    pub(crate) limits: Limits,
}

/// What a scope can be asked.
pub(crate) enum Ask {
    /// To apply these writes, unless they were applied before.
    Write(Box<WriteAsk>),
    /// To be a vault with these settings.
    Put(VaultSettings, Person),
    /// To be gone. The reason is the person's.
    Delete(Option<Incarnation>, Person, String),
    /// To let a client id belong to another (C-46). The reason is the person's.
    HandOver(ClientId, Actor, Person, String),
}

/// Writes, as the door has checked them.
pub(crate) struct WriteAsk {
    pub(crate) pinned: Option<Incarnation>,
    pub(crate) actor: Actor,
    pub(crate) writes: Writes,
    pub(crate) checks: DoorChecks,
}

/// What the door has found out for new transactions. One that was applied before is answered as it
/// was, whatever this says.
pub(crate) struct DoorChecks {
    /// The functions that they start.
    pub(crate) functions: Vec<StartFunction>,
    /// Why a key or an operation id that is not known is refused, if it is (see C-48).
    pub(crate) unknown_name: Result<(), EngineError>,
}

/// A function that a write starts with this input.
pub(crate) struct StartFunction {
    pub(crate) function: FunctionName,
    pub(crate) input: Payload,
    /// Its version, or why a new transaction that starts it is refused.
    pub(crate) version: Result<ComponentDigest, StartRefused>,
}

/// What a scope answers.
pub(crate) enum Reply {
    Written(LedgerAnswer),
    /// The row, and whether the vault was made now.
    Put(Box<LiveScope>, bool),
    /// From when on the name is free.
    Deleted(Timestamp),
    HandedOver,
}

/// The machine of a scope.
pub(crate) struct VaultMachine {
    memory: Arc<LedgerMemory>,
    /// `None`: not read yet.
    loaded: Option<Loaded>,
    pending: Pending,
}

struct Loaded {
    scope: Scope,
    row: Option<ScopeRow>,
    restores: RestoreCount,
    streams: BTreeMap<ClientId, Option<Stream>>,
}

/// What changed since the last commit.
#[derive(Default)]
struct Pending {
    batch: Option<Batch>,
    scope_changed: bool,
    streams: BTreeSet<ClientId>,
    entities: BTreeMap<EntityKey, Option<Entity>>,
    receipts: BTreeMap<(ClientId, Sequence), Arc<Receipt>>,
    names: BTreeMap<WriteName, OriginRecord>,
    timers: Vec<(RoomTimer, TimerChange)>,
    starts: Vec<BegunTree>,
    replies: Vec<(CallerId, Result<Reply, LedgerError>)>,
    notices: Vec<String>,
}

impl VaultMachine {
    pub(crate) fn new(memory: Arc<LedgerMemory>) -> Self {
        Self { memory, loaded: None, pending: Pending::default() }
    }

    fn load(&mut self, cx: &Context<'_>) -> Result<&mut Loaded, ReadError> {
        if self.loaded.is_none() {
            let scope = ledger::scope_of(cx.key)?;
            let row = ledger::scope(&cx.reads, &scope)?.value;
            let restores = RestoreCount::new(restores::get(&cx.reads)?.value);
            self.loaded = Some(Loaded { scope, row, restores, streams: BTreeMap::new() });
        }
        Ok(self.loaded.as_mut().expect("it was just read"))
    }

    fn batch(&mut self, slot: Slot) -> &mut Batch {
        self.pending.batch.get_or_insert_with(|| Batch::in_slots(slot))
    }

    fn asked(&mut self, cx: &Context<'_>, ask: Ask) -> Result<Reply, LedgerError> {
        match ask {
            Ask::Write(write) => self.write(cx, *write).map(Reply::Written),
            Ask::Put(settings, person) => self.put(cx, settings, &person),
            Ask::Delete(pinned, person, reason) => self.delete(cx, pinned, &person, &reason),
            Ask::HandOver(client, owner, person, reason) => {
                self.hand_over(cx, client, owner, &person, &reason)
            }
        }
    }

    /// A copy of the scope. The ledger of a namespace begins with its first write.
    fn live(&mut self, cx: &Context<'_>) -> Result<LiveScope, LedgerError> {
        let Loaded { scope, row, .. } = self.load(cx)?;
        match row {
            Some(ScopeRow::Live(live)) => Ok((**live).clone()),
            None if scope.vault.is_none() => Ok(begin(cx, scope)),
            _ => Err(LedgerError::NoVault),
        }
    }

    /// Judges and applies writes.
    fn write(&mut self, cx: &Context<'_>, ask: WriteAsk) -> Result<LedgerAnswer, LedgerError> {
        let mut live = self.live(cx)?;
        let incarnation = live.vault.incarnation();
        pinned(ask.pinned, incarnation)?;
        let restores = self.load(cx)?.restores;
        let WriteAsk { actor, writes, checks, .. } = ask;
        let outcome = match writes {
            Writes::Run(run) => {
                WriteOutcome::Run(self.write_run(cx, &mut live, run, &actor, checks.functions)?)
            }
            Writes::Named(name, request) => {
                let vault = &mut live.vault;
                WriteOutcome::Named(self.write_named(cx, vault, name, request, actor, checks)?)
            }
        };
        // The incarnation of a new scope is stored before a caller is told of it.
        let is_new = self.load(cx)?.row.is_none();
        if is_new || self.pending.batch.is_some() {
            self.keep(live);
        }
        Ok(LedgerAnswer { incarnation, restores, outcome })
    }

    /// The scope is as in this copy, from now on.
    fn keep(&mut self, live: LiveScope) {
        let loaded = self.loaded.as_mut().expect("the copy is of what was loaded");
        loaded.row = Some(ScopeRow::Live(Box::new(live)));
        self.pending.scope_changed = true;
    }

    fn write_run(
        &mut self,
        cx: &Context<'_>,
        live: &mut LiveScope,
        run: Run,
        actor: &Actor,
        functions: Vec<StartFunction>,
    ) -> Result<Vec<Answer>, LedgerError> {
        let incarnation = live.vault.incarnation();
        let client = run.client().clone();
        let loaded = self.load(cx)?;
        let restores = loaded.restores;
        let mut stream = match loaded.streams.get(&client) {
            Some(known) => known.clone(),
            None => ledger::stream(&cx.reads, incarnation, &client)?.value,
        };
        let context =
            indelible_ledger::Context { now: cx.now, actor, restores, limits: &self.memory.limits };
        let mut reads = StoredReads {
            cx,
            incarnation,
            pending: &self.pending,
            memory: &self.memory,
            client: Some(&client),
        };
        let mint = || mint(cx);
        let written =
            indelible_ledger::write(&mut live.vault, &mut stream, run, mint, &context, &mut reads)?;
        let namespace = self.load(cx)?.scope.namespace.clone();
        let starts = starts(cx, &written.applied, functions, &namespace, actor)?;
        self.pending.starts.extend(starts);
        for applied in &written.applied {
            self.record(cx, incarnation, applied);
        }
        let loaded = self.load(cx)?;
        loaded.streams.insert(client.clone(), stream);
        if written.stream_changed {
            self.pending.streams.insert(client);
        }
        Ok(written.answers)
    }

    fn write_named(
        &mut self,
        cx: &Context<'_>,
        vault: &mut Vault,
        name: WriteName,
        request: Request,
        actor: Actor,
        checks: DoorChecks,
    ) -> Result<NamedAnswer, LedgerError> {
        let incarnation = vault.incarnation();
        let known = self.named(cx, incarnation, &name)?;
        match OriginRecord::judge(known.as_ref(), request.hash()) {
            OriginVerdict::Fresh => {}
            OriginVerdict::PriorResult(receipt) => {
                return Ok(NamedAnswer::PriorResult(receipt.clone()));
            }
            OriginVerdict::PriorError(refusal) => {
                return Ok(NamedAnswer::PriorError(refusal.clone()));
            }
            OriginVerdict::Mismatch => return Ok(NamedAnswer::Mismatch),
        }
        let DoorChecks { functions, unknown_name } = checks;
        unknown_name?;
        if let WriteName::Operation(operation) = &name {
            let now = cx.now.max(cx.surroundings.retention_time());
            match cx.retention.age(operation, now) {
                Age::Fresh => {}
                Age::Expired => return Err(LedgerError::Expired),
                Age::TooFarAhead => return Err(LedgerError::FromTheFuture),
            }
        }
        let hash = request.hash();
        let person = actor.clone();
        let proposal = Proposal { id: mint(cx), origin: name.origin(), request, actor };
        match self.apply(cx, vault, proposal)? {
            Application::Applied(applied) => {
                let namespace = self.load(cx)?.scope.namespace.clone();
                let applied = [applied];
                let starts = starts(cx, &applied, functions, &namespace, &person)?;
                self.pending.starts.extend(starts);
                let [applied] = applied;
                self.record(cx, incarnation, &applied);
                let receipt = applied.receipt;
                self.pending.names.insert(name, OriginRecord::Committed(receipt.clone()));
                Ok(NamedAnswer::Fresh(receipt))
            }
            Application::Refused(refusal) => {
                let stored = StoredOrigin::Refused(hash, refusal.clone());
                // Retention judges by its own clock, which may be ahead of the wall's.
                let at = cx.now.max(cx.surroundings.retention_time());
                let batch = self.batch(cx.key.slot());
                ledger::put_origin(batch, incarnation, &name, at, Some(&stored));
                let record = OriginRecord::Refused { hash, refusal: refusal.clone() };
                self.pending.names.insert(name, record);
                Ok(NamedAnswer::Refused(refusal))
            }
        }
    }

    fn apply(
        &self,
        cx: &Context<'_>,
        vault: &mut Vault,
        proposal: Proposal,
    ) -> Result<Application, ReadError> {
        let mut reads = StoredReads {
            cx,
            incarnation: vault.incarnation(),
            pending: &self.pending,
            memory: &self.memory,
            client: None,
        };
        vault.apply(proposal, cx.now, &self.memory.limits, &mut reads)
    }

    /// What this name has led to.
    fn named(
        &self,
        cx: &Context<'_>,
        incarnation: Incarnation,
        name: &WriteName,
    ) -> Result<Option<OriginRecord>, ReadError> {
        if let Some(known) = self.pending.names.get(name) {
            return Ok(Some(known.clone()));
        }
        Ok(match ledger::origin(&cx.reads, incarnation, name)?.value {
            None => None,
            Some(StoredOrigin::Refused(hash, refusal)) => {
                Some(OriginRecord::Refused { hash, refusal })
            }
            Some(StoredOrigin::Committed(height)) => {
                let entry = ledger::log_entry(&cx.reads, incarnation, height)?.value;
                entry.map(|entry| OriginRecord::Committed(entry.receipt()))
            }
        })
    }

    /// Adds the rows of a transaction: the log, the entities now and in the past, what it came
    /// under, and the timers of what expires.
    fn record(&mut self, cx: &Context<'_>, incarnation: Incarnation, applied: &Applied) {
        let Applied { record, receipt, changes, .. } = applied;
        let (height, time) = (record.transaction.height, record.transaction.time);
        let batch = self.pending.batch.get_or_insert_with(|| Batch::in_slots(cx.key.slot()));
        ledger::put_log(batch, incarnation, record, receipt);
        match &record.transaction.origin {
            Origin::Client { client, sequence, .. } => {
                ledger::put_sequence(batch, incarnation, client, *sequence, Some(height));
                let key = (incarnation, client.clone(), *sequence);
                lock(&self.memory.cache).insert(key, receipt.clone(), cx.now);
                self.pending.receipts.insert((client.clone(), *sequence), receipt.clone());
            }
            Origin::Key(key) => {
                let (name, led_to) = (WriteName::Key(key.clone()), StoredOrigin::Committed(height));
                ledger::put_origin(batch, incarnation, &name, time, Some(&led_to));
            }
            Origin::Operation(id) => {
                let name = WriteName::Operation(id.clone());
                let led_to = StoredOrigin::Committed(height);
                ledger::put_origin(batch, incarnation, &name, time, Some(&led_to));
            }
            // Steps and messages do not come through this door.
            Origin::Promise(_) | Origin::Message { .. } | Origin::Expiry => {}
        }
        for change in changes {
            ledger::change(batch, incarnation, height, change);
            let before = change.before.as_ref().and_then(|entity| entity.expires_at);
            let after = change.after.as_ref().and_then(|entity| entity.expires_at);
            if before != after {
                let timer = |due| expiry_timer(cx, due, &change.key);
                let gone = before.map(|due| (timer(due), TimerChange::Delete));
                let new = after.map(|due| (timer(due), TimerChange::Put));
                self.pending.timers.extend(gone.into_iter().chain(new));
            }
            self.pending.entities.insert(change.key.clone(), change.after.clone());
        }
    }

    fn put(
        &mut self,
        cx: &Context<'_>,
        settings: VaultSettings,
        person: &Person,
    ) -> Result<Reply, LedgerError> {
        let now = cx.now.max(cx.surroundings.retention_time());
        let loaded = self.load(cx)?;
        let (mut live, is_new) = match &loaded.row {
            Some(ScopeRow::Live(live)) => ((**live).clone(), false),
            Some(ScopeRow::Deleted { free_at, .. }) if now < *free_at => {
                return Err(LedgerError::NameTaken { free_at: *free_at });
            }
            _ => (begin(cx, &loaded.scope), true),
        };
        if is_new || live.log_retention != settings.log_retention {
            live.log_retention = settings.log_retention;
            let action = if is_new { "create vault" } else { "change vault" };
            let kept = live.log_retention.map(|kept| format!("log retention {kept}"));
            self.audit(cx, person, action, &kept.unwrap_or_default());
            self.compact_at(cx, &mut live, settings.log_retention.map(|_| cx.now));
            self.keep(live.clone());
        }
        Ok(Reply::Put(Box::new(live), is_new))
    }

    fn delete(
        &mut self,
        cx: &Context<'_>,
        pin: Option<Incarnation>,
        person: &Person,
        reason: &str,
    ) -> Result<Reply, LedgerError> {
        let now = cx.now.max(cx.surroundings.retention_time());
        let loaded = self.load(cx)?;
        let mut live = match &loaded.row {
            Some(ScopeRow::Live(live)) => (**live).clone(),
            // A repetition, until another vault can have the name.
            Some(ScopeRow::Deleted { incarnation, free_at })
                if now < *free_at && pin.is_none_or(|pin| pin == *incarnation) =>
            {
                return Ok(Reply::Deleted(*free_at));
            }
            _ => return Err(LedgerError::NoVault),
        };
        let incarnation = live.vault.incarnation();
        pinned(pin, incarnation)?;
        let free_at = now.saturating_add(cx.retention.window());
        loaded.row = Some(ScopeRow::Deleted { incarnation, free_at });
        loaded.streams.clear();
        self.pending.streams.clear();
        self.pending.scope_changed = true;
        self.audit(cx, person, "delete vault", reason);
        self.compact_at(cx, &mut live, None);
        self.pending.timers.push((purge_timer(cx, cx.now, incarnation), TimerChange::Put));
        Ok(Reply::Deleted(free_at))
    }

    fn hand_over(
        &mut self,
        cx: &Context<'_>,
        client: ClientId,
        owner: Actor,
        person: &Person,
        reason: &str,
    ) -> Result<Reply, LedgerError> {
        let live = self.live(cx)?;
        let incarnation = live.vault.incarnation();
        let loaded = self.load(cx)?;
        let stream = match loaded.streams.get(&client) {
            Some(known) => known.clone(),
            None => ledger::stream(&cx.reads, incarnation, &client)?.value,
        };
        let mut stream = stream.ok_or(LedgerError::NoClient)?;
        if stream.owner == owner {
            return Ok(Reply::HandedOver);
        }
        let action = format!("hand over client {client} from {} to {owner}", stream.owner);
        stream.owner = owner;
        loaded.streams.insert(client.clone(), Some(stream));
        self.pending.streams.insert(client);
        self.audit(cx, person, &action, reason);
        Ok(Reply::HandedOver)
    }

    fn audit(&mut self, cx: &Context<'_>, person: &Person, action: &str, reason: &str) {
        let scope = self.loaded.as_ref().map(|loaded| loaded.scope.to_string());
        let about = AuditSubject::Subject(format!("ledger {}", scope.unwrap_or_default()));
        let entry = audit_entry(cx.surroundings, cx.now, person, about, action, reason);
        let batch = self.batch(cx.key.slot());
        batch.touch(entry.slot());
        audit::put(batch, &entry);
    }

    /// Sets the timer of the log's retention, in the place of the one that was set.
    fn compact_at(&mut self, cx: &Context<'_>, live: &mut LiveScope, at: Option<Timestamp>) {
        let timer =
            |due| RoomTimer { due, key: cx.key.clone(), what: Bytes::from_static(&[COMPACTS]) };
        if let Some(old) = live.compacts_at {
            self.pending.timers.push((timer(old), TimerChange::Delete));
        }
        if let Some(new) = at {
            self.pending.timers.push((timer(new), TimerChange::Put));
        }
        live.compacts_at = at;
    }

    /// A timer is due. Its row goes in the commit of what follows, so a repeated one finds nothing to
    /// do.
    fn due(&mut self, cx: &Context<'_>, timer: RoomTimer) -> Result<(), LedgerError> {
        match timer.what.split_first() {
            Some((&EXPIRES, key)) => {
                let key = str::from_utf8(key).ok().and_then(|key| EntityKey::new(key).ok());
                if let Some(key) = key {
                    self.expire(cx, &key, timer.due)?;
                }
            }
            Some((&COMPACTS, _)) => self.compact(cx, timer.due)?,
            Some((&PURGES, incarnation)) => {
                if let Ok(incarnation) = incarnation.try_into() {
                    self.purge(cx, Incarnation::from_bytes(incarnation))?;
                }
            }
            _ => {}
        }
        self.pending.timers.insert(0, (timer, TimerChange::Delete));
        Ok(())
    }

    /// Deletes an entity whose time has come: a transaction with its own height (impl C-84).
    fn expire(
        &mut self,
        cx: &Context<'_>,
        key: &EntityKey,
        due: Timestamp,
    ) -> Result<(), LedgerError> {
        let Some(ScopeRow::Live(live)) = &self.load(cx)?.row else { return Ok(()) };
        let mut live = (**live).clone();
        let incarnation = live.vault.incarnation();
        let mut reads = StoredReads {
            cx,
            incarnation,
            pending: &self.pending,
            memory: &self.memory,
            client: None,
        };
        let entity = reads.entity(key)?.filter(|entity| entity.expires_at == Some(due));
        let Some(Entity { version, .. }) = entity else { return Ok(()) };
        let condition = Some(Condition::Version(version));
        let delete = Operation::Delete { key: key.clone(), condition };
        let request = Request::single(vec![delete], &self.memory.limits)
            .map_err(|error| LedgerError::Malformed(error.to_string()))?;
        let actor = Actor::new(EXPIRY);
        let proposal = Proposal { id: mint(cx), origin: Origin::Expiry, request, actor };
        if let Application::Applied(applied) = self.apply(cx, &mut live.vault, proposal)? {
            self.record(cx, incarnation, &applied);
            self.keep(live);
        }
        Ok(())
    }

    /// Cuts off what is past its time from the log (impl C-44): the transactions, what they came
    /// under, and the versions of entities that no later height shows. A checkpoint stays in their
    /// place. Names that a refusal used up are in no transaction: each goes by its own time.
    fn compact(&mut self, cx: &Context<'_>, due: Timestamp) -> Result<(), LedgerError> {
        let Some(ScopeRow::Live(live)) = &self.load(cx)?.row else { return Ok(()) };
        let mut live = (**live).clone();
        let Some(kept) = live.log_retention.filter(|_| live.compacts_at == Some(due)) else {
            return Ok(());
        };
        let incarnation = live.vault.incarnation();
        let time = cx.surroundings.retention_time();
        let mut base = if live.log_from == Height::ZERO {
            Vault::new(&self.load(cx)?.scope.clone(), incarnation)
        } else {
            let missing = || LedgerError::Malformed("the log's checkpoint is missing".to_owned());
            ledger::checkpoint(&cx.reads, incarnation, live.log_from)?.value.ok_or_else(missing)?
        };
        let from = Height::new(live.log_from.get() + 1);
        let entries = ledger::log_entries(&cx.reads, incarnation, from, COMPACTED_MAX)?.value;
        let is_over = |time_of: Timestamp| time_of.saturating_add(kept) <= time;
        // What is written from now on is not over before this.
        let mut again = cx.now.saturating_add(kept);
        let mut is_rest_kept = false;
        let batch = self.pending.batch.get_or_insert_with(|| Batch::in_slots(cx.key.slot()));
        for entry in &entries {
            let transaction = &entry.record.transaction;
            if !is_over(transaction.time) {
                is_rest_kept = true;
                again = again.min(transaction.time.saturating_add(kept));
                break;
            }
            base.replay(&entry.record).map_err(|fault| {
                let height = transaction.height;
                LedgerError::Malformed(format!("the log breaks its chain at {height}: {fault:?}"))
            })?;
            ledger::delete_log(batch, incarnation, transaction.height);
            match &transaction.origin {
                Origin::Client { client, sequence, .. } => {
                    ledger::put_sequence(batch, incarnation, client, *sequence, None);
                }
                Origin::Key(key) => {
                    let name = WriteName::Key(key.clone());
                    ledger::put_origin(batch, incarnation, &name, transaction.time, None);
                }
                Origin::Operation(id) => {
                    let name = WriteName::Operation(id.clone());
                    ledger::put_origin(batch, incarnation, &name, transaction.time, None);
                }
                Origin::Promise(_) | Origin::Message { .. } | Origin::Expiry => {}
            }
            // What an entity was before a transaction that is cut off is shown at no height any more.
            for (key, before) in &entry.record.before {
                ledger::forget_version(batch, incarnation, key, before.version);
                let mut last = transaction.request.operations().iter().rev();
                let last = last.find(|operation| operation.keys().any(|of| of == key));
                if matches!(last, Some(Operation::Delete { .. })) {
                    ledger::forget_version(batch, incarnation, key, transaction.height);
                }
            }
        }
        let old = std::mem::replace(&mut live.log_from, base.height());
        let is_cut = live.log_from > old;
        if is_cut {
            if old > Height::ZERO {
                ledger::delete_log(batch, incarnation, old);
            }
            ledger::put_checkpoint(batch, &base);
        }
        let upto = Timestamp::from_micros(time.as_micros().saturating_sub(kept.get()));
        let upto = upto.expect("it is no later than a time");
        let refused = ledger::forget_refused(&cx.reads, batch, incarnation, upto, COMPACTED_MAX)?;
        if let Some(refused) = refused {
            again = again.min(refused.saturating_add(kept));
        }
        // A page can be short: it ends when it has many bytes.
        let is_more = is_cut && !is_rest_kept && live.log_from < live.vault.height();
        let is_due = is_more || refused.is_some_and(is_over);
        again = if is_due { cx.now } else { again.max(cx.now.saturating_add(COMPACTION_PAUSE)) };
        live.compacts_at = None;
        self.compact_at(cx, &mut live, Some(again));
        self.keep(live);
        Ok(())
    }

    /// Deletes rows of a vault that was deleted, until none is left.
    fn purge(&mut self, cx: &Context<'_>, incarnation: Incarnation) -> Result<(), LedgerError> {
        let batch = self.pending.batch.get_or_insert_with(|| Batch::in_slots(cx.key.slot()));
        if ledger::purge(&cx.reads, batch, incarnation, COMPACTED_MAX)? {
            self.pending.timers.push((purge_timer(cx, cx.now, incarnation), TimerChange::Put));
        }
        Ok(())
    }
}

/// What the rules read: what is stored, with what this machine has not committed yet.
struct StoredReads<'a> {
    cx: &'a Context<'a>,
    incarnation: Incarnation,
    pending: &'a Pending,
    memory: &'a LedgerMemory,
    client: Option<&'a ClientId>,
}

impl Reads for StoredReads<'_> {
    type Error = ReadError;

    fn entity(&mut self, key: &EntityKey) -> Result<Option<Entity>, ReadError> {
        match self.pending.entities.get(key) {
            Some(entity) => Ok(entity.clone()),
            None => Ok(ledger::entity(&self.cx.reads, self.incarnation, key)?.value),
        }
    }
}

impl SequenceReads for StoredReads<'_> {
    fn cached(&mut self, sequence: Sequence) -> Option<Arc<Receipt>> {
        let key = (self.incarnation, self.client?.clone(), sequence);
        lock(&self.memory.cache).get(&key, self.cx.now)
    }

    fn receipt(&mut self, sequence: Sequence) -> Result<Option<Arc<Receipt>>, ReadError> {
        let Some(client) = self.client else { return Ok(None) };
        if let Some(receipt) = self.pending.receipts.get(&(client.clone(), sequence)) {
            return Ok(Some(receipt.clone()));
        }
        stored_receipt(&self.cx.reads, self.incarnation, client, sequence)
    }
}

/// The receipt of a client's number, while the log has it.
pub(super) fn stored_receipt(
    read: &impl Read,
    incarnation: Incarnation,
    client: &ClientId,
    sequence: Sequence,
) -> Result<Option<Arc<Receipt>>, ReadError> {
    let Some(height) = ledger::sequence(read, incarnation, client, sequence)?.value else {
        return Ok(None);
    };
    let entry = ledger::log_entry(read, incarnation, height)?.value;
    Ok(entry.map(|entry| entry.receipt()))
}

/// The executions that these transactions start. One that cannot be started refuses the whole request:
/// nothing was kept of it.
fn starts(
    cx: &Context<'_>,
    applied: &[Applied],
    mut functions: Vec<StartFunction>,
    namespace: &Namespace,
    actor: &Actor,
) -> Result<Vec<BegunTree>, LedgerError> {
    let mut starts = Vec::new();
    for Applied { receipt, starts: started, .. } in applied {
        for start in started {
            let known = functions
                .iter()
                .position(|known| {
                    (&known.function, &known.input) == (&start.function, &start.input)
                })
                .expect("the door looks at every function that a request starts");
            let version = match &functions[known].version {
                Ok(version) => *version,
                Err(_) => match functions.swap_remove(known).version {
                    Ok(version) => version,
                    Err(refused) => return Err(LedgerError::Start(refused)),
                },
            };
            let result = &receipt.success.results[start.index];
            let OperationResult::Started { operation } = result else {
                unreachable!("a start answers with its operation")
            };
            let (namespace, operation_id) = (namespace.clone(), operation.clone());
            starts.push(cx.begin(RoomStart {
                operation: OperationKey { namespace, operation_id },
                version,
                called: start.function.as_str().to_owned(),
                input: start.input.clone(),
                actor: Person::new(actor.as_str()),
            })?);
        }
    }
    Ok(starts)
}

/// A scope without a transaction.
fn begin(cx: &Context<'_>, scope: &Scope) -> LiveScope {
    let uuid = uuid(cx, Some(cx.key.slot()));
    LiveScope {
        vault: Vault::new(scope, Incarnation::new(uuid)),
        created_at: cx.now,
        log_from: Height::ZERO,
        log_retention: None,
        compacts_at: None,
    }
}

fn mint(cx: &Context<'_>) -> TransactionId {
    TransactionId::new(uuid(cx, None))
}

fn uuid(cx: &Context<'_>, slot: Option<Slot>) -> uuid::Uuid {
    let mut random = [0; 10];
    cx.surroundings.fill(Purpose::Id, &mut random);
    id::mint_uuid(cx.now, &random, slot)
}

/// Refuses what is meant for another life of the vault (impl C-47).
fn pinned(pinned: Option<Incarnation>, is: Incarnation) -> Result<(), LedgerError> {
    match pinned {
        Some(meant) if meant != is => Err(LedgerError::OtherIncarnation(is)),
        _ => Ok(()),
    }
}

fn expiry_timer(cx: &Context<'_>, due: Timestamp, key: &EntityKey) -> RoomTimer {
    timer(cx, due, EXPIRES, key.as_str().as_bytes())
}

fn purge_timer(cx: &Context<'_>, due: Timestamp, incarnation: Incarnation) -> RoomTimer {
    timer(cx, due, PURGES, incarnation.as_bytes())
}

fn timer(cx: &Context<'_>, due: Timestamp, kind: u8, rest: &[u8]) -> RoomTimer {
    let mut what = BytesMut::with_capacity(1 + rest.len());
    what.put_u8(kind);
    what.put_slice(rest);
    RoomTimer { due, key: cx.key.clone(), what: what.freeze() }
}

impl RoomMachine for VaultMachine {
    type Ask = Ask;
    type Answer = Result<Reply, LedgerError>;

    fn is_full(&self) -> bool {
        self.pending.batch.as_ref().is_some_and(|batch| {
            batch.bytes() > PENDING_BYTES_MAX || batch.writes().len() > PENDING_ROWS_MAX
        })
    }
}

impl Machine for VaultMachine {
    type Context<'a> = Context<'a>;
    type Input = Input<Ask>;
    type Rows = RoomRows;
    type Timer = RoomTimer;
    type Outgoing = Outgoing;
    type Reply = Result<Reply, LedgerError>;
    type Event = Infallible;
    type Notice = String;

    fn handle(&mut self, cx: &Context<'_>, input: Input<Ask>) {
        match input {
            Input::Asked(caller, ask) => {
                let reply = self.asked(cx, ask);
                self.pending.replies.push((caller, reply));
            }
            Input::Due(timer) => {
                if let Err(error) = self.due(cx, timer) {
                    self.pending.notices.push(error.to_string());
                }
            }
            // No machine sends messages to a vault, and it is never in the queue: all that it has to
            // do has a timer.
            Input::Message(_) | Input::Recover | Input::Report(..) => {}
        }
    }

    fn changes(&mut self) -> Option<Changes<Self>> {
        if self.is_idle() {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        let mut batch =
            pending.batch.unwrap_or_else(|| Batch::in_slots(indelible_slots::SlotSet::empty()));
        if let Some(loaded) = &mut self.loaded {
            if let Some(row) = loaded.row.as_ref().filter(|_| pending.scope_changed) {
                ledger::put_scope(&mut batch, &loaded.scope, row);
            }
            if let Some(ScopeRow::Live(live)) = &loaded.row {
                let incarnation = live.vault.incarnation();
                for client in &pending.streams {
                    if let Some(Some(stream)) = loaded.streams.get(client) {
                        ledger::put_stream(&mut batch, incarnation, client, stream);
                    }
                }
            }
            if loaded.streams.len() > STREAMS_MAX {
                loaded.streams.clear();
            }
        }
        Some(Changes {
            rows: RoomRows { batch, starts: pending.starts },
            timers: pending.timers,
            volatile_timers: Vec::new(),
            events: Vec::new(),
            replies: pending.replies,
            outgoing: Vec::new(),
        })
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.pending.notices)
    }

    fn is_idle(&self) -> bool {
        let Pending { batch, scope_changed, streams, timers, replies, .. } = &self.pending;
        batch.is_none()
            && !scope_changed
            && streams.is_empty()
            && timers.is_empty()
            && replies.is_empty()
    }
}
