//! A tree's turn on a worker: its commands, some of its work, one commit.
//!
//! What a tree does in a turn is one commit, however many guests ran in it, so a workflow of many
//! small steps costs few of them. A turn is bounded, so that a large tree does not keep others
//! waiting.

use std::sync::Arc;

use indelible_execution::guest::{Begins, Stop as NotBegun};
use indelible_journal::JournalKey;

use crate::cell::{Cell, Left};
use crate::guest::{Guest, StartError, Stop};
use crate::guest_calls::GuestCalls;
use crate::hosted_tree::{Job, Noted};
use crate::shared::{Shared, lock};
use crate::world::DEATHS_MAX;

/// How many guests run in a turn.
const GUESTS_MAX: usize = 32;

/// For how long: many guests that take less than a slice each must not add up to seconds.
const TICKS_MAX: u64 = 3;

/// Does a turn of a tree, and puts it back into the run queue if it has more to do.
pub(crate) fn turn(shared: &Arc<Shared>, cell: &Arc<Cell>) {
    let began = shared.guests.ticks();
    let is_late = || shared.guests.ticks() - began >= TICKS_MAX;
    let mut yielded = false;
    for _ in 0..GUESTS_MAX {
        let job = {
            let mut tree = cell.hosted();
            while !tree.is_full()
                && let Some(command) = cell.next_command()
            {
                tree.obey(shared, command);
                tree.keep_pace(shared);
                if is_late() {
                    break;
                }
            }
            let job = tree.next(shared);
            tree.keep_pace(shared);
            // Others may help, if there are other hands.
            if tree.has_work() && cell.one_more(shared.options.workers.max(1)) {
                shared.run_queue.push(Arc::clone(cell));
            }
            job
        };
        let Some(job) = job else { break };
        // Whoever used up its time has kept others waiting for long enough.
        yielded = run(shared, cell, job) == Ran::Yielded;
        if yielded || is_late() {
            break;
        }
    }
    let has_work = {
        let mut tree = cell.hosted();
        tree.commit(shared);
        tree.has_work()
    };
    cell.set_busy(yielded);
    shared.flush_effects();
    shared.strike_out();
    match cell.leave(has_work) {
        Left::More => shared.run_queue.push(Arc::clone(cell)),
        // Those who are still at it see what becomes of it.
        Left::Others => {}
        // Looked at only now: what kept it may have ended since this turn's commit.
        Left::Last => {
            let forgettable = cell.hosted().is_idle();
            if forgettable {
                forget(shared, cell);
            }
        }
    }
}

/// How a guest ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    /// Until it waited or ended.
    ToItsStop,
    /// Until its time was up.
    Yielded,
    /// Not at all: there is no place for it, or it is held.
    NotAtAll,
}

/// Runs a guest until it waits, yields or ends; the witness knows of it if it may kill the process
/// (C-85).
fn run(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job) -> Ran {
    let key = job.key.clone();
    let among_others = || shared.witness.has_suspects().then(|| shared.replays.among_others());
    match job.noted {
        Noted::No => {
            let _others = among_others();
            return run_guest(shared, cell, job, Slice::One);
        }
        Noted::Already => {}
        Noted::Yes => match shared.witness.deaths(&key) {
            0 => shared.witness.replaying(&key),
            deaths if deaths < DEATHS_MAX => return run_alone(shared, cell, job),
            deaths => {
                let why =
                    format!("the process died {deaths} times in a row while this was replayed");
                cell.hosted().tree().not_begun(shared, &key, NotBegun::CannotRun(why));
                return Ran::NotAtAll;
            }
        },
    }
    let _others = among_others();
    let ran = run_guest(shared, cell, job, Slice::One);
    match ran {
        Ran::ToItsStop => cell.hosted().tree().was_noted(&key),
        Ran::Yielded => cell.hosted().tree().stays_noted(&key),
        Ran::NotAtAll => shared.witness.untouched(&key),
    }
    ran
}

/// Runs a guest that a process may have died of: alone, and until what it did is durable, so that
/// if this process dies of it there is no doubt.
fn run_alone(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job) -> Ran {
    let _alone = shared.replays.alone();
    let key = job.key.clone();
    shared.witness.replaying(&key);
    match run_guest(shared, cell, job, Slice::All) {
        Ran::NotAtAll => shared.witness.untouched(&key),
        Ran::ToItsStop | Ran::Yielded => {
            cell.hosted().commit(shared);
            // If it is lost, the process ends, and not because of this one: but who knows.
            let durable = shared.store.durable(shared.store.accepted());
            if durable.through_pauses().wait().is_ok() {
                shared.witness.survived(&key);
            }
        }
    }
    Ran::Yielded
}

/// How much time a guest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slice {
    /// One slice, and then others have their turn.
    One,
    /// As many as it takes.
    All,
}

fn run_guest(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job, slice: Slice) -> Ran {
    let Job { key, guest, .. } = job;
    let mut guest = match guest {
        Ok(guest) => guest,
        Err(begins) => match start(shared, cell, &key, begins) {
            Ok(guest) => guest,
            Err(why) => {
                // Every place may be taken: one that waits makes room, or others have to end.
                if why == NotBegun::NoPlace {
                    shared.parking.evict(1);
                    shared.tell_evicted();
                }
                cell.hosted().tree().not_begun(shared, &key, why);
                return Ran::NotAtAll;
            }
        },
    };
    let mut stop = guest.resume();
    while slice == Slice::All && stop == Stop::Yielded {
        stop = guest.resume();
    }
    let ran = if stop == Stop::Yielded { Ran::Yielded } else { Ran::ToItsStop };
    {
        let mut tree = cell.hosted();
        tree.tree().stopped(shared, &key, guest, stop);
        tree.keep_pace(shared);
    }
    shared.tell_evicted();
    ran
}

fn start(
    shared: &Arc<Shared>,
    cell: &Arc<Cell>,
    key: &JournalKey,
    begins: Begins,
) -> Result<Guest, NotBegun> {
    let Begins { component, limits, function, input, .. } = begins;
    let program = shared.components.program(&component);
    let program = program.map_err(|error| NotBegun::CannotRun(error.to_string()))?;
    let (shared_too, cell, key) = (Arc::clone(shared), Arc::clone(cell), key.clone());
    let calls = GuestCalls { shared: shared_too, cell, key };
    let started = shared.guests.start(&program, &limits, &function, input, Box::new(calls));
    started.map_err(|error| match error {
        StartError::Full { .. } => NotBegun::NoPlace,
        error => NotBegun::CannotRun(error.to_string()),
    })
}

/// Nothing of the tree needs to stay in memory, unless somebody came meanwhile.
fn forget(shared: &Shared, cell: &Arc<Cell>) {
    let mut trees = lock(&shared.trees);
    // Nobody can come while the map is locked; somebody may have come and gone before.
    if cell.is_idle()
        && cell.hosted().is_idle()
        && trees.get(&cell.id).is_some_and(|known| Arc::ptr_eq(known, cell))
    {
        trees.remove(&cell.id);
    }
}
