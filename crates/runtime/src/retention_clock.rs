//! The retention clock: the time by which records and finished trees are deleted (C-3).
//!
//! The wall clock may be wrong. Deleting by it would forget names whose windows are not over, and a
//! caller that repeats its request under such a name would have it executed twice. So retention has
//! a clock of its own, kept in the store. It follows the wall clock and never advances beyond it.
//! It advances by the time that passes in this process, and by at most [`JUMP_MAX`] in all for what
//! the wall clock gains in another way: while no process ran, or because it was set. More than that
//! counts only when an operator confirms it: until then retention lags, deletes later, and says so.
//!
//! Three times matter, and each use takes one of them:
//! - [`RetentionClock::advance`] decides what is due;
//! - the window of a record begins at the later of the wall clock and [`RetentionClock::time`], so
//!   that a wall clock that is behind does not make it end early;
//! - an operation id without a record is judged by the later of the wall clock and
//!   [`RetentionClock::purged`], the latest time by which records were purged: the id of such a
//!   record is expired for ever, however far the wall clock is set back (V-59).

use std::sync::Mutex;

use indelible_journal::{Micros, Timestamp};
use indelible_records::audit;
use indelible_records::retention_clock::{self as rows, Row};
use indelible_slots::Slot;
use indelible_store::{Batch, Position, ReadError, Store, SubmitError};

use crate::engine::{ControlError, EngineError};
use crate::shared::lock;
use crate::world::Clock;

/// How much of a jump of the wall clock a process believes. Enough for a night, a reboot, a clock
/// that is corrected after the start. Not more, because records stay for a day after their window
/// ([`crate::retention::start`]): a jump of this size, wrongly believed, deletes nothing within its
/// window.
pub(crate) const JUMP_MAX: Micros = Micros::from_secs(24 * 3600);

/// How much time passes before the clock is written although nothing is purged. Time that was not
/// written when the process died counts as a jump at the next start: this is small against
/// [`JUMP_MAX`].
const WRITE_INTERVAL: Micros = Micros::from_secs(3600);

/// What the retention clock and the wall clock say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionTime {
    /// The retention clock.
    pub time: Timestamp,
    /// The wall clock, at the same moment.
    pub wall: Timestamp,
}

impl RetentionTime {
    /// By how much the wall clock is ahead of the retention clock, in seconds; less than 0 if it is
    /// behind.
    pub fn lag_seconds(&self) -> i64 {
        let ahead = self.wall.as_micros().cast_signed() - self.time.as_micros().cast_signed();
        ahead / 1_000_000
    }

    /// Whether the two differ by more than a process makes up for by itself: an operator should
    /// look.
    pub(crate) fn needs_a_look(&self) -> bool {
        self.wall.saturating_since(self.time) > JUMP_MAX
            || self.time.saturating_since(self.wall) > JUMP_MAX
    }
}

/// The time of the clock, and the last readings that it was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockReading {
    time: Timestamp,
    /// The wall clock at the last reading; `elapsed` is of the same moment.
    wall: Timestamp,
    elapsed: Micros,
    /// How much of a jump this process still believes.
    credit: Micros,
}

impl ClockReading {
    /// Computes the time from new readings of the wall clock and of the elapsed time.
    fn advance(&mut self, wall: Timestamp, elapsed: Micros) {
        let passed = elapsed.get().saturating_sub(self.elapsed.get());
        let gained = wall.saturating_since(self.wall).get();
        let jump = gained.saturating_sub(passed).min(self.credit.get());
        let reach = self.time.saturating_add(Micros::new(passed.saturating_add(jump)));
        let next = self.time.max(reach.min(wall));
        let used = next.saturating_since(self.time).get().saturating_sub(passed);
        let credit = Micros::new(self.credit.get() - used);
        *self = Self { time: next, wall, elapsed: elapsed.max(self.elapsed), credit };
    }
}

#[derive(Debug)]
struct State {
    reckoning: ClockReading,
    purged: Timestamp,
    /// The time in the stored row; none if there is no row.
    written: Option<Timestamp>,
}

