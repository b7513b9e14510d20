//! Reads, one piece at a time, on the threads kept for them ([`crate::reader`]). The result of a
//! piece is handed over when what it read is durable (D2).

use std::cell::Cell;
use std::sync::Arc;

use indelible_execution::shown::View;
use indelible_execution::{Input, Reply, Request, Tree, keys};
use indelible_idempotency::IdempotencyKey;
use indelible_journal::{
    Attempt, ComponentDigest, Ending, Event, ExecutionId, JournalKey, Namespace, OperationKey,
    PromiseId, RootHash, Started, Timestamp,
};
use indelible_machine::{CallerId, Machine as _};
use indelible_records::audit::{self, AuditPosition, Entry};
use indelible_records::beginning::IdPrefix;
use indelible_records::doubts::{
    self, Doubt, DoubtId, Filter as DoubtFilter, Page as DoubtPage, Place as DoubtPlace,
};
use indelible_records::executions::{self, Execution as Row, Standing};
use indelible_records::idempotency_keys::{KeyOutcome, KeyRecord};
use indelible_records::journals;
use indelible_records::listing::{self, Cursor, Filter, LOOKED_AT_MAX, Listing, PAGE_MAX};
use indelible_records::operations::{self, Operation};
use indelible_records::windows::{self, Id, WindowedRecord};
use indelible_store::{Position, Seen, Store};

use super::views::{
    AUDIT_PAGE_MAX, EVENTS_PAGE_BYTES_MAX, EVENTS_PAGE_MAX, EventsPage, KeyUse, TREE_PAGE_MAX,
    TreePage, payload_bytes,
};
use super::{Engine, EngineError};
use crate::guest::Manifest;
use crate::reader::{Lane, LanePermit};
use crate::shared::Shared;

/// How many rows of a list are read in one piece, at some microseconds each: others have their turn
/// after a millisecond or two.
const PIECE_ROWS_MAX: usize = 200;

/// How many doubts one page looks at, a row each: a page takes some milliseconds.
const DOUBTS_LOOKED_AT_MAX: usize = 200;

/// How many rows of a journal are read at a time: they have a megabyte, or one small event.
const ROWS_MAX: usize = 256;

/// About how many bytes an event takes beside its payload.
const EVENT_BYTES_GUESS: usize = 64;

impl Engine {
    /// A permit for one read. A full lane refuses it as busy, except that a stream waits.
    pub async fn enter_lane(&self, lane: Lane) -> Result<LaneRead<'_>, EngineError> {
        self.shared.enter_lane(lane).await
    }
}

impl Shared {
    async fn enter_lane(&self, lane: Lane) -> Result<LaneRead<'_>, EngineError> {
        Ok(LaneRead { shared: self, lane, entered: self.reader.enter(lane).await? })
    }

    /// Reads one piece.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.enter_lane(lane).await?.run(work).await
    }

    /// Reads a row or two on the caller's thread, for calls: handing it to another thread would
    /// take longer than the read.
    pub(super) async fn read_here<T>(
        &self,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let seen = Reads::now(self, work)?;
        self.store.durable(seen.position).await?;
        Ok(seen.value)
    }
}

/// A permit for one read. Its pieces are done one after the other, with those of others in between.
pub struct LaneRead<'a> {
    shared: &'a Shared,
    lane: Lane,
    entered: LanePermit,
}

