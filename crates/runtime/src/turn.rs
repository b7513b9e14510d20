//! A tree's turn on a worker: its commands, some of its work, one commit.
//!
//! All that a tree does in a turn is one commit, however many guests ran in it, so a workflow of
//! many small steps costs few commits. A turn is bounded, so that a large tree does not keep others
//! waiting.

use std::sync::Arc;

use indelible_execution::guest::{GuestStart, Stop as NotBegun};
use indelible_journal::JournalKey;
use tracing::field::{Empty, display};
use tracing::{debug, debug_span};

use crate::cell::{Cell, TurnEnd};
use crate::guest::{Guest, StartError, Stop};
use crate::guest_calls::GuestCalls;
use crate::hosted_tree::{Generation, GuestJob, WitnessNeed};
use crate::shared::{Shared, lock};
use crate::world::DEATHS_MAX;

/// How many guests run in a turn.
const GUESTS_MAX: usize = 32;

/// For how many ticks: many guests that take less than a slice each must not add up to seconds.
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
                tree.run_command(shared, command);
                tree.keep_pace(shared);
                if is_late() {
                    break;
                }
            }
            let job = tree.next(shared);
            tree.keep_pace(shared);
            // Another worker, if one is free, may take a turn of the same tree.
            if tree.has_work() && cell.one_more(shared.options.workers.max(1)) {
                shared.run_queue.push(Arc::clone(cell));
            }
            job
        };
        let Some(job) = job else { break };
        // A guest that used up its slice has kept other trees waiting for long enough.
        yielded = run(shared, cell, job) == RunEnd::Yielded;
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
        TurnEnd::More => shared.run_queue.push(Arc::clone(cell)),
        // Other workers hold the tree; the last to leave forgets it.
        TurnEnd::Others => {}
        // Asked only after `leave`: a guest on another worker may have kept the tree busy until
        // after this turn's commit.
        TurnEnd::Last => {
            let forgettable = cell.hosted().is_idle();
            if forgettable {
                forget(shared, cell);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    /// Until it waited or ended.
    ToItsStop,
    /// Until its time was up.
    Yielded,
    /// Not at all: there is no place for it, or it is stuck.
    NotAtAll,
}

/// Runs a guest until it waits, yields or ends; the witness is told before if the guest may kill
/// the process (C-85).
fn run(shared: &Arc<Shared>, cell: &Arc<Cell>, job: GuestJob) -> RunEnd {
    let (key, generation) = (job.key.clone(), job.generation);
    let among_others = || shared.witness.has_suspects().then(|| shared.replays.among_others());
    match job.noted {
        WitnessNeed::No => {
            let _others = among_others();
            return run_guest(shared, cell, job, Slice::One);
        }
        WitnessNeed::Already => {}
        WitnessNeed::Yes => match shared.witness.deaths(&key) {
            0 => shared.witness.replaying(&key),
            deaths if deaths < DEATHS_MAX => return run_alone(shared, cell, job),
            deaths => {
                let why =
                    format!("the process died {deaths} times in a row while this was replayed");
                not_begun(shared, cell, generation, &key, NotBegun::CannotRun(why));
                return RunEnd::NotAtAll;
            }
        },
    }
    let _others = among_others();
    let ran = run_guest(shared, cell, job, Slice::One);
    match (ran, cell.hosted().tree(generation)) {
        (RunEnd::NotAtAll, _) => shared.witness.untouched(&key),
        (RunEnd::ToItsStop, Some(tree)) => tree.was_noted(&key),
        (RunEnd::Yielded, Some(tree)) => tree.stays_noted(&key),
        // The tree was given up meanwhile, and with it all that the guest did.
        (_, None) => shared.witness.survived(&key),
    }
    ran
}

/// Tells the tree that a guest did not begin.
fn not_begun(
    shared: &Shared,
    cell: &Cell,
    generation: Generation,
    key: &JournalKey,
    why: NotBegun,
) {
    if let Some(tree) = cell.hosted().tree(generation) {
        tree.not_begun(shared, key, why);
    }
}

/// Runs a guest that a process may have died of: alone, and until what it did is durable, so that
/// if this process dies too, it is known of which guest.
fn run_alone(shared: &Arc<Shared>, cell: &Arc<Cell>, job: GuestJob) -> RunEnd {
    let _alone = shared.replays.alone();
    let key = job.key.clone();
    shared.witness.replaying(&key);
    match run_guest(shared, cell, job, Slice::All) {
        RunEnd::NotAtAll => shared.witness.untouched(&key),
        RunEnd::ToItsStop | RunEnd::Yielded => {
            cell.hosted().commit(shared);
            // If the commit is lost, the process ends because of the store, and the guest stays a
            // suspect: it cannot be cleared.
            let durable = shared.store.durable(shared.store.accepted());
            if durable.through_pauses().wait().is_ok() {
                shared.witness.survived(&key);
            }
        }
    }
    RunEnd::Yielded
}

/// How much time a guest has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slice {
    /// One slice, and then others have their turn.
    One,
    /// As many as it takes.
    All,
}

