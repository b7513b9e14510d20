//! What must be true when everything is over.

use indelible_records::check;
use indelible_records::doubts::StateName;
use indelible_records::{queue, timers};
use indelible_runtime::Readings;
use indelible_store::ReadError;

use crate::agree::{agree, end_in_order};
use crate::doubts;
use crate::oracle;
use crate::run::Run;
use crate::store::{self, StoredJournal};

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped with")]
fn unreadable(error: ReadError) -> String {
    format!("the store cannot be read: {error}")
}

impl Run {
    /// What must be true when everything is over, of the process that saw it and of the next.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.nothing_is_left()?;
        self.counters_agree()?;
        self.vaults_agree()?;
        self.posts_agree()?;
        let mut trees = Vec::new();
        for (number, root) in &self.ledger.roots {
            let tree = store::tree(self.store(), root).map_err(unreadable)?;
            self.write_down(*number, &tree);
            trees.push((*number, root.clone(), tree));
        }
        self.peer.arrive();
        let store = self.store().clone();
        self.effects_hold(&store, self.peer.process())?;
        for (_, tree) in store::trees(&store).map_err(unreadable)? {
            agree(&tree)?;
        }
        drop(store);
        let (rows, hash) = store::digest(self.store()).map_err(unreadable)?;
        self.say(format_args!("the store has {rows} rows, {hash:016x}"));
        for (number, root, tree) in &trees {
            let wrong = |wrong| format!("program {number}: {wrong}");
            agree(tree).map_err(wrong)?;
            if !self.set_back {
                end_in_order(tree).map_err(wrong)?;
            }
            let doubts = doubts::of_tree(self.store(), root).map_err(unreadable)?;
            doubts::check(tree, &doubts).map_err(wrong)?;
            self.ledger.kept_in(root, tree, &doubts).map_err(wrong)?;
            ensure!(self.ledger.endings.contains_key(root), "program {number} has no outcome");
            let program = &self.plan.programs[*number];
            let cleanup_max = (!self.set_back).then_some(self.plan.options.cleanup_max);
            let judged = oracle::check(program, root, tree, &self.ledger, cleanup_max);
            let judged = judged.map_err(wrong)?;
            self.say(format_args!("program {number}: {judged:?}"));
        }
        let findings = check::check(self.store(), &mut |_| {}).map_err(unreadable)?;
        ensure!(findings.problems.is_empty(), "the store is not whole: {:?}", findings.problems);
        self.next_process_has_nothing_to_do()
    }

    /// No queue row, timer or unresolved effect is left, and nothing is in memory.
    fn nothing_is_left(&self) -> Result<(), String> {
        let queued = queue::next(self.store(), None, 10).map_err(unreadable)?.value;
        ensure!(queued.is_empty(), "something is queued: {queued:?}");
        let timers = timers::next(self.store(), None, 10).map_err(unreadable)?.value;
        ensure!(timers.is_empty(), "a timer is left: {timers:?}");
        let held = self.doubts(&[StateName::Held, StateName::Asking]);
        ensure!(held.is_empty(), "nobody has said what became of {held:?}");
        let readings = self.engine().readings();
        let out = (readings.effects_in_flight, readings.effects_leaving);
        ensure!(out == (0, 0), "effects are in flight, and on their way: {out:?}");
        let left = (readings.trees, readings.runnable, readings.parked);
        ensure!(left == (0, 0, 0), "trees, runnable trees, guests are left: {left:?}");
        let Readings { recovered, timers_told, callers_waiting, .. } = readings;
        ensure!(recovered, "it has not looked at all that was left");
        ensure!(timers_told == 0, "{timers_told} timers were told, and nothing came of it");
        ensure!(callers_waiting == 0, "{callers_waiting} callers wait for room");
        Ok(())
    }

    fn next_process_has_nothing_to_do(&mut self) -> Result<(), String> {
        // The pipeline's own row is read from the rows alone: without this the digests would
        // differ.
        self.disk.bring_up_to_date();
        let (_, before) = store::digest(self.store()).map_err(unreadable)?;
        self.end_process();
        self.open()?;
        self.fire_due();
        while self.engine().step() {}
        let (_, after) = store::digest(self.store()).map_err(unreadable)?;
        ensure!(before == after, "another process changed something after the end");
        self.nothing_is_left()?;
        self.is_well()?;
        self.end_process();
        Ok(())
    }

    fn write_down(&self, number: usize, tree: &[StoredJournal]) {
        for (key, records) in tree {
            self.say(format_args!("program {number} {key:#}"));
            for record in records {
                let (time, event) = (record.timestamp, record.event.describe());
                self.say(format_args!("  {} {time} {event}", record.sequence));
            }
        }
    }
}
