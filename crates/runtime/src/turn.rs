//! A tree's turn on a worker: its commands, some of its work, one commit.
//!
//! What a tree does in a turn is one commit, however many guests ran in it, so a workflow of many
//! small steps costs few of them. A turn is bounded, so that a large tree does not keep others
//! waiting.

use std::sync::Arc;

use crate::cell::{Cell, Left};
use crate::guest::{Guest, StartError, Stop};
use crate::shared::{Shared, lock};
use crate::tree::{GuestCalls, Job, NotStarted};

/// How many guests run in a turn.
const GUESTS_MAX: usize = 32;

/// For how long: many guests that take less than a slice each must not add up to seconds.
const TICKS_MAX: u64 = 3;

/// How often a process may die of an execution (C-25).
const DEATHS_MAX: u32 = 3;

/// Does a turn of a tree, and puts it back into the run queue if it has more to do.
pub(crate) fn turn(shared: &Arc<Shared>, cell: &Arc<Cell>) {
    let began = shared.guests.ticks();
    for _ in 0..GUESTS_MAX {
        let job = {
            let mut tree = cell.tree();
            while !tree.is_full()
                && let Some(command) = cell.next_command()
            {
                tree.obey(shared, command);
                tree.keep_pace(shared);
            }
            let job = tree.take(shared);
            tree.keep_pace(shared);
            // Others may help, if there are other hands.
            if tree.has_work() && cell.one_more(shared.options.workers.max(1)) {
                shared.run_queue.push(Arc::clone(cell));
            }
            job
        };
        let Some(job) = job else { break };
        // Whoever used up its time has kept others waiting for long enough.
        if run(shared, cell, job) == Ran::Yielded {
            break;
        }
        if shared.guests.ticks() - began >= TICKS_MAX {
            break;
        }
    }
    let has_work = {
        let mut tree = cell.tree();
        tree.commit(shared);
        tree.has_work()
    };
    match cell.leave(has_work) {
        Left::More => shared.run_queue.push(Arc::clone(cell)),
        // Those who are still at it see what becomes of it.
        Left::Others => {}
        // Looked at only now: what kept it may have ended since this turn's commit.
        Left::Last => {
            let forgettable = cell.tree().is_forgettable();
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
    /// Until its time was up, or not at all.
    Yielded,
}

/// Runs a guest until it waits, yields or ends.
fn run(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job) -> Ran {
    let key = job.key.clone();
    // What is new in this very turn cannot have killed another process.
    let replays = job.guest.is_none() && job.stored;
    let _alone = match replays.then(|| shared.witness.deaths(&key)) {
        Some(deaths) if deaths >= DEATHS_MAX => {
            let why = format!("the process died {deaths} times in a row while this was replayed");
            cell.tree().not_started(shared, &key, NotStarted::Held(why));
            return Ran::Yielded;
        }
        Some(deaths) if deaths > 0 => Some(lock(&shared.suspects)),
        _ => None,
    };
    if replays {
        shared.witness.replaying(&key);
    }
    let ran = run_witnessed(shared, cell, job);
    if replays {
        shared.witness.survived(&key);
    }
    ran
}

fn run_witnessed(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job) -> Ran {
    let key = job.key.clone();
    let mut guest = match job.guest {
        Some(guest) => guest,
        None => match start(shared, cell, job) {
            Ok(guest) => guest,
            Err(why) => {
                // Every place may be taken: one that waits makes room, or others have to end.
                if matches!(why, NotStarted::Full) {
                    shared.parking.evict(1);
                    shared.tell_evicted();
                }
                cell.tree().not_started(shared, &key, why);
                return Ran::Yielded;
            }
        },
    };
    let stop = guest.resume();
    let ran = if stop == Stop::Yielded { Ran::Yielded } else { Ran::ToItsStop };
    if ran == Ran::Yielded {
        cell.flow_alone();
    }
    {
        let mut tree = cell.tree();
        tree.stopped(shared, &key, guest, stop);
        tree.keep_pace(shared);
    }
    shared.tell_evicted();
    ran
}

fn start(shared: &Arc<Shared>, cell: &Arc<Cell>, job: Job) -> Result<Guest, NotStarted> {
    let program = shared.components.program(&job.component);
    let program = program.map_err(|error| NotStarted::Held(error.to_string()))?;
    let (shared_too, cell, key) = (Arc::clone(shared), Arc::clone(cell), job.key);
    let calls = GuestCalls { shared: shared_too, cell, key };
    let started =
        shared.guests.start(&program, &job.limits, &job.function, job.input, Box::new(calls));
    started.map_err(|error| match error {
        StartError::Full { .. } => NotStarted::Full,
        error => NotStarted::Held(error.to_string()),
    })
}

/// Nothing of the tree needs to stay in memory, unless somebody came meanwhile.
fn forget(shared: &Shared, cell: &Arc<Cell>) {
    let mut trees = lock(&shared.trees);
    // Nobody can come while the map is locked; somebody may have come and gone before.
    if cell.is_idle()
        && cell.tree().is_forgettable()
        && trees.get(&cell.root).is_some_and(|known| Arc::ptr_eq(known, cell))
    {
        trees.remove(&cell.root);
    }
}
