//! A tree in its place in memory, and what its host keeps for it: its guests, the callers that wait
//! for replies, and whether it may kill the process. Everything that a tree asks for is done here,
//! in the order that [`Changes`] says.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use indelible_execution::guest::{GuestStart, Run, Stop};
use indelible_execution::input::{Reply, StartReply};
use indelible_execution::output::{
    AfterFailure, AttemptRef, Event, ExecutionEnd, Notice, Severity, Trouble,
};
use indelible_execution::{Input, Tree};
use indelible_journal::{ErrorKind, JournalKey, RootHash};
use indelible_machine::{CallerId, Changes, Guard, Machine as _};
use indelible_records::executions::{AdvanceError, Standing};
use indelible_records::timers::Row;
use indelible_store::{Position, SubmitError};
use tracing::{debug, error, warn};

use crate::command::{Command, Waiter};
use crate::effects::Leaving;
use crate::guest::{self, Guest};
use crate::hosted::MachineId;
use crate::parking::Parked;
use crate::shared::Shared;
use crate::trouble;

pub(crate) struct HostedTree {
    root: RootHash,
    generation: Generation,
    tree: Tree,
    /// Guests that wait, or are ready to go on.
    guests: HashMap<JournalKey, Parked, foldhash::fast::FixedState>,
    waiters: BTreeMap<CallerId, Waiter<Reply>>,
    /// Dropped when the changes that follow from their inputs are accepted.
    guards: Vec<Guard>,
    /// Part of the tree was loaded, and nothing was submitted since: a guest that runs now may be
    /// what killed another process (C-85).
    loaded: bool,
    /// Guests that the witness knows of, and that have used up a slice without a stop.
    noted: Vec<JournalKey>,
    /// Guests that the witness knows of, and that have come to a stop.
    survivors: Vec<JournalKey>,
}

/// How often the tree was given up. A guest may be on a worker at that moment: it is of an earlier
/// generation than what the tree loads afterwards, and must not act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// A guest to run, outside the tree's lock.
pub(crate) struct GuestJob {
    pub(crate) key: JournalKey,
    pub(crate) generation: Generation,
    /// A guest that goes on, or how a new one begins.
    pub(crate) guest: Result<Guest, GuestStart>,
    pub(crate) noted: WitnessNeed,
}

/// Whether the witness has to know that a guest runs (C-85).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WitnessNeed {
    /// It does not: no process can have died of this guest.
    No,
    /// It has to be told before the guest runs.
    Yes,
    /// It was told, and the guest goes on after a slice.
    Already,
}

