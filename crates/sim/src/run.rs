//! One run: the scheduler. In each tick the seed picks what happens next.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use indelible_journal::{ExecutionId, Micros, PromiseId, Timestamp};
use indelible_records::doubts::{self, StateName};
use indelible_runtime::world::{Clock as _, SilentObserver};
use indelible_runtime::{Engine, Pace, World};
use indelible_store::{Store, backend};

use crate::client::{Client, How, Request};
use crate::disk::{Disk, Health, Manner};
use crate::effects::AttemptFacts;
use crate::ledger::Ledger;
use crate::peer::Peer;
use crate::plan::{Action, Plan};
use crate::posts::{Posters, Wires};
use crate::program::SIGNALS;
use crate::rooms::Users;
use crate::transcript::Transcript;
use crate::vaults::Writers;
use crate::world::{SimClock, SimEntropy, SimObserver};
use crate::{Kit, Rng, counter, store};

/// The most requests that wait for an answer at once.
const CLIENTS_MAX: usize = 12;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What went wrong, if something did.
    pub wrong: Option<String>,
    /// What happened, line by line.
    pub transcript: String,
}

/// Runs a seed. The same seed is the same run, whatever else the machine does.
pub fn simulate(kit: &Kit, seed: u64) -> Report {
    let transcript = Arc::new(Transcript::default());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::start(kit, seed, Arc::clone(&transcript));
        run.all()
    }));
    let wrong = match ran {
        Ok(ran) => ran.err(),
        Err(panic) => Some(format!("it panicked: {}", panicked(&*panic))),
    };
    if let Some(wrong) = &wrong {
        transcript.say(format_args!("WRONG: {wrong}"));
    }
    Report { seed, wrong, transcript: transcript.take() }
}

/// Whether the programs of a seed send HTTP requests: two of three do.
fn sends(seed: u64) -> bool {
    !Rng::new(seed ^ 0x6874_7470).number().is_multiple_of(3)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// An engine, its clients, and what it runs on.
pub(crate) struct Run {
    kit: Kit,
    seed: u64,
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) told: Arc<SimObserver>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) known: AttemptFacts,
    pub(crate) engine: Option<Arc<Engine>>,
    clients: Vec<Client>,
    pub(crate) ledger: Ledger,
    pub(crate) users: Option<Users>,
    pub(crate) writers: Option<Writers>,
    pub(crate) posters: Option<Posters>,
    pub(crate) wires: Arc<Wires>,
    pub(crate) tick: u64,
    /// The next number for a signal, cancel or resolution: each has its own.
    next_value: u64,
    /// Whether the clock was ever set back.
    pub(crate) set_back: bool,
}

impl Run {
    fn start(kit: &Kit, seed: u64, transcript: Arc<Transcript>) -> Self {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::draw(&mut rng.fork(), sends(seed));
        let manner = Manner::draw(seed);
        plan.bounds = manner.bounds(plan.bounds);
        let disk = Arc::new(Disk::with(&kit.deployed, seed, manner, Arc::clone(&transcript)));
        let told = SimObserver {
            transcript: Arc::clone(&transcript),
            disk: Arc::clone(&disk),
            wrong: Mutex::default(),
        };
        let clock = Arc::new(SimClock::new());
        let (own_disk, own_clock) = (Arc::clone(&disk), Arc::clone(&clock));
        let peer = Peer::new(own_disk, own_clock, Arc::clone(&transcript), plan.slow_percent);
        let peer = Arc::new(peer);
        Self {
            wires: Arc::new(Wires::new(Arc::clone(&peer), Arc::clone(&disk))),
            posters: Posters::new(seed, plan.options.operation_window),
            peer,
            known: AttemptFacts::default(),
            kit: kit.clone(),
            seed,
            plan,
            rng: rng.fork(),
            transcript,
            clock,
            disk,
            told: Arc::new(told),
            engine: None,
            clients: Vec::new(),
            ledger: Ledger::default(),
            users: Users::new(seed),
            writers: Writers::new(seed),
            tick: 0,
            next_value: 1,
            set_back: false,
        }
    }