impl State {
    fn row(&self) -> Row {
        Row { time: self.reckoning.time, wall: self.reckoning.wall, purged: self.purged }
    }
}

/// The retention clock of an engine.
#[derive(Debug)]
pub(crate) struct RetentionClock {
    state: Mutex<State>,
    /// Held from the read of the state until the row made of it is accepted. Otherwise a purge
    /// could overwrite the time that an operator has just confirmed.
    writing: tokio::sync::Mutex<()>,
}

impl RetentionClock {
    /// The clock of a store.
    ///
    /// A store without one is new, or no engine has retained anything in it. Its clock starts at
    /// the newest audit entry: the wall clock may be wrong at this moment. Without such an entry no
    /// actor ever did anything there, and the wall clock has to do.
    pub(crate) fn open(store: &Store, clock: &dyn Clock) -> Result<Self, ReadError> {
        let (now, elapsed) = (clock.now(), clock.elapsed());
        let (time, wall, purged, written) = match rows::get(store)?.value {
            Some(Row { time, wall, purged }) => (time, wall, purged, Some(time)),
            None => {
                let newest = audit::newest(store)?.value.unwrap_or(now);
                (newest, newest, Timestamp::EPOCH, None)
            }
        };
        let mut reckoning = ClockReading { time, wall, elapsed, credit: JUMP_MAX };
        reckoning.advance(now, elapsed);
        let state = Mutex::new(State { reckoning, purged, written });
        Ok(Self { state, writing: tokio::sync::Mutex::default() })
    }

    /// The time, as it was when it last advanced.
    pub(crate) fn time(&self) -> Timestamp {
        lock(&self.state).reckoning.time
    }

    /// The latest time by which records were purged.
    pub(crate) fn purged(&self) -> Timestamp {
        lock(&self.state).purged
    }

    /// Advances the clock and returns its time.
    pub(crate) fn advance(&self, clock: &dyn Clock) -> RetentionTime {
        let mut state = lock(&self.state);
        // Read under the lock, so that readings come in order: an older one would look like a jump
        // back.
        let wall = clock.now();
        state.reckoning.advance(wall, clock.elapsed());
        RetentionTime { time: state.reckoning.time, wall }
    }

    /// Makes sure, before retention begins, that the clock was written lately, and waits until that
    /// is durable.
    pub(crate) fn write_before_use(&self, store: &Store) -> Result<(), EngineError> {
        if let Some(position) = self.write_if_due(store)? {
            store.durable(position).wait()?;
        }
        Ok(())
    }

    /// Writes the clock, if it was not written for a while. Blocks this thread: not for async code.
    pub(crate) fn write_if_due(&self, store: &Store) -> Result<Option<Position>, SubmitError> {
        let is_due = {
            let state = lock(&self.state);
            let time = state.reckoning.time;
            state.written.is_none_or(|at| time.saturating_since(at) >= WRITE_INTERVAL)
        };
        if !is_due {
            return Ok(None);
        }
        self.submit_purge(store, Timestamp::EPOCH, Batch::in_slots(Slot::SERVER)).map(Some)
    }

    /// Submits a batch that purges records by this time, and the clock with it: a process that
    /// finds the records gone finds the time by which they went. Blocks this thread: not for async
    /// code.
    pub(crate) fn submit_purge(
        &self,
        store: &Store,
        by: Timestamp,
        mut batch: Batch,
    ) -> Result<Position, SubmitError> {
        let _one = self.writing.blocking_lock();
        let row = {
            let mut state = lock(&self.state);
            // Before the records are deleted: a request that finds no record judges its id by this
            // time.
            state.purged = state.purged.max(by);
            state.row()
        };
        batch.touch(Slot::SERVER);
        rows::put(&mut batch, &row);
        let position = store.submit_blocking(batch)?;
        lock(&self.state).written = Some(row.time);
        Ok(position)
    }