impl LaneRead<'_> {
    /// Does a piece of work on a reading thread, and waits until what it has read is durable (D2).
    /// Converting the result, to JSON for instance, is part of the work. It should take some
    /// milliseconds at most: others wait for their turn.
    pub async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let seen = self.piece(work).await?;
        self.shared.store.durable(seen.position).await?;
        Ok(seen.value)
    }

    async fn piece<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Seen<T>, EngineError> {
        let Self { shared, lane, entered } = self;
        let work = move |shared: &Shared| Reads::now(shared, work);
        shared.reader.run(shared, *lane, entered, work).await?
    }

    /// A page of executions, as [`Engine::list`] has it, a piece at a time.
    pub async fn list(
        &mut self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Listing, EngineError> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut page = Listing { next: after.cloned(), ..Listing::default() };
        let (mut looked_at, mut position) = (0, Position::START);
        loop {
            let (filter, after) = (filter.clone(), page.next.take());
            let left = limit - page.executions.len();
            let rows_max = PIECE_ROWS_MAX.min(LOOKED_AT_MAX - looked_at);
            // Each piece has a snapshot of its own, as each page has: none is held in between.
            let piece = move |reads: &Reads<'_>| {
                let snapshot = reads.shared.store.snapshot()?;
                let seen = listing::list_piece(&snapshot, &filter, after.as_ref(), left, rows_max)?;
                Ok(reads.saw(seen))
            };
            let seen = self.piece(piece).await?;
            position = position.max(seen.position);
            let (mut listing, rows) = seen.value;
            looked_at += rows;
            page.executions.append(&mut listing.executions);
            (page.next, page.crowded) = (listing.next, listing.crowded);
            let full = page.executions.len() == limit || looked_at >= LOOKED_AT_MAX;
            if full || page.next.is_none() {
                break;
            }
        }
        self.shared.store.durable(position).await?;
        Ok(page)
    }
}

/// What a piece of work can read. All that it has read is durable before its result is handed over.
pub struct Reads<'a> {
    shared: &'a Shared,
    seen: Cell<Position>,
}

