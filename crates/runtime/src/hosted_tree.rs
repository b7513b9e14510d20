//! A tree in its place in memory, and what its host keeps for it: its guests, those who wait for its
//! replies, and whether it may kill the process. Everything that a tree asks for is done here, in the
//! order that [`Changes`] says.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use indelible_execution::guest::{Begins, Run, Stop};
use indelible_execution::input::{Begun, Reply};
use indelible_execution::output::{Event, Notice, Place};
use indelible_execution::{Input, Tree};
use indelible_journal::{Ending, JournalKey, RootHash};
use indelible_machine::{Asker, Changes, Guard, Machine as _};
use indelible_records::executions::{AdvanceError, Standing};
use indelible_records::timers::Row;
use indelible_store::{Position, SubmitError};

use crate::command::{Command, Waiter};
use crate::guest::{self, Guest};
use crate::hosted::MachineId;
use crate::parking::Parked;
use crate::shared::Shared;

/// A tree, and what its host keeps for it.
pub(crate) struct HostedTree {
    root: RootHash,
    tree: Tree,
    /// Guests that wait, or are ready to go on.
    guests: HashMap<JournalKey, Parked, foldhash::fast::FixedState>,
    waiters: BTreeMap<Asker, Waiter<Reply>>,
    /// Given back when what comes of an input is accepted.
    guards: Vec<Guard>,
    /// Something of it was loaded, and nothing was submitted since: a guest that runs now may be what
    /// killed another process (C-85).
    loaded: bool,
    /// Those that run because of that, and have not come to a stop.
    noted: Vec<JournalKey>,
    /// Those that have.
    survivors: Vec<JournalKey>,
}

/// A guest to run, outside the tree's lock.
pub(crate) struct Job {
    pub(crate) key: JournalKey,
    /// One that goes on, or how it begins.
    pub(crate) guest: Result<Guest, Begins>,
    pub(crate) noted: Noted,
}

/// Whether the witness has to know that a guest runs (C-85).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It follows from nothing that a process could have died of.
    No,
    /// It does.
    Yes,
    /// It does, and runs on.
    Already,
}

