//! The quiet after the chaos: nothing fails any more, the signals that are waited for are sent,
//! and everything has to come to its end.

use std::sync::Arc;

use indelible_journal::{AwaitKind, Journal, Status};
use indelible_runtime::world::Clock as _;

use crate::client::{How, Request};
use crate::disk::Health;
use crate::program::SIGNALS;
use crate::rooms::Users;
use crate::run::{Run, poll_to_end};
use crate::store;
use crate::vaults::Writers;

/// Rounds of time and signals after which an execution that still runs counts as hanging.
const ROUNDS_MAX: u64 = 3_000;

/// Steps after which an engine that still has something to do turns in circles.
const STEPS_MAX: u64 = 100_000;

impl Run {
    /// Runs until every execution is over and every client is answered.
    pub(crate) fn quiet(&mut self) -> Result<(), String> {
        self.say(format_args!("quiet"));
        self.disk.calm_down();
        if !self.disk.is_well() || self.store().poison().is_some() {
            // A process whose store has stopped has to end.
            self.disk.set(Health::Dead);
            self.end_process();
            self.disk.set(Health::Well);
            self.open()?;
        }
        self.rest()?;
        for number in 0..self.plan.programs.len() {
            if !self.ledger.roots.contains_key(&number) {
                self.ask(Request::Start(number))?;
                self.rest()?;
                let started = self.ledger.roots.contains_key(&number);
                ensure!(started, "program {number} is not started, and nothing is wrong");
            }
        }
        self.settle_vaults()?;
        self.settle_posts()?;
        for _ in 0..ROUNDS_MAX {
            self.tick += 1;
            self.rest()?;
            self.is_well()?;
            let deadline = self.peer.next_deadline();
            if let Some(due) = self.engine().next_due().into_iter().chain(deadline).min() {
                if due > self.clock.now() {
                    self.move_clock(due);
                }
                self.fire_due();
            } else if !self.send_missing()? {
                return self.everybody_is_answered();
            }
        }
        Err("it never comes to its end".to_owned())
    }

    /// Works until everything that can be done without time passing is done and on disk.
    pub(crate) fn rest(&mut self) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            let choice = self.rng.below(8) as usize;
            let worked = self.engine().step_at(choice);
            let written = self.store().step();
            let wired = self.wire();
            let answered = self.poll_all()?;
            self.users.as_mut().map_or(Ok(()), Users::look)?;
            self.writers.as_mut().map_or(Ok(()), Writers::look)?;
            let transcript = Arc::clone(&self.transcript);
            let say = |line: std::fmt::Arguments<'_>| transcript.say(line);
            self.posters.as_mut().map_or(Ok(()), |posters| posters.look(self.clock.now(), say))?;
            // Polling makes new work: a client that is admitted because another was answered asks
            // only now, and a polled client may submit a batch itself.
            let asked = self.engine().readings().runnable > 0
                || self.is_somebody_woken()
                || self.store().durable_now() < self.store().accepted();
            if !worked && !written && !wired && answered == 0 && !asked {
                return Ok(());
            }
        }
        Err("the engine has always something to do".to_owned())
    }

    /// Nothing happens by itself any more: everything that is not over waits for a signal, or for
    /// a call that does. False: everything is over.
    fn send_missing(&mut self) -> Result<bool, String> {
        let engine = Arc::clone(self.engine());
        let unresolved = poll_to_end(engine.unresolved(None, 100), || {});
        drop(engine);
        let unresolved = unresolved.map_err(|error| error.to_string())?;
        for effect in &unresolved {
            let promise = &effect.promise;
            ensure!(effect.is_held(), "{promise:#} hangs: its reconciler is not asked");
            // An effect that runs again may become unknown again, so the other answers must come
            // up, too.
            let how = match self.rng.below(4) {
                0 => How::RunAgain,
                1 => How::DidNotHappen,
                _ => How::Happened,
            };
            let value = self.value();
            self.ask(Request::Resolve(promise.clone(), how, value))?;
        }
        if !unresolved.is_empty() {
            return Ok(true);
        }
        let mut missing = Vec::new();
        let mut open = Vec::new();
        for root in self.ledger.roots.values() {
            let tree = store::tree(self.store(), root);
            let tree = tree.map_err(|error| format!("a tree cannot be read: {error}"))?;
            // Children first: their parents wait for them.
            for (key, records) in tree.into_iter().rev() {
                let name = format!("{} of {}", key.attempts(), self.name(key.execution_id()));
                let journal = Journal::recover(key, records)
                    .map_err(|violation| format!("{name} breaks a rule: {violation}"))?;
                let status = journal.status().ok_or_else(|| format!("{name} is empty"))?;
                if status.is_terminal() {
                    continue;
                }
                let Status::Blocked { kind, .. } = status else {
                    return Err(format!("{name} hangs: it is {status}"));
                };
                ensure!(!journal.can_wake(), "{name} hangs: its wait is over");
                open.push(format!("{name} waits for {kind:?}"));
                if let AwaitKind::Signal { name, .. } | AwaitKind::SignalOr { name, .. } = kind {
                    let known = SIGNALS.iter().find(|known| **known == name.as_str());
                    let id = journal.key().execution_id().clone();
                    missing.push((id, *known.expect("programs wait for these alone")));
                }
            }
        }
        ensure!(
            open.is_empty() || !missing.is_empty(),
            "nothing waits for a signal, and {}",
            open.join(", ")
        );
        for (id, name) in missing {
            let value = self.value();
            self.ask(Request::Signal(id, name, value))?;
        }
        Ok(!open.is_empty())
    }

    /// No client waits, every program's outcome can be read, and a repeated start is answered.
    fn everybody_is_answered(&mut self) -> Result<(), String> {
        self.settle_rooms()?;
        let waiting = self.waiting();
        ensure!(waiting.is_empty(), "nobody answers {}", waiting.join(", "));
        for (number, root) in self.ledger.roots.clone() {
            for request in [Request::Start(number), Request::Call(number), Request::Outcome(root)] {
                self.ask(request)?;
            }
        }
        self.rest()?;
        let waiting = self.waiting();
        ensure!(waiting.is_empty(), "nobody answers {}", waiting.join(", "));
        self.is_well()
    }
}