/// Why a commit failed: a defect of the engine's, or the store.
#[derive(Debug, thiserror::Error)]
enum CommitError {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Advance(#[from] AdvanceError),
}

impl HostedTree {
    pub(crate) fn new(root: RootHash) -> Self {
        Self {
            root,
            generation: Generation(0),
            tree: Tree::default(),
            guests: HashMap::default(),
            waiters: BTreeMap::new(),
            guards: Vec::new(),
            loaded: false,
            noted: Vec::new(),
            survivors: Vec::new(),
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// The tree itself, for its guests.
    pub(crate) fn machine(&mut self) -> &mut Tree {
        &mut self.tree
    }

    pub(crate) fn run_command(&mut self, shared: &Shared, command: Command) {
        match command {
            Command::Tell(Input::Evicted(key), _) => {
                // The execution may have a new guest by now.
                if self.guests.get(&key).is_some_and(Parked::is_gone) {
                    self.guests.remove(&key);
                    self.handle(shared, Input::Evicted(key));
                }
            }
            Command::Tell(input, guard) => {
                self.handle(shared, input);
                self.guards.push(guard);
            }
            Command::Ask(request, waiter) => {
                let asker = CallerId(shared.askers.fetch_add(1, Ordering::Relaxed) + 1);
                self.waiters.insert(asker, waiter);
                self.handle(shared, Input::Asked(asker, request));
            }
            Command::StartEffect(place) => self.take_room(shared, place),
            Command::Room(_) => {}
            Command::Release(execution) => {
                // A caller that came meanwhile was watching before it asked.
                if !shared.watchers.is_watched(&execution) {
                    self.handle(shared, Input::Release(execution));
                }
            }
            Command::Keep(execution, watcher) => {
                self.handle(shared, Input::Keep);
                drop(watcher);
                shared.watchers.forget(&execution);
            }
        }
    }

    fn handle(&mut self, shared: &Shared, input: Input) {
        self.tree.handle(&shared.context(), input);
        self.heed(shared);
    }

    /// Does what the tree wants at once, before any commit.
    pub(crate) fn heed(&mut self, shared: &Shared) {
        for notice in self.tree.notices() {
            match notice {
                Notice::RoomWanted(place) => self.take_room(shared, place),
                Notice::GuestGone(key) => drop(self.guests.remove(&key)),
                Notice::VolatileGone => {
                    self.guests.clear();
                    shared.timers.forget_in_memory(&self.root);
                }
                Notice::Released(key) => shared.witness.survived(&key),
                Notice::AttemptFailed(key, failure, then) => {
                    attempt_failed(&key, failure.kind, then);
                    shared.observer.attempt_failed(&key, &failure, then);
                }
                // When the store has stopped, everything fails, and none of it is written.
                Notice::Stuck(key, why) if shared.store.poison().is_none() => {
                    let execution = key.execution_id();
                    error!(%execution, error = why, "execution is stuck and waits for an operator");
                    shared.observer.stuck(&key, &why);
                }
                Notice::Stuck(..) => {}
                Notice::NotRecovered => shared.recovery.start_over_later(),
                Notice::Trouble(trouble) => tell(shared, &trouble),
            }
        }
    }

    /// Begins an attempt at an effect if there is a permit; if not, the attempt waits, and
    /// `StartEffect` comes when there may be one.
    fn take_room(&mut self, shared: &Shared, place: AttemptRef) {
        if let Some((AttemptRef { key, child, attempt, .. }, permit)) =
            shared.effects.admit_attempt(place)
        {
            self.handle(shared, Input::StartEffect(key, child, attempt, Guard::of(permit)));
        }
    }

    pub(crate) fn next(&mut self, shared: &Shared) -> Option<GuestJob> {
        loop {
            let run = self.tree.next(&shared.context());
            self.heed(shared);
            let Run { key, begins } = run?;
            let guest = match (self.guests.remove(&key).and_then(Parked::leave), begins) {
                (Some(guest), _) => Ok(guest),
                (None, Some(begins)) => Err(begins),
                // The guest was evicted, and the tree has not been told yet.
                (None, None) => match self.tree.guest_start(&key) {
                    Some(begins) => Err(begins),
                    None => {
                        self.heed(shared);
                        continue;
                    }
                },
            };
            if guest.as_ref().is_err_and(|begins| begins.replays) {
                shared.replayed.fetch_add(1, Ordering::Relaxed);
            }
            self.loaded |= self.tree.take_loaded();
            let noted = if self.noted.contains(&key) {
                WitnessNeed::Already
            } else if self.loaded {
                WitnessNeed::Yes
            } else {
                WitnessNeed::No
            };
            return Some(GuestJob { key, generation: self.generation, guest, noted });
        }
    }

    /// A guest came back from a worker.
    pub(crate) fn stopped(
        &mut self,
        shared: &Shared,
        key: &JournalKey,
        guest: Guest,
        stop: guest::Stop,
    ) {
        let mut keep = |parked: Option<Parked>| match parked {
            Some(parked) => self.guests.insert(key.clone(), parked).is_none(),
            None => false,
        };
        let wanted = self.tree.is_running(key);
        let stop = match stop {
            guest::Stop::Waiting => {
                let until = self.tree.sleeps_until(key);
                let now = shared.clock.now();
                let park = || shared.parking.park(guest, key, now, until);
                Stop::Waiting { kept: wanted && keep(park()) }
            }
            guest::Stop::Yielded => {
                if wanted {
                    keep(Some(Parked::Here(guest)));
                }
                Stop::Yielded
            }
            guest::Stop::Returned(result) => Stop::Returned(result),
            guest::Stop::Trapped(failure) => Stop::Trapped(failure),
            guest::Stop::Stopped => Stop::Refused,
        };
        self.handle(shared, Input::Stopped(key.clone(), stop));
    }

    pub(crate) fn not_begun(&mut self, shared: &Shared, key: &JournalKey, why: Stop) {
        self.handle(shared, Input::Stopped(key.clone(), why));
    }

    /// A guest that the witness knows of has used up its slice.
    pub(crate) fn stays_noted(&mut self, key: &JournalKey) {
        if !self.noted.contains(key) {
            self.noted.push(key.clone());
        }
    }

    /// A guest that the witness knows of has come to a stop: it is struck out when what it did is
    /// durable.
    pub(crate) fn was_noted(&mut self, key: &JournalKey) {
        self.noted.retain(|noted| noted != key);
        self.survivors.push(key.clone());
    }

    pub(crate) fn has_work(&self) -> bool {
        self.tree.has_work()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.tree.is_full()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.tree.is_idle()
    }

    /// Submits the changes, and then does what follows from them. Waits for space in the store, and
    /// never for the disk (D3), except in lockstep.
    pub(crate) fn commit(&mut self, shared: &Shared) {
        let mut last = None;
        while let Some(Changes { rows, timers, volatile_timers, events, replies, outgoing }) =
            self.tree.changes()
        {
            let position = match self.submit(shared, rows) {
                Ok(position) => position,
                Err(error) => return self.give_up(shared, &error, replies),
            };
            last = Some(position);
            if shared.followers.any() {
                let changed = events.iter().filter_map(|event| match event {
                    Event::Changed(key) => Some(key.execution_id()),
                    Event::Ended(_) => None,
                });
                shared.followers.changed(changed);
            }
            // Guests that run from here on are new, and need no witness; but while there are
            // suspects, the next guest may be what kills.
            self.loaded |= self.tree.take_loaded();
            self.loaded &= shared.witness.has_suspects();
            // The requests of a volatile execution wait for this position too: it is not before
            // that of the parent's InvokeStarted, or of the operation's record, which are of this
            // tree (C-39).
            shared.effects.submitted(position, outgoing.into_iter().map(Leaving::Tree));
            let timers: Vec<_> =
                timers.into_iter().map(|(timer, change)| (Row::Tree(timer), change)).collect();
            shared.timers.changed(&timers);
            shared.timers.changed_in_memory(volatile_timers);
            // Before the replies: a caller whose function ended in its first turn then finds the
            // end when it is told of the start, and waits only for the disk.
            for event in events {
                if let Event::Ended(end) = event {
                    ended(shared, &end, position);
                }
            }
            for (asker, reply) in replies {
                if let Some(waiter) = self.waiters.remove(&asker) {
                    send_reply(waiter, reply, position);
                }
            }
        }
        self.guards.clear();
        match last {
            Some(position) => {
                shared.replays.submitted(position, std::mem::take(&mut self.survivors));
            }
            // The guests that ran have changed nothing.
            None => self.survived(shared),
        }
    }

    fn submit(
        &mut self,
        shared: &Shared,
        rows: <Tree as indelible_machine::Machine>::Rows,
    ) -> Result<Position, CommitError> {
        let batch = rows?;
        if batch.writes().is_empty() {
            // Nothing changed, but a caller asked: the answer depends on what was read.
            return Ok(shared.store.accepted());
        }
        let position = shared.store.submit_blocking(batch)?;
        if shared.in_lockstep() {
            // If the commit is lost, the next submission says so.
            let _ = shared.store.durable(position).through_pauses().wait();
        }
        Ok(position)
    }

    /// Memory cannot be written, so it is dropped, and what is stored counts. Three cases: (1) A
    /// precondition was refused, mostly that of a start that lost a race: the tree goes on from
    /// what is stored, at once. (2) The store is damaged, or the engine has a defect: the same
    /// commit would fail again, so the tree goes on after a restart. (3) The store has stopped: so
    /// does the engine.
    fn give_up(&mut self, shared: &Shared, error: &CommitError, replies: Vec<(CallerId, Reply)>) {
        let refused = match error {
            CommitError::Submit(SubmitError::Refused(refusal)) => Some(refusal.position),
            _ => None,
        };
        let damage = match error {
            CommitError::Submit(error) if error.is_damage() => Some(error.to_string()),
            _ => None,
        };
        let mut lost_race = false;
        for (asker, reply) in replies {
            let waiter = self.waiters.remove(&asker);
            match (reply, refused, &damage) {
                // Starts that came after the refused one in the same turn look again, too.
                (Reply::Begun(begun), Some(position), _) => {
                    lost_race |= matches!(begun, StartReply::New(_));
                    if let Some(waiter) = waiter {
                        waiter.reply(Reply::Begun(StartReply::Raced), position);
                    }
                }
                (_, _, Some(damage)) => {
                    if let Some(waiter) = waiter {
                        waiter.fail(damage.clone());
                    }
                }
                // The waiter is dropped: its caller learns that the engine stopped.
                _ => {}
            }
        }
        if shared.store.poison().is_some() {
            // The timers' thread reports it once, for all trees.
            shared.timers.poke();
        } else {
            // The store has reported its damage, once.
            if !lost_race && damage.is_none() {
                let root = self.root;
                if refused.is_some() {
                    trouble!(
                        shared,
                        warn,
                        root = root,
                        error = error,
                        "commit failed; tree resumes from its stored state"
                    );
                } else {
                    trouble!(
                        shared,
                        error,
                        root = root,
                        error = error,
                        "commit failed; restart the server to resume the tree"
                    );
                }
            }
            shared.timers.keep_all(&MachineId::Tree(self.root));
            self.survived(shared);
            if refused.is_some() {
                shared.recovery.start_over();
            }
        }
        let generation = Generation(self.generation.0 + 1);
        *self = Self { generation, ..Self::new(self.root) };
    }

    fn survived(&mut self, shared: &Shared) {
        for key in self.survivors.drain(..) {
            shared.witness.survived(&key);
        }
    }
}

/// Logs a failed attempt by its kind: the message is the function's, and may have anything in it.
fn attempt_failed(key: &JournalKey, kind: ErrorKind, then: AfterFailure) {
    let (execution, attempt) = (key.execution_id(), key.attempts().own());
    match then {
        AfterFailure::Again(wait) => {
            warn!(%execution, %attempt, %kind, %wait, "attempt failed; retrying");
        }
        AfterFailure::Over(why) => warn!(%execution, %attempt, %kind, why, "last attempt failed"),
    }
}

/// Logs a tree's trouble, and tells the observer.
fn tell(shared: &Shared, trouble: &Trouble) {
    let Trouble { severity, message, execution, error } = trouble;
    match severity {
        Severity::Warning => {
            trouble!(shared, warn, execution = execution, error = error, "{}", message);
        }
        Severity::Error => {
            trouble!(shared, error, execution = execution, error = error, "{}", message);
        }
    }
}

fn ended(shared: &Shared, end: &ExecutionEnd, position: Position) {
    let ExecutionEnd { key, ending, function, took } = end;
    let standing = Standing::of_ending(ending);
    let execution = key.execution_id();
    debug!(%execution, ?standing, "execution ended");
    shared.end_counts.execution_ended(function, standing, *took);
    shared.observer.ended(key, standing);
    shared.watchers.ended(key.execution_id(), ending, position);
}

fn send_reply(waiter: Waiter<Reply>, reply: Reply, position: Position) {
    match reply {
        Reply::Unreadable { why, damage: true } => waiter.fail(why),
        // The waiter is dropped: its caller learns that the engine has stopped.
        Reply::Unreadable { .. } => {}
        reply => waiter.reply(reply, position),
    }
}