    /// Chaos, then quiet, then what must be true.
    fn all(&mut self) -> Result<(), String> {
        self.introduce();
        self.open()?;
        for number in 0..self.plan.programs.len() {
            if self.rng.percent(80) {
                self.ask(Request::Start(number))?;
            }
        }
        for _ in 0..self.plan.ticks {
            self.tick += 1;
            let action = self.plan.action(&mut self.rng);
            if self.store().poison().is_some() && self.rng.percent(30) {
                // An operator sees that the store has stopped, and kills the process.
                self.crash()?;
            }
            self.act(action)?;
            self.count()?;
            self.is_well()?;
        }
        self.quiet()?;
        self.check()
    }

    fn introduce(&self) {
        let Plan { programs, options, bounds, ticks, .. } = &self.plan;
        self.say(format_args!("seed {:#x}, {ticks} ticks", self.seed));
        let (parking, pace) = (options.parking, options.pace);
        let batches = bounds.waiting_batches_max;
        self.say(format_args!("{parking:?}, {pace:?}, room for {batches} batches"));
        self.say(format_args!("disk: {:?}", Manner::draw(self.seed)));
        for (number, program) in programs.iter().enumerate() {
            self.say(format_args!("program {number}: {} {}", program.function, program.steps));
        }
    }

    pub(crate) fn say(&self, line: std::fmt::Arguments<'_>) {
        self.transcript.say(line);
    }

