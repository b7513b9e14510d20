//! What a seed draws before anything happens: the programs, how the engine is configured, and how
//! likely each thing is. Every seed has its own mixture: if every action happened all the time,
//! bugs that need a long stretch without one of them would never show.

use indelible_journal::Micros;
use indelible_runtime::{Options, Ownership, Pace, Parking, ParkingBounds};
use indelible_store::Bounds;

use crate::Rng;
use crate::program::Program;

/// Something that the simulation can do in a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A tree that has something to do gets its turn.
    Work,
    /// The disk takes a group, or is done with one.
    Disk,
    /// Something happens on the wire.
    Wire,
    /// A person says how an effect ended.
    Resolve,
    /// Time passes.
    Time,
    /// Executions are told of the timers that are due.
    Due,
    /// One client or all of them are polled.
    Poll,
    /// A client asks for something.
    Ask,
    /// A client stops waiting for its answer.
    HangUp,
    /// Guests that wait are dropped.
    Evict,
    /// An execution is woken for no reason.
    Nudge,
    /// Timers that are due are told again.
    DueAgain,
    /// The clock is set forward.
    Ahead,
    /// The clock is set back.
    Back,
    /// A commit fails, soon.
    FailDisk,
    /// The process dies.
    Crash,
    /// The process ends properly, and another begins.
    Reopen,
}

/// What a seed has drawn.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) programs: Vec<Program>,
    pub(crate) options: Options,
    pub(crate) bounds: Bounds,
    pub(crate) ticks: u64,
    /// How often a step on the wire may pick a request that no process waits for.
    pub(crate) slow_percent: u64,
    weights: Vec<(Action, u64)>,
}

impl Plan {
    /// `sends`: with HTTP effects. A plan without them draws no numbers for them.
    pub(crate) fn draw(rng: &mut Rng, sends: bool) -> Self {
        let draw = if sends { Program::draw_sending } else { Program::draw };
        let programs = (0..rng.between(1, 4)).map(|_| draw(&mut rng.fork())).collect();
        let mut draw = rng.fork();
        let rng = &mut draw;
        let parking = match rng.below(10) {
            0..6 => Parking::Keep(ParkingBounds::for_guests(100)),
            6..8 => Parking::Keep(ParkingBounds::for_guests(rng.between(1, 3) as usize)),
            _ => Parking::Drop,
        };
        let usual = Options::default();
        let effects_in_flight_max = if sends { *rng.pick(&[1, 2, 1_024, 1_024]) } else { 1_024 };
        let options = Options {
            effects_in_flight_max,
            workers: 0,
            parking,
            pace: if rng.percent(35) { Pace::Lockstep } else { Pace::Ahead },
            ownership: if rng.percent(50) { Ownership::Apart } else { Ownership::All },
            cleanup_max: Micros::from_secs(*rng.pick(&[1, 4, 60])),
            signals_buffered_max: *rng.pick(&[2, 10_000, 10_000]),
            signals_buffered_bytes_max: *rng.pick(&[3, 32 << 20, 32 << 20]),
            commands_max: *rng.pick(&[1, 2, 4_096, 4_096]),
            callers_waiting_max: *rng.pick(&[1, 65_536, 65_536]),
            ..usual
        };
        let waiting_batches_max = *rng.pick(&[1, 3, 512, 512]);
        let bounds = Bounds { waiting_batches_max, ..Bounds::DEFAULT };
        let (ticks, mut weights) = (rng.between(30, 300), weights(rng));
        let mut slow_percent = 0;
        if sends {
            slow_percent = *rng.pick(&[0, 1, 4, 20]);
            weights.push((Action::Wire, rng.between(30, 300)));
            weights.push((Action::Resolve, rng.between(5, 60)));
        }
        Self { programs, options, bounds, ticks, slow_percent, weights }
    }

    /// Whether timers are told more than once.
    pub(crate) fn tells_again(&self) -> bool {
        self.weights.iter().any(|(action, _)| *action == Action::DueAgain)
    }

    /// What happens next.
    pub(crate) fn action(&self, rng: &mut Rng) -> Action {
        let sum = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut place = rng.below(sum);
        for (action, weight) in &self.weights {
            match place.checked_sub(*weight) {
                Some(rest) => place = rest,
                None => return *action,
            }
        }
        Action::Work
    }
}

fn weights(rng: &mut Rng) -> Vec<(Action, u64)> {
    let slow = rng.percent(30);
    let mut weights = vec![
        (Action::Work, rng.between(100, 400)),
        (Action::Disk, if slow { rng.between(5, 30) } else { rng.between(50, 300) }),
        (Action::Time, rng.between(10, 80)),
        (Action::Due, rng.between(10, 80)),
        (Action::Poll, rng.between(30, 120)),
        (Action::Ask, rng.between(20, 120)),
    ];
    // Each seed has each of these or not.
    let faults = [
        (Action::HangUp, 20),
        (Action::Evict, 40),
        (Action::Nudge, 40),
        (Action::DueAgain, 30),
        (Action::Ahead, 4),
        (Action::Back, 6),
        (Action::FailDisk, 6),
        (Action::Crash, 15),
        (Action::Reopen, 5),
    ];
    for (action, most) in faults {
        if rng.percent(60) {
            weights.push((action, rng.between(1, most)));
        }
    }
    weights
}
