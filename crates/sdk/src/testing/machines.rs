//! Trees, what they look at, and what they ask for: commits are rows in memory, timers wait for the
//! time to move, requests wait to be answered.

use std::collections::{BTreeMap, VecDeque};

use indelible_execution::guest::{GuestStart, Run};
use indelible_execution::input::{Reply, StartReply};
use indelible_execution::output::{AttemptRef, EffectSend, Event, Notice, Outgoing};
use indelible_execution::{Input, Tree};
use indelible_journal::{Ending, Journal, JournalKey, Replay, RootHash};
use indelible_machine::{Changes, Guard, Machine as _, TimerChange};
use indelible_records::queue;
use indelible_records::timers::Timer;

use super::world::World;

/// How much of the stored queue is looked at.
const QUEUE_MAX: usize = 10_000;

/// Trees and what they look at. A copy of the world with no trees is what a crash leaves.
#[derive(Default)]
pub(super) struct Machines {
    pub(super) world: World,
    pub(super) trees: BTreeMap<RootHash, Tree>,
    /// Those that are due; true: in memory alone.
    pub(super) timers: BTreeMap<Timer, bool>,
    pub(super) sends: VecDeque<EffectSend>,
    told: VecDeque<(RootHash, Input)>,
    pub(super) endings: Vec<(JournalKey, Ending)>,
    pub(super) held: Vec<String>,
    /// Why the test cannot go on.
    pub(super) problem: Option<String>,
}

pub(super) fn not_deterministic(function: &str, differs: &str) -> String {
    format!("`{function}` is not deterministic. When it ran again over its journal: {differs}")
}

pub(super) fn root_of(key: &JournalKey) -> RootHash {
    *key.execution_id().root()
}

impl Machines {
    pub(super) fn handle(&mut self, root: &RootHash, input: Input) {
        let tree = self.trees.entry(*root).or_default();
        tree.handle(&self.world.context(), input);
        self.heed(root);
    }

    /// Does what a tree wants at once.
    pub(super) fn heed(&mut self, root: &RootHash) {
        let Some(tree) = self.trees.get_mut(root) else { return };
        for notice in tree.notices() {
            match notice {
                Notice::RoomWanted(AttemptRef { key, child, attempt, .. }) => {
                    let begin = Input::StartEffect(key, child, attempt, Guard::NOTHING);
                    self.told.push_back((*root, begin));
                }
                Notice::Stuck(key, why) => {
                    let function = tree.function(&key).map(ToString::to_string);
                    let function = function.unwrap_or_else(|| "the function".to_owned());
                    self.problem.get_or_insert(not_deterministic(&function, &why));
                }
                Notice::Trouble(trouble) => {
                    let why = format!("{}: {}", trouble.message, trouble.error);
                    self.problem.get_or_insert(why);
                }
                Notice::GuestGone(_)
                | Notice::VolatileGone
                | Notice::Released(_)
                | Notice::AttemptFailed(..)
                | Notice::NotRecovered => {}
            }
        }
    }

    /// Stores what has changed in a tree, and does what follows from that.
    pub(super) fn commit(&mut self, root: &RootHash) {
        loop {
            let Some(changes) = self.trees.get_mut(root).and_then(Tree::changes) else { return };
            let Changes { rows, timers, volatile_timers, events, replies, outgoing } = changes;
            self.world.apply(&rows.expect("what is in memory follows from what is stored"));
            for (in_memory, changed) in [(false, timers), (true, volatile_timers)] {
                for (timer, change) in changed {
                    match change {
                        TimerChange::Put => drop(self.timers.insert(timer, in_memory)),
                        TimerChange::Delete => drop(self.timers.remove(&timer)),
                        TimerChange::Keep => {}
                    }
                }
            }
            for event in events {
                if let Event::Ended(end) = event {
                    self.endings.push((end.key, end.ending));
                }
            }
            for (_, reply) in replies {
                let why = match reply {
                    Reply::Done(Err(refusal)) => refusal.to_string(),
                    Reply::Unreadable { why, .. } => why,
                    Reply::Begun(begun) if !matches!(begun, StartReply::New(_)) => {
                        format!("the start came to {begun:?}")
                    }
                    _ => continue,
                };
                self.problem.get_or_insert(why);
            }
            for leaves in outgoing {
                match leaves {
                    Outgoing::Send(send) => self.sends.push_back(*send),
                    Outgoing::Tell(to, input) => self.told.push_back((to, input)),
                    Outgoing::Doubt(effect) if effect.is_held() => {
                        self.held.push(format!("{}: {}", effect.label, effect.why));
                    }
                    Outgoing::Doubt(_) => {}
                }
            }
        }
    }

    /// The next guest to run, when everything else is done.
    pub(super) fn next(&mut self) -> Option<Run> {
        loop {
            let roots: Vec<RootHash> = self.trees.keys().copied().collect();
            let mut is_done = true;
            for root in roots {
                self.commit(&root);
                let Some(tree) = self.trees.get_mut(&root) else { continue };
                let run = tree.next(&self.world.context());
                is_done &= !tree.has_work();
                self.heed(&root);
                if run.is_some() {
                    return run;
                }
                self.commit(&root);
            }
            while let Some((root, input)) = self.told.pop_front() {
                self.handle(&root, input);
                is_done = false;
            }
            if is_done {
                return None;
            }
        }
    }

    /// Begins a guest anew, over all of its journal. None: it cannot, and a notice says why.
    pub(super) fn begin_again(&mut self, key: &JournalKey) -> Option<GuestStart> {
        let root = root_of(key);
        let begins = self.trees.get_mut(&root)?.guest_start(key);
        self.heed(&root);
        begins
    }

    /// Whether the journal of a guest holds nothing beyond what its run has asked for.
    pub(super) fn place(&self, key: &JournalKey) -> Option<Result<(), String>> {
        let tree = self.trees.get(&root_of(key))?;
        let mut found = None;
        tree.guest_is(key, |replay: &Replay, journal: &Journal| {
            found = Some(replay.finish(journal).map_err(|error| error.to_string()));
            true
        });
        found
    }

    pub(super) fn length(&self, key: &JournalKey) -> u64 {
        let mut length = 0;
        if let Some(tree) = self.trees.get(&root_of(key)) {
            tree.guest_is(key, |_, journal| {
                length = journal.len();
                true
            });
        }
        length
    }

    /// What a crash leaves of an execution, with its guest about to begin anew. None: nothing, as it
    /// is in memory alone.
    pub(super) fn crashed(&self, key: &JournalKey) -> Option<Self> {
        let root = root_of(key);
        let world = self.world.copy();
        let queued = queue::next(&world, None, QUEUE_MAX).expect("memory can be read").value;
        let mut queued = queued.into_iter().filter_map(queue::Row::tree);
        let entry = queued.find(|entry| entry.key == *key)?;
        let mut left = Self { world, ..Self::default() };
        left.handle(&root, Input::Recover(entry, Guard::NOTHING));
        let tree = left.trees.get_mut(&root)?;
        loop {
            // Calls that had not begun may come first; they are not run here.
            let run = tree.next(&left.world.context())?;
            if run.key == *key {
                break;
            }
        }
        Some(left)
    }
}