    /// Says what happens in this tick.
    pub(crate) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.say(format_args!("{} {} {what}", self.tick, self.clock.now()));
    }

    /// Neither the peer nor the observer has seen the engine break a rule.
    pub(crate) fn is_well(&self) -> Result<(), String> {
        match self.peer.wrong().or_else(|| self.wires.wrong()).or_else(|| self.told.wrong()) {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("there is one except between two processes")
    }

    pub(crate) fn store(&self) -> &Store {
        self.engine().store()
    }

    /// A new process over what is on the disk. What was shown must be there.
    pub(crate) fn open(&mut self) -> Result<(), String> {
        self.disk.connect();
        let backend: Arc<dyn backend::Backend> = self.disk.clone();
        let time = self.clock.clone();
        let store = Store::start_by_hand_with(backend, &counter::tables(), self.plan.bounds, time);
        let store = store.map_err(|error| format!("the store does not start: {error}"))?;
        self.ledger.kept(&store)?;
        if let Some(before) = self.peer.process().checked_sub(1) {
            self.effects_hold(&store, before)?;
        }
        let world = World {
            clock: self.clock.clone(),
            entropy: Arc::new(SimEntropy { seed: self.seed, ids: AtomicU64::new(self.tick << 32) }),
            observer: self.told.clone(),
            http: self.wires.clone(),
            witness: Arc::new(SilentObserver),
            guests: Arc::clone(&self.kit.guests),
        };
        let options = self.plan.options.clone();
        let engine = Engine::open_with(store, options, world, counter::room())
            .map_err(|error| format!("the engine does not open: {error}"))?;
        self.engine = Some(Arc::new(engine));
        Ok(())
    }

    /// The users of counters, of the vault and of endpoints have their turn.
    pub(crate) fn count(&mut self) -> Result<(), String> {
        let engine = Arc::clone(self.engine());
        self.users.as_mut().map_or(Ok(()), |users| users.act(&engine))?;
        drop(engine);
        self.write_vaults()?;
        self.post()
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Work => {
                if !self.work() {
                    self.idle();
                }
            }
            Action::Disk => {
                self.store().step();
            }
            Action::Wire => {
                self.wire();
            }
            Action::Resolve => self.resolve_something()?,
            Action::Time => {
                let time = Micros::new(self.rng.between(1, 3_000_000));
                self.move_clock(self.clock.now().saturating_add(time));
            }
            Action::Due => self.tell_due(),
            Action::Poll => self.poll_some()?,
            Action::Ask => self.ask_something()?,
            Action::HangUp => self.hang_up(),
            Action::Evict => {
                let count = self.rng.between(1, 3) as usize;
                let evicted = self.engine().evict(count);
                self.note(format_args!("{evicted} guests are dropped"));
            }
            Action::Nudge => {
                if let Some(id) = self.some_execution() {
                    self.note(format_args!("{} is woken for no reason", self.name(&id)));
                    self.engine().nudge(&id);
                }
            }
            Action::DueAgain => {
                self.note(format_args!("timers are told again"));
                self.engine().fire_again();
                self.fire_due();
            }
            Action::Ahead => {
                let time = Micros::from_secs(self.rng.between(60, 100_000));
                self.move_clock(self.clock.now().saturating_add(time));
            }
            Action::Back => {
                self.set_back = true;
                let back = Micros::from_secs(self.rng.between(1, 4_000)).get();
                let micros = self.clock.now().as_micros().saturating_sub(back);
                self.move_clock(Timestamp::from_micros(micros).unwrap_or(Timestamp::EPOCH));
            }
            Action::FailDisk => {
                let lands = self.rng.percent(50);
                let after = match self.plan.options.pace {
                    // In the middle of a turn, which is many commits.
                    Pace::Lockstep => self.rng.below(40),
                    Pace::Ahead => self.rng.below(4),
                };
                self.note(format_args!("a commit fails after {after} more"));
                if self.disk.is_well() {
                    self.disk.set(Health::Failing { after, lands });
                }
            }
            Action::Crash => {
                self.crash()?;
                // Recovery is where a second crash hurts most.
                while self.rng.percent(30) {
                    for _ in 0..self.rng.below(6) {
                        self.work();
                        if self.rng.percent(40) {
                            self.store().step();
                        }
                    }
                    self.crash()?;
                }
            }
            Action::Reopen => self.reopen()?,
        }
        Ok(())
    }

    fn work(&mut self) -> bool {
        let choice = self.rng.below(8) as usize;
        let worked = self.engine().step_at(choice);
        if worked {
            self.note(format_args!("a tree has its turn, {choice} behind the first"));
        }
        worked
    }

    /// No tree has anything to do: time passes until the next timer is due, or the disk takes a
    /// step.
    fn idle(&mut self) {
        match self.engine().next_due() {
            Some(due) if self.rng.percent(50) => {
                if due > self.clock.now() {
                    self.move_clock(due);
                }
                self.tell_due();
            }
            _ => {
                self.store().step();
            }
        }
    }

    /// Moves one request on the wire. False: none can move before time passes.
    pub(crate) fn wire(&mut self) -> bool {
        let moved = self.peer.step(&mut self.rng);
        self.wires.step(&mut self.rng) || moved
    }

    /// The journals on disk say of each effect what the wire knows of it.
    pub(crate) fn effects_hold(&mut self, store: &Store, process: u64) -> Result<(), String> {
        let all = store::all(store, true).map_err(|error| error.to_string())?;
        let cleanup_max = (!self.set_back).then_some(self.plan.options.cleanup_max);
        self.known.look(&all, process, &self.peer.sent(), &self.ledger, cleanup_max)
    }

    /// A person resolves an effect: mostly an unresolved one, sometimes an arbitrary promise;
    /// sometimes twice at once, as two people would.
    fn resolve_something(&mut self) -> Result<(), String> {
        if self.clients.len() >= CLIENTS_MAX {
            return Ok(());
        }
        let unknown = self.doubts(&[]);
        let promise = if unknown.is_empty() || self.rng.percent(15) {
            let Some(id) = self.some_execution() else { return Ok(()) };
            id.child(self.rng.below(6) as u32)
        } else {
            self.rng.pick(&unknown).clone()
        };
        for _ in 0..self.rng.between(1, 2) {
            let how = *self.rng.pick(&[How::Happened, How::DidNotHappen, How::RunAgain]);
            let value = self.value();
            self.ask(Request::Resolve(promise.clone(), how, value))?;
        }
        Ok(())
    }

    /// What open doubts with one of these states are about; without states, all of them.
    pub(crate) fn doubts(&self, states: &[StateName]) -> Vec<PromiseId> {
        let filter = doubts::Filter { states: states.to_vec(), ..doubts::Filter::default() };
        // A store that has stopped shows nothing.
        let page = doubts::page(self.store(), &filter, false, None, 100, 1_000);
        let page = page.map(|seen| seen.value).unwrap_or_default();
        page.doubts.into_iter().map(|(id, _)| id.promise()).collect()
    }

    /// Executions are told of the timers that are due, some of them twice.
    fn tell_due(&mut self) {
        self.fire_due();
        if self.plan.tells_again() && self.rng.percent(30) {
            self.engine().fire_again();
            self.fire_due();
        }
    }

    pub(crate) fn fire_due(&self) {
        match self.engine().fire_due() {
            Ok(count) => self.note(format_args!("{count} timers are due")),
            Err(error) => self.note(format_args!("timers cannot be read: {error}")),
        }
    }

    pub(crate) fn move_clock(&self, time: Timestamp) {
        self.peer.pass(time.saturating_since(self.clock.now()));
        self.clock.set(time);
        self.note(format_args!("it is {time}"));
    }

    /// Everything in memory is gone. A group on its way to the disk may have reached it.
    pub(crate) fn crash(&mut self) -> Result<(), String> {
        let lands = self.rng.percent(50);
        self.note(format_args!("the process dies"));
        if self.disk.is_well() {
            self.disk.set(Health::Failing { after: 0, lands });
        }
        if self.rng.percent(70) {
            // Take, and commit. No client learns the result: the process is gone before it is
            // polled.
            self.store().step();
            self.store().step();
        }
        self.disk.set(Health::Dead);
        self.end_process();
        self.disk.set(Health::Well);
        self.open()
    }

    /// The process ends properly, and another begins.
    fn reopen(&mut self) -> Result<(), String> {
        self.note(format_args!("the process ends, and another begins"));
        self.end_process();
        self.disk.set(Health::Well);
        self.open()
    }

    /// Drops the clients without an answer, and then the engine.
    pub(crate) fn end_process(&mut self) {
        for client in self.clients.drain(..) {
            self.transcript.say(format_args!("  nobody answers {:?}", client.request));
        }
        if let Some(users) = &mut self.users {
            users.hang_up();
        }
        if let Some(writers) = &mut self.writers {
            writers.hang_up();
        }
        if let Some(posters) = &mut self.posters {
            posters.hang_up();
        }
        let engine = self.engine.take().and_then(Arc::into_inner);
        drop(engine.expect("nobody else has the engine"));
        self.peer.cut();
        self.wires.cut();
    }

    /// A new client asks, and is polled once.
    pub(crate) fn ask(&mut self, request: Request) -> Result<(), String> {
        self.note(format_args!("asks {}", self.shown(&request)));
        self.ledger.asked(&request, self.tick);
        let client = Client::new(self.engine(), &self.plan.programs, request, self.tick);
        self.clients.push(client);
        self.poll(self.clients.len() - 1).map(|_| ())
    }

    /// Polls one client. True: it was answered and is removed, so the next one has its place.
    fn poll(&mut self, place: usize) -> Result<bool, String> {
        let Some(answer) = self.clients[place].poll()? else { return Ok(false) };
        let client = self.clients.remove(place);
        self.note(format_args!("{} is answered: {answer:?}", self.shown(&client.request)));
        self.ledger.answered(&client, &answer, self.tick)?;
        Ok(true)
    }

    fn poll_some(&mut self) -> Result<(), String> {
        if self.rng.percent(50) {
            return self.poll_all().map(|_| ());
        }
        if !self.clients.is_empty() {
            let place = self.rng.below(self.clients.len() as u64) as usize;
            self.poll(place)?;
        }
        Ok(())
    }

    /// Polls every client; how many were answered.
    pub(crate) fn poll_all(&mut self) -> Result<usize, String> {
        let (mut place, mut answered) = (0, 0);
        while place < self.clients.len() {
            if self.poll(place)? {
                answered += 1;
            } else {
                place += 1;
            }
        }
        Ok(answered)
    }

    /// The requests of the clients that still wait.
    pub(crate) fn waiting(&self) -> Vec<String> {
        self.clients.iter().map(|client| self.shown(&client.request)).collect()
    }

    /// Whether a client was woken and not polled since.
    pub(crate) fn is_somebody_woken(&self) -> bool {
        self.clients.iter().any(Client::is_woken)
    }

    fn hang_up(&mut self) {
        if !self.clients.is_empty() {
            let place = self.rng.below(self.clients.len() as u64) as usize;
            let client = self.clients.remove(place);
            self.note(format_args!("{} does not wait any longer", self.shown(&client.request)));
        }
    }

    fn ask_something(&mut self) -> Result<(), String> {
        if self.clients.len() >= CLIENTS_MAX {
            return Ok(());
        }
        let number = self.rng.below(self.plan.programs.len() as u64) as usize;
        if !self.ledger.roots.contains_key(&number) && self.rng.percent(70) {
            return self.ask(Request::Start(number));
        }
        let target = self.some_execution();
        let request = match (self.rng.below(100), target) {
            (8..16, _) => Request::Call(number),
            (16..20, _) if self.ledger.roots.contains_key(&number) => Request::Conflict(number),
            (20..60, Some(id)) => {
                Request::Signal(id, self.rng.pick::<&str>(&SIGNALS), self.value())
            }
            (60..72, Some(id)) => Request::Cancel(id, format!("enough-{}", self.value())),
            (72..86, Some(id)) => Request::Outcome(id),
            (86..100, Some(id)) => Request::Row(id),
            _ => Request::Start(number),
        };
        self.ask(request)
    }

    pub(crate) fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value - 1
    }

    /// An execution of a program that was started, or one that it may call.
    fn some_execution(&mut self) -> Option<ExecutionId> {
        let roots: Vec<_> = self.ledger.roots.values().cloned().collect();
        if roots.is_empty() {
            return None;
        }
        let root = self.rng.pick(&roots).clone();
        let kind = self.rng.below(10);
        if kind < 2 {
            return Some(root);
        }
        // A store that has stopped shows nothing.
        let rows = store::rows(self.store(), root.root()).unwrap_or_default();
        let going: Vec<_> = rows.iter().filter(|row| !row.standing.is_terminal()).collect();
        if kind == 2 || going.is_empty() {
            let promise = root.child(self.rng.below(4) as u32);
            return ExecutionId::new(promise).ok();
        }
        Some(self.rng.pick(&going).key.execution_id().clone())
    }

    /// An execution's name in the transcript: its program, and its place in the tree.
    pub(crate) fn name(&self, id: &ExecutionId) -> String {
        let program = self.ledger.roots.iter().find(|(_, root)| root.root() == id.root());
        let number = program.map_or("?".to_owned(), |(number, _)| number.to_string());
        format!("{number}:{id:#}")
    }

    fn shown(&self, request: &Request) -> String {
        match request {
            Request::Signal(id, name, value) => {
                format!("signal {name} {value} to {}", self.name(id))
            }
            Request::Resolve(promise, how, value) => {
                format!("{how:?} {value} of {promise:#}")
            }
            Request::Cancel(id, reason) => format!("cancel {reason} of {}", self.name(id)),
            Request::Outcome(id) => format!("outcome of {}", self.name(id)),
            Request::Row(id) => format!("row of {}", self.name(id)),
            other => format!("{other:?}"),
        }
    }
}

/// Waits for a future on this thread. `drive` is called after each poll and must make progress.
pub(crate) fn poll_to_end<F: Future>(future: F, mut drive: impl FnMut()) -> F::Output {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => return output,
            Poll::Pending => drive(),
        }
    }
}