/// Why a commit failed: the engine's own mistake, or the store's end.
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
            tree: Tree::default(),
            guests: HashMap::default(),
            waiters: BTreeMap::new(),
            guards: Vec::new(),
            loaded: false,
            noted: Vec::new(),
            survivors: Vec::new(),
        }
    }

    /// The tree itself, for its guests.
    pub(crate) fn machine(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Does what came from outside.
    pub(crate) fn obey(&mut self, shared: &Shared, command: Command) {
        match command {
            Command::Tell(Input::Evicted(key), _) => {
                // It may have gone on meanwhile.
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
                let asker = Asker(shared.askers.fetch_add(1, Ordering::Relaxed) + 1);
                self.waiters.insert(asker, waiter);
                self.handle(shared, Input::Asked(asker, request));
            }
            Command::StartEffect(place) => self.take_room(shared, place),
            Command::Room(_) => {}
            Command::Release(execution) => {
                // Those who came meanwhile have watched before they asked.
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

    /// Does what the tree wants at once.
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
                    shared.observer.attempt_failed(&key, &failure, then);
                }
                // Under a store that has stopped everything fails, and nothing of it is written.
                Notice::Held(key, why) if shared.store.poison().is_none() => {
                    shared.observer.held(&key, &why);
                }
                Notice::Held(..) => {}
                Notice::Trouble(what) => shared.trouble(&what),
            }
        }
    }

    /// An attempt at an effect begins if there is room for it; if not, it waits, and this is told
    /// again.
    fn take_room(&mut self, shared: &Shared, place: Place) {
        if let Some((Place { key, child, attempt, .. }, permit)) = shared.effects.begin(place) {
            self.handle(shared, Input::StartEffect(key, child, attempt, Guard::of(permit)));
        }
    }

    /// The next guest to run.
    pub(crate) fn next(&mut self, shared: &Shared) -> Option<Job> {
        loop {
            let run = self.tree.next(&shared.context());
            self.heed(shared);
            let Run { key, begins } = run?;
            let guest = match (self.guests.remove(&key).and_then(Parked::leave), begins) {
                (Some(guest), _) => Ok(guest),
                (None, Some(begins)) => Err(begins),
                // It was evicted, and its tree has not heard of that.
                (None, None) => match self.tree.begins(&key) {
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
                Noted::Already
            } else if self.loaded {
                Noted::Yes
            } else {
                Noted::No
            };
            return Some(Job { key, guest, noted });
        }
    }

    /// A guest came back.
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

    /// A guest did not begin.
    pub(crate) fn not_begun(&mut self, shared: &Shared, key: &JournalKey, why: Stop) {
        self.handle(shared, Input::Stopped(key.clone(), why));
    }

    /// A guest that was noted has used up its slice.
    pub(crate) fn stays_noted(&mut self, key: &JournalKey) {
        if !self.noted.contains(key) {
            self.noted.push(key.clone());
        }
    }

    /// A guest that was noted has come to a stop: when what it did is durable, it is struck out.
    pub(crate) fn was_noted(&mut self, key: &JournalKey) {
        self.noted.retain(|noted| noted != key);
        self.survivors.push(key.clone());
    }

    /// Whether there is something to do.
    pub(crate) fn has_work(&self) -> bool {
        self.tree.has_work()
    }

    /// Whether so much has changed that it has to be submitted.
    pub(crate) fn is_full(&self) -> bool {
        self.tree.is_full()
    }

    /// Whether nothing of it needs to stay in memory.
    pub(crate) fn is_idle(&self) -> bool {
        self.tree.is_idle()
    }

    /// Submits what changed, and does what follows. Waits for room in the store, never for the disk
    /// (D3).
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
                    Event::Ended(..) => None,
                });
                shared.followers.changed(changed);
            }
            // What follows is new, unless something has been killing processes: then it may be what
            // comes next.
            self.loaded |= self.tree.take_loaded();
            self.loaded &= shared.witness.has_suspects();
            // What a volatile execution sends waits for this position too: it is not before that of
            // its caller's InvokeStarted, or of its operation's record, which are of this tree (C-39).
            shared.effects.submitted(position, outgoing);
            let timers: Vec<_> =
                timers.into_iter().map(|(timer, change)| (Row::Tree(timer), change)).collect();
            shared.timers.changed(&timers);
            shared.timers.changed_in_memory(volatile_timers);
            for (asker, reply) in replies {
                if let Some(waiter) = self.waiters.remove(&asker) {
                    answer(waiter, reply, position);
                }
            }
            for event in events {
                if let Event::Ended(key, ending) = event {
                    ended(shared, &key, &ending, position);
                }
            }
        }
        self.guards.clear();
        match last {
            Some(position) => {
                shared.replays.submitted(position, std::mem::take(&mut self.survivors));
            }
            // What ran has changed nothing.
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
            // If it is lost, the next submission says so.
            let _ = shared.store.durable(position).through_pauses().wait();
        }
        Ok(position)
    }

    /// What is in memory cannot be written: it is forgotten, and what is stored counts. A start
    /// that lost a race ends here, too.
    fn give_up(&mut self, shared: &Shared, error: &CommitError, replies: Vec<(Asker, Reply)>) {
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
                // Starts that came after it in the same turn look again, too.
                (Reply::Begun(begun), Some(position), _) => {
                    lost_race |= matches!(begun, Begun::New(_));
                    if let Some(waiter) = waiter {
                        waiter.answer(Reply::Begun(Begun::Raced), position);
                    }
                }
                (_, _, Some(damage)) => {
                    if let Some(waiter) = waiter {
                        waiter.fail(damage.clone());
                    }
                }
                // The asker sees that the engine stopped.
                _ => {}
            }
        }
        if shared.store.poison().is_some() {
            // The timers' thread tells it once, for all trees.
            shared.timers.poke();
        } else {
            // The store has told of its damage, once.
            if !lost_race && damage.is_none() {
                shared.trouble(&format!("a commit failed: {error}"));
            }
            shared.timers.keep_all(&MachineId::Tree(self.root));
            self.survived(shared);
        }
        *self = Self::new(self.root);
    }

    fn survived(&mut self, shared: &Shared) {
        for key in self.survivors.drain(..) {
            shared.witness.survived(&key);
        }
    }
}

fn ended(shared: &Shared, key: &JournalKey, ending: &Ending, position: Position) {
    let standing = match ending {
        Ending::Completed(_) => Standing::Completed,
        Ending::Failed(_) => Standing::Failed,
        Ending::Cancelled(_) => Standing::Cancelled,
    };
    shared.observer.ended(key, standing);
    shared.watchers.ended(key.execution_id(), ending, position);
}

fn answer(waiter: Waiter<Reply>, reply: Reply, position: Position) {
    match reply {
        Reply::Unreadable { why, damage: true } => waiter.fail(why),
        // The asker sees that the engine has stopped.
        Reply::Unreadable { .. } => {}
        reply => waiter.answer(reply, position),
    }
}