impl Reads<'_> {
    fn now<T>(
        shared: &Shared,
        work: impl FnOnce(&Reads<'_>) -> Result<T, EngineError>,
    ) -> Result<Seen<T>, EngineError> {
        let reads = Reads { shared, seen: Cell::new(Position::START) };
        let value = work(&reads)?;
        Ok(Seen { value, position: reads.seen.get() })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn saw<T>(&self, seen: Seen<T>) -> T {
        self.seen.set(self.seen.get().max(seen.position));
        seen.value
    }

    /// Asks a tree that is loaded for this question and forgotten with all that would follow: while
    /// the engine is on hold, no tree is in memory, and none may go on. Loading resumes nothing.
    pub(crate) fn ask_apart(&self, what: Request) -> Result<Reply, EngineError> {
        let mut tree = Tree::default();
        tree.handle(&self.shared.context(), Input::Asked(CallerId(1), what));
        let reply = tree.changes().and_then(|mut changes| changes.replies.pop());
        let no_reply = || EngineError::Malformed("a defect of Indelible: a tree is silent".into());
        let (_, value) = reply.ok_or_else(no_reply)?;
        // What it has read was accepted by now.
        Ok(self.saw(Seen { value, position: self.shared.store.accepted() }))
    }

    /// How an execution stands: the last attempt at it.
    pub fn execution(&self, execution: &ExecutionId) -> Result<Option<Row>, EngineError> {
        Ok(self.saw(executions::latest(&self.shared.store, execution)?))
    }

    /// When the first attempt at an execution was started, if this is a later one and that is
    /// stored.
    pub fn first_created_at(&self, attempt: &JournalKey) -> Result<Option<Timestamp>, EngineError> {
        if attempt.attempts().own() == Attempt::FIRST {
            return Ok(None);
        }
        let first = self.saw(executions::get(&self.shared.store, &attempt.first_attempt())?);
        Ok(first.map(|first| first.created_at))
    }

    /// The attempt at an execution that follows `after`, or the first that is stored.
    pub fn attempt_after(
        &self,
        execution: &ExecutionId,
        after: Option<&JournalKey>,
    ) -> Result<Option<Row>, EngineError> {
        Ok(self.saw(executions::attempt_after(&self.shared.store, execution, after)?))
    }

    /// The executions of a tree, as [`Engine::tree`] has them.
    pub fn tree(
        &self,
        root: &RootHash,
        after: Option<&JournalKey>,
        limit: usize,
    ) -> Result<TreePage, EngineError> {
        let limit = limit.clamp(1, TREE_PAGE_MAX);
        let executions = self.saw(executions::tree(&self.shared.store, root, after, limit + 1)?);
        let mut page = TreePage { executions, next: None };
        if page.executions.len() > limit {
            page.executions.truncate(limit);
            page.next = page.executions.last().map(|row| row.key.clone());
        }
        Ok(page)
    }

    /// Events of a journal, as [`Engine::events`] has them.
    pub fn events(
        &self,
        key: &JournalKey,
        from: u64,
        events_max: usize,
        bytes_max: usize,
    ) -> Result<EventsPage, EngineError> {
        let events_max = events_max.clamp(1, EVENTS_PAGE_MAX);
        let bytes_max = bytes_max.min(EVENTS_PAGE_BYTES_MAX);
        let mut page = EventsPage { next: from, ..EventsPage::default() };
        let (mut bytes, mut rows, mut rows_read) = (0, 1, 0);
        loop {
            let read = self.saw(journals::read(&self.shared.store, key, page.next, rows)?);
            let last = read.next.is_none();
            let mut full = false;
            for record in read.records {
                let weight = EVENT_BYTES_GUESS + payload_bytes(&record.event);
                full = page.records.len() == events_max
                    || !page.records.is_empty() && bytes + weight > bytes_max;
                if full {
                    break;
                }
                bytes += weight;
                page.next = record.sequence.get() + 1;
                page.records.push(record);
            }
            page.more = full || !last;
            if full || last {
                return Ok(page);
            }
            // As many rows as should fit, if they are like those before.
            rows_read += rows;
            let each = (bytes / rows_read).max(1);
            rows = (bytes_max.saturating_sub(bytes) / each).clamp(1, ROWS_MAX);
        }
    }

    /// Entries of the audit record, as [`Engine::audit`] has them.
    pub fn audit(&self, before: AuditPosition, limit: usize) -> Result<Vec<Entry>, EngineError> {
        let limit = limit.clamp(1, AUDIT_PAGE_MAX);
        Ok(self.saw(audit::before(&self.shared.store, before, limit)?))
    }

    /// A page of doubts, as [`Engine::doubts`] has it.
    pub fn doubts(
        &self,
        filter: &DoubtFilter,
        with_settled: bool,
        after: Option<&DoubtPlace>,
        limit: usize,
    ) -> Result<DoubtPage, EngineError> {
        let store = &self.shared.store;
        let page = doubts::page(store, filter, with_settled, after, limit, DOUBTS_LOOKED_AT_MAX);
        Ok(self.saw(page?))
    }

    /// The doubts about a promise: one for each attempt at its execution that has one.
    pub fn doubts_of(&self, promise: &PromiseId) -> Result<Vec<(DoubtId, Doubt)>, EngineError> {
        let store = &self.shared.store;
        Ok(self.saw(doubts::of_promise(store, promise, DOUBTS_LOOKED_AT_MAX)?))
    }

    /// The trees whose id has this prefix and that have doubts, each by its first doubt, though it may
    /// be deleted: at most `limit`.
    pub fn doubts_by_prefix(
        &self,
        prefix: &IdPrefix,
        limit: usize,
    ) -> Result<Vec<(DoubtId, Doubt)>, EngineError> {
        Ok(self.saw(doubts::trees(&self.shared.store, prefix, limit)?))
    }

    /// How many doubts are open, counted up to `most`, and since when the oldest is.
    pub fn open_doubts(&self, most: usize) -> Result<(usize, Option<Timestamp>), EngineError> {
        Ok(self.saw(doubts::count_open(&self.shared.store, most)?))
    }

    /// How many executions stand so, all attempts, counted up to `most`.
    pub fn count(&self, standing: Standing, most: usize) -> Result<usize, EngineError> {
        Ok(self.saw(listing::count(&self.shared.store, standing, most)?))
    }

    /// The operation of a tree's root, if the root is stored: a volatile one is not before its end
    /// (C-39).
    pub fn root_operation(&self, root: &RootHash) -> Result<Option<OperationKey>, EngineError> {
        let Some(row) = self.execution(&ExecutionId::root_of(*root))? else { return Ok(None) };
        let started = self.first_event(&row.key)?;
        Ok(started.and_then(|started| started.idempotency_key))
    }

    /// A view of an execution that is over, from its first event and its last. None: it has been
    /// swept meanwhile.
    pub(super) fn view_of_over(&self, row: Row) -> Result<Option<View>, EngineError> {
        let started = self.first_event(&row.key)?;
        let last = self.last_event(&row)?;
        let (Some(started), Some(last)) = (started, last) else { return Ok(None) };
        let no_end = || EngineError::Malformed(format!("the journal of {} has no end", row.key));
        let ending = Ending::of(last).ok_or_else(no_end)?;
        let mut view = View::new(row, &started);
        view.ending = Some(ending);
        Ok(Some(view))
    }

    /// The last event of a row's journal. None: it is gone.
    pub(super) fn last_event(&self, row: &Row) -> Result<Option<Event>, EngineError> {
        let last = row.length.saturating_sub(1);
        let read = self.saw(journals::read(&self.shared.store, &row.key, last, 1)?);
        Ok(read.records.into_iter().last().map(|record| record.event))
    }

    /// What an execution was started with. None: it is gone.
    fn first_event(&self, key: &JournalKey) -> Result<Option<Started>, EngineError> {
        let first = self.saw(journals::read(&self.shared.store, key, 0, 1)?).records;
        match first.into_iter().next().map(|record| record.event) {
            None => Ok(None),
            Some(Event::ExecutionStarted(started)) => Ok(Some(*started)),
            Some(_) => {
                Err(EngineError::Malformed(format!("the journal of {key} has no beginning")))
            }
        }
    }

    /// What a version of a component can do.
    pub(super) fn manifest(
        &self,
        digest: &ComponentDigest,
    ) -> Result<Option<Arc<Manifest>>, EngineError> {
        let value = self.shared.components.functions(digest)?;
        // The position of the read is unknown, but not after this one.
        let position = self.shared.store.accepted();
        Ok(self.saw(Seen { value, position }))
    }

    /// What an idempotency key was used for, as [`Engine::key_use`] has it.
    pub(super) fn key_use(&self, key: &IdempotencyKey) -> Result<Option<KeyUse>, EngineError> {
        let Some(led_to) = self.led_to(&keys::id_of(key))? else { return Ok(None) };
        let namespace = Namespace::new(key.namespace().as_str());
        let namespace = namespace.expect("a consumer's namespace is a name");
        let operation_id = match led_to {
            KeyOutcome::Operation(operation_id) => operation_id,
            KeyOutcome::Answer(answer) => return Ok(Some(KeyUse::Command(Some(answer)))),
            KeyOutcome::Target(root) => {
                let answer = self.led_to(&Id::for_answer(&namespace, &root, key.value()))?;
                return Ok(Some(KeyUse::Command(match answer {
                    Some(KeyOutcome::Answer(answer)) => Some(answer),
                    _ => None,
                })));
            }
        };
        let operation = OperationKey { namespace, operation_id };
        // A purge takes the key's record before that of the operation.
        let Some(known) = self.operation(&operation)? else { return Ok(None) };
        let row = self.execution(&known.record.execution_id())?;
        let (operation_id, in_progress) = (operation.operation_id, known.is_in_progress());
        Ok(Some(KeyUse::Start { operation_id, in_progress, operation: known.record, row }))
    }

    fn led_to(&self, id: &Id) -> Result<Option<KeyOutcome>, EngineError> {
        let found = self.saw(windows::get::<KeyRecord>(&self.shared.store, id)?);
        Ok(found.map(|found| found.record.led_to))
    }

    /// What is known of an operation.
    pub(super) fn operation(
        &self,
        operation: &OperationKey,
    ) -> Result<Option<WindowedRecord<Operation>>, EngineError> {
        Ok(self.saw(operations::get(&self.shared.store, operation)?))
    }
}
