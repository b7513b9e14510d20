//! What is stored of the ledger. Each answer is of one snapshot, and given when that is durable; it
//! carries the height that it is of.

use indelible_journal::{Namespace, Timestamp};
use indelible_ledger::proof::{Checkpoint, LtHash};
use indelible_ledger::{
    Actor, ClientId, EntityKey, Height, RestoreCount, Scope, Sequence, Vault, VaultName,
};
use indelible_records::ledger::{self, LiveScope, ScopeRow, room_key};
use indelible_records::restores as restore_rows;
use indelible_store::{Read, Seen, Snapshot};

use super::machine::stored_receipt;
use super::{
    ClientState, EntitiesPage, EntityAt, FollowVault, HistoryPage, LedgerError, LogPage, StateAt,
    VaultSettings, VaultState, VaultsPage,
};
use crate::EngineError;
use crate::engine::Engine;
use crate::reader::Lane;

/// The most rows of a page.
pub const LEDGER_PAGE_MAX: usize = 1_000;

/// How often the store was restored.
pub(super) fn restores(read: &impl Read) -> Result<RestoreCount, LedgerError> {
    Ok(RestoreCount::new(restore_rows::get(read)?.value))
}

/// A scope and its head.
pub(super) fn state_of(scope: &Scope, live: &LiveScope, restores: RestoreCount) -> VaultState {
    let LiveScope { vault, created_at, log_from, log_retention, .. } = live;
    VaultState {
        scope: scope.clone(),
        incarnation: Some(vault.incarnation()),
        height: vault.height(),
        time: vault.time(),
        head: Some(vault.head()),
        state_hash: vault.state_hash(),
        created_at: Some(*created_at),
        settings: VaultSettings { log_retention: *log_retention },
        log_from: *log_from,
        restores,
    }
}

/// The ledger of a namespace to which nothing was written yet.
fn empty(scope: &Scope, restores: RestoreCount) -> VaultState {
    VaultState {
        scope: scope.clone(),
        incarnation: None,
        height: Height::ZERO,
        time: Timestamp::EPOCH,
        head: None,
        state_hash: LtHash::default().digest(),
        created_at: None,
        settings: VaultSettings::default(),
        log_from: Height::ZERO,
        restores,
    }
}

/// A scope in a snapshot; `None`: the ledger of a namespace that has not begun.
fn live(snapshot: &Snapshot, scope: &Scope) -> Result<Option<LiveScope>, LedgerError> {
    match ledger::scope(snapshot, scope)?.value {
        Some(ScopeRow::Live(live)) => Ok(Some(*live)),
        None if scope.vault.is_none() => Ok(None),
        _ => Err(LedgerError::NoVault),
    }
}

/// The height that is asked for, if the scope can show it.
fn height_of(live: &LiveScope, at: Option<Height>) -> Result<Height, LedgerError> {
    let height = live.vault.height();
    match at {
        Some(at) if at > height => Err(LedgerError::Beyond { height }),
        Some(at) if at < live.log_from => Err(LedgerError::Compacted { log_from: live.log_from }),
        at => Ok(at.unwrap_or(height)),
    }
}

/// Heights at which there is nothing: the scope has not begun.
fn nothing_at(at: Option<Height>) -> Result<Height, LedgerError> {
    match at {
        Some(at) if at > Height::ZERO => Err(LedgerError::Beyond { height: Height::ZERO }),
        _ => Ok(Height::ZERO),
    }
}

impl Engine {
    /// Reads of one snapshot, on the caller's thread: a row or two.
    async fn look<T>(
        &self,
        work: impl FnOnce(&Snapshot) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let snapshot = self.shared().store.snapshot()?;
        let (found, position) = (work(&snapshot), snapshot.position());
        drop(snapshot);
        self.shared().store.durable(position).await.map_err(EngineError::from)?;
        found
    }