fn run_guest(shared: &Arc<Shared>, cell: &Arc<Cell>, job: GuestJob, slice: Slice) -> RunEnd {
    let GuestJob { key, generation, guest, .. } = job;
    let span = debug_span!("execution", execution = %key.execution_id(), function = Empty);
    if !span.is_disabled()
        && let Some(tree) = cell.hosted().tree(generation)
    {
        span.record("function", tree.machine().function(&key).map(display));
    }
    let _within = span.enter();
    let mut guest = match guest {
        Ok(guest) => guest,
        Err(begins) => match start(shared, cell, generation, &key, begins) {
            Ok(guest) => guest,
            Err(why) => {
                // All places may be taken: evicting a parked guest frees one; if none is parked,
                // others have to end.
                if why == NotBegun::NoPlace {
                    shared.parking.evict(1);
                    shared.tell_evicted();
                }
                not_begun(shared, cell, generation, &key, why);
                return RunEnd::NotAtAll;
            }
        },
    };
    let mut stop = guest.resume();
    while slice == Slice::All && stop == Stop::Yielded {
        stop = guest.resume();
    }
    debug!(stop = stop.name(), "guest ran");
    let ran = if stop == Stop::Yielded { RunEnd::Yielded } else { RunEnd::ToItsStop };
    {
        let mut hosted = cell.hosted();
        if let Some(tree) = hosted.tree(generation) {
            tree.stopped(shared, &key, guest, stop);
        }
        hosted.keep_pace(shared);
    }
    shared.tell_evicted();
    ran
}

fn start(
    shared: &Arc<Shared>,
    cell: &Arc<Cell>,
    generation: Generation,
    key: &JournalKey,
    begins: GuestStart,
) -> Result<Guest, NotBegun> {
    let GuestStart { component, limits, function, input, .. } = begins;
    let program = shared.components.program(&component);
    let program = program.map_err(|error| NotBegun::CannotRun(error.to_string()))?;
    let (shared_too, cell, key) = (Arc::clone(shared), Arc::clone(cell), key.clone());
    let calls = GuestCalls { shared: shared_too, cell, key, generation };
    let started = shared.guests.start(&program, &limits, &function, input, Box::new(calls));
    started.map_err(|error| match error {
        StartError::Full { .. } => NotBegun::NoPlace,
        error => NotBegun::CannotRun(error.to_string()),
    })
}

/// Removes an idle tree from memory, unless a command came meanwhile.
fn forget(shared: &Shared, cell: &Arc<Cell>) {
    let mut trees = lock(&shared.trees);
    // Commands are sent under the map's lock, so none can come now; but one may have come, and even
    // a turn passed, since this worker left: all three are checked again.
    if cell.is_idle()
        && cell.hosted().is_idle()
        && trees.get(&cell.id).is_some_and(|known| Arc::ptr_eq(known, cell))
    {
        trees.remove(&cell.id);
    }
}