    /// Sets the clock to the wall clock, ahead or back, because an operator says that the wall
    /// clock is right. `fill` is given the time before and the new time, and makes the batch that
    /// the row is added to.
    pub(crate) async fn confirm(
        &self,
        store: &Store,
        clock: &dyn Clock,
        fill: impl FnOnce(Timestamp, Timestamp) -> Result<Batch, ControlError>,
    ) -> Result<Position, ControlError> {
        let _one = self.writing.lock().await;
        let RetentionTime { time: before, wall } = self.advance(clock);
        let mut batch = fill(before, wall)?;
        let row = Row { time: wall, ..lock(&self.state).row() };
        rows::put(&mut batch, &row);
        // There is no await between the acceptance and the change in memory: a caller that goes
        // away cannot leave one without the other.
        let position = store.submit(batch).await.map_err(EngineError::from)?;
        let mut state = lock(&self.state);
        state.reckoning.time = wall;
        state.written = Some(wall);
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;
    const DAY: u64 = 24 * HOUR;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros).unwrap()
    }

    /// A clock at day 100, like the wall clock.
    fn reckoning() -> ClockReading {
        let (day, elapsed) = (at(100 * DAY), Micros::ZERO);
        ClockReading { time: day, wall: day, elapsed, credit: JUMP_MAX }
    }

    /// Each step: what the wall clock and the elapsed time say, and what the retention clock says
    /// then.
    #[test]
    fn it_follows_the_wall_clock_as_far_as_time_passes() {
        type Steps = &'static [(u64, u64, u64)];
        const fn day(days: u64) -> u64 {
            days * DAY
        }
        const CASES: [(&str, Steps); 7] = [
            ("time passes", &[(day(101), day(1), day(101)), (day(130), day(30), day(130))]),
            ("a jump of an hour", &[(day(100) + HOUR, 0, day(100) + HOUR)]),
            (
                "a jump of a year is believed for a day, once, and then time passes",
                &[(day(465), 0, day(101)), (day(465), 0, day(101)), (day(467), day(2), day(103))],
            ),
            (
                "small jumps add up to a day at most",
                &[
                    (day(100) + 20 * HOUR, 0, day(100) + 20 * HOUR),
                    (day(100) + 40 * HOUR, 0, day(101)),
                    (day(100) + 60 * HOUR, 0, day(101)),
                ],
            ),
            (
                "set back, it waits; when the wall clock is there again, it goes on",
                &[
                    (day(90), 0, day(100)),
                    (day(95), day(5), day(100)),
                    (day(101), day(11), day(101)),
                ],
            ),
            (
                "set back and corrected: no jump is used up by that",
                &[(day(10), 0, day(100)), (day(100), 0, day(100)), (day(101), 0, day(101))],
            ),
            (
                "a jump that is corrected leaves it a day ahead, and it waits for that day",
                &[
                    (day(465), 0, day(101)),
                    (day(100), 0, day(101)),
                    (day(101), day(1), day(101)),
                    (day(102), day(2), day(102)),
                ],
            ),
        ];
        for (what, steps) in CASES {
            let mut reckoning = reckoning();
            for (wall, elapsed, expected) in steps {
                reckoning.advance(at(*wall), Micros::new(*elapsed));
                assert_eq!(reckoning.time, at(*expected), "{what}: {wall} {elapsed}");
            }
        }
    }

    /// Whatever the wall clock does, the retention clock never goes back, and is ahead of the time
    /// that has passed by a day at most.
    #[test]
    fn it_never_gains_more_than_a_day() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut reckoning = reckoning();
            let mut elapsed = 0;
            for _ in 0..100 {
                let before = reckoning.time;
                elapsed += random(3 * HOUR);
                let wall = if random(3) == 0 { random(400 * DAY) } else { 100 * DAY + elapsed };
                reckoning.advance(at(wall), Micros::new(elapsed));
                assert!(reckoning.time >= before);
                assert!(reckoning.time <= at(100 * DAY + elapsed + DAY));
            }
        }
    }
}