    /// Reads of one snapshot, on a thread that is kept for lists.
    async fn page<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Snapshot) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let read = self.shared().read(Lane::Lists, move |reads| {
            let snapshot = reads.store().snapshot()?;
            let position = snapshot.position();
            Ok(reads.saw(Seen { value: work(&snapshot), position }))
        });
        read.await?
    }

    /// The vaults of a namespace after this one, at most `limit`.
    pub async fn vaults(
        &self,
        namespace: &Namespace,
        after: Option<&VaultName>,
        limit: usize,
    ) -> Result<VaultsPage, LedgerError> {
        let limit = limit.clamp(1, LEDGER_PAGE_MAX);
        let (namespace, after) = (namespace.clone(), after.cloned());
        self.page(move |snapshot| {
            let restores = restores(snapshot)?;
            let rows = ledger::vaults(snapshot, &namespace, after.as_ref(), limit)?.value;
            let is_full = rows.len() == limit;
            let next = rows.last().and_then(|(scope, _)| scope.vault.clone());
            let vaults = rows.iter().filter_map(|(scope, row)| match row {
                ScopeRow::Live(live) => Some(state_of(scope, live, restores)),
                ScopeRow::Deleted { .. } => None,
            });
            Ok(VaultsPage { vaults: vaults.collect(), next: next.filter(|_| is_full) })
        })
        .await
    }

    /// A scope and its head.
    pub async fn vault(&self, scope: &Scope) -> Result<VaultState, LedgerError> {
        self.look(|snapshot| {
            let restores = restores(snapshot)?;
            let live = live(snapshot, scope)?;
            Ok(live.map_or_else(|| empty(scope, restores), |live| state_of(scope, &live, restores)))
        })
        .await
    }

    /// The head of a scope at a height, or now.
    pub async fn vault_state(
        &self,
        scope: &Scope,
        at: Option<Height>,
    ) -> Result<StateAt, LedgerError> {
        self.look(|snapshot| {
            let Some(live) = live(snapshot, scope)? else {
                return Err(LedgerError::NoVault);
            };
            let height = height_of(&live, at)?;
            let incarnation = live.vault.incarnation();
            let of = |vault: &Vault| StateAt {
                height: vault.height(),
                time: vault.time(),
                head: vault.head(),
                state_hash: vault.state_hash(),
            };
            if height == live.vault.height() {
                return Ok(of(&live.vault));
            }
            if height == Height::ZERO {
                return Ok(of(&Vault::new(scope, incarnation)));
            }
            if height == live.log_from {
                let base = ledger::checkpoint(snapshot, incarnation, height)?.value;
                return base.as_ref().map(of).ok_or_else(gone);
            }
            let entry = ledger::log_entry(snapshot, incarnation, height)?.value.ok_or_else(gone)?;
            let (time, record) = (entry.record.transaction.time, entry.record);
            Ok(StateAt { height, time, head: record.head, state_hash: record.state_hash })
        })
        .await
    }

    /// What is known of a client in a scope, and of one of its numbers. `asks`: the caller;
    /// `None` is an operator, who may see every client (C-46).
    pub async fn ledger_client(
        &self,
        scope: &Scope,
        client: &ClientId,
        asks: Option<&Actor>,
        sequence: Option<Sequence>,
    ) -> Result<ClientState, LedgerError> {
        self.look(|snapshot| {
            let restores = restores(snapshot)?;
            let nothing = ClientState { incarnation: None, restores, stream: None, receipt: None };
            let Some(live) = live(snapshot, scope)? else { return Ok(nothing) };
            let incarnation = live.vault.incarnation();
            let stream = ledger::stream(snapshot, incarnation, client)?.value;
            let is_foreign =
                |actor: &Actor| stream.as_ref().is_some_and(|stream| !stream.belongs_to(actor));
            if asks.is_some_and(is_foreign) {
                return Err(LedgerError::Foreign);
            }
            let receipt = match sequence {
                Some(sequence) => stored_receipt(snapshot, incarnation, client, sequence)?,
                None => None,
            };
            Ok(ClientState { incarnation: Some(incarnation), restores, stream, receipt })
        })
        .await
    }

    /// An entity, at a height or now.
    pub async fn entity(
        &self,
        scope: &Scope,
        key: &EntityKey,
        at: Option<Height>,
    ) -> Result<EntityAt, LedgerError> {
        self.look(|snapshot| {
            let Some(live) = live(snapshot, scope)? else {
                return Ok(EntityAt { height: nothing_at(at)?, entity: None });
            };
            let (incarnation, height) = (live.vault.incarnation(), height_of(&live, at)?);
            let entity = if height == live.vault.height() {
                ledger::entity(snapshot, incarnation, key)?.value
            } else {
                ledger::entity_at(snapshot, incarnation, key, height)?.value
            };
            Ok(EntityAt { height, entity })
        })
        .await
    }

    /// Entities whose keys begin with `prefix`, at a height or now, after this key. A page may have
    /// fewer than `limit` though more follow.
    pub async fn entities(
        &self,
        scope: &Scope,
        prefix: &str,
        at: Option<Height>,
        after: Option<&EntityKey>,
        limit: usize,
    ) -> Result<EntitiesPage, LedgerError> {
        let limit = limit.clamp(1, LEDGER_PAGE_MAX);
        let (scope, prefix, after) = (scope.clone(), prefix.to_owned(), after.cloned());
        self.page(move |snapshot| {
            let Some(live) = live(snapshot, &scope)? else {
                let height = nothing_at(at)?;
                return Ok(EntitiesPage { height, entities: Vec::new(), next: None });
            };
            let (incarnation, height) = (live.vault.incarnation(), height_of(&live, at)?);
            let after = after.as_ref();
            let (entities, next) = if height == live.vault.height() {
                let page = ledger::entities(snapshot, incarnation, &prefix, after, limit)?;
                let (page, more) = page.value;
                let next = page.last().map(|(key, _)| key.clone()).filter(|_| more);
                (page, next)
            } else {
                ledger::entities_at(snapshot, incarnation, &prefix, height, after, limit)?.value
            };
            Ok(EntitiesPage { height, entities, next })
        })
        .await
    }

    /// What an entity was, the latest first, below a height.
    pub async fn entity_history(
        &self,
        scope: &Scope,
        key: &EntityKey,
        before: Option<Height>,
        limit: usize,
    ) -> Result<HistoryPage, LedgerError> {
        let limit = limit.clamp(1, LEDGER_PAGE_MAX);
        let (scope, key) = (scope.clone(), key.clone());
        self.page(move |snapshot| {
            let Some(live) = live(snapshot, &scope)? else {
                let height = Height::ZERO;
                return Ok(HistoryPage { height, versions: Vec::new(), next: None });
            };
            let incarnation = live.vault.incarnation();
            let page = ledger::history(snapshot, incarnation, &key, before, limit)?;
            let (versions, more) = page.value;
            let next = versions.last().map(|(height, _)| *height).filter(|_| more);
            Ok(HistoryPage { height: live.vault.height(), versions, next })
        })
        .await
    }

    /// Transactions from this height on.
    pub async fn ledger_log(
        &self,
        scope: &Scope,
        from: Height,
        limit: usize,
    ) -> Result<LogPage, LedgerError> {
        let limit = limit.clamp(1, LEDGER_PAGE_MAX);
        let scope = scope.clone();
        self.page(move |snapshot| {
            let Some(live) = live(snapshot, &scope)? else {
                return Ok(LogPage { height: Height::ZERO, entries: Vec::new(), next: None });
            };
            let from = from.max(Height::new(1));
            if from <= live.log_from {
                return Err(LedgerError::Compacted { log_from: live.log_from });
            }
            let (incarnation, height) = (live.vault.incarnation(), live.vault.height());
            let entries = ledger::log_entries(snapshot, incarnation, from, limit)?.value;
            let last = entries.last().map(|entry| entry.record.transaction.height);
            let next = last.filter(|last| *last < height);
            let next = next.map(|last| Height::new(last.get() + 1));
            Ok(LogPage { height, entries, next })
        })
        .await
    }

    /// Where an export of a scope begins: with its first transaction, or where its log was cut off.
    pub async fn ledger_export_start(
        &self,
        scope: &Scope,
    ) -> Result<(Checkpoint, LtHash), LedgerError> {
        self.look(|snapshot| {
            let Some(live) = live(snapshot, scope)? else { return Err(LedgerError::NoVault) };
            let incarnation = live.vault.incarnation();
            let base = if live.log_from == Height::ZERO {
                Vault::new(scope, incarnation)
            } else {
                let base = ledger::checkpoint(snapshot, incarnation, live.log_from)?.value;
                base.ok_or_else(gone)?
            };
            let checkpoint = Checkpoint {
                scope: scope.clone(),
                incarnation,
                height: base.height(),
                head: base.head(),
                state_hash: base.state_hash(),
            };
            Ok((checkpoint, base.state().clone()))
        })
        .await
    }

    /// Follows a scope: each commit of a transaction wakes the follower. Follow first and then read, or
    /// you miss a transaction in between.
    pub fn follow_vault(&self, scope: &Scope) -> FollowVault {
        self.shared().room_followers.follow(&room_key(scope))
    }
}

/// A row that must be there is not: the store is damaged.
fn gone() -> LedgerError {
    LedgerError::Malformed(
        "a transaction is missing in the log; run `indelible store check`".into(),
    )
}
