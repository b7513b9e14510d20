//! Deleting what is past its time (C-3), and the clock that decides.

use indelible_execution::audit_entry;
use indelible_execution::keys::{self, KeyedReply as _, RequestParts};
use indelible_journal::{Micros, Timestamp};
use indelible_operations::retention::AHEAD_MAX;
use indelible_records::audit as audit_rows;
use indelible_records::audit::AuditSubject;
use indelible_records::idempotency_keys::{Answer, SERVER};
use indelible_records::retention::{Retention, SweepError, SweepReport, sweep_keeping};
use indelible_slots::Slot;
use indelible_store::Batch;

use super::control::{KeyLookup, other_kind};
use super::{ControlError, Engine, EngineError, PersonDecision, Receipt};
use crate::retention;
use crate::retention_clock::RetentionTime;
use crate::run_queue::Flow;

/// How much the time that an operator confirms and the wall clock may differ: as much as right
/// clocks do.
const CONFIRMED_DIFFERENCE_MAX: Micros = AHEAD_MAX;

impl Engine {
    /// From now on, deletes what is past its time: finished trees as `retention` says, and records
    /// of operations and keys a day after the end of their window
    /// ([`Options::operation_window`](crate::Options::operation_window)). This is done in the
    /// background, in small steps, until the engine stops; what cannot be read or written is
    /// reported, and tried again. The time is that of the retention clock
    /// ([`Engine::retention_time`]).
    ///
    /// Writes that clock, if it was not written for a while, and waits for the disk: not for async
    /// code.
    ///
    /// While the engine is [on hold](Engine::hold) nothing is deleted: the next round does it.
    ///
    /// A caller that repeats a request whose tree is gone is told its outcome, as long as its
    /// operation is remembered.
    pub fn retain(&mut self, retention: Retention) -> std::io::Result<()> {
        // One at a time: the earlier one ends first.
        self.retention = None;
        // Must come before any request is accepted: a clock without a row starts at the newest
        // audit entry, which must not be one made under a wrong wall clock.
        self.shared
            .retention_clock
            .write_before_use(&self.shared.store)
            .map_err(std::io::Error::other)?;
        self.retention = Some(retention::start(&self.shared, retention)?);
        Ok(())
    }

    /// Waits, on this thread, until the background has looked so many times for rows to delete.
    pub fn wait_for_retention(&self, rounds: u64) {
        if let Some(background) = &self.retention {
            background.wait_for_rounds(rounds);
        }
    }

    /// Makes one step of that now: up to so many rows of finished trees.
    pub async fn sweep(
        &self,
        retention: &Retention,
        rows_max: usize,
    ) -> Result<SweepReport, SweepError> {
        let (store, now) = (&self.shared.store, self.shared.retention_time().time);
        sweep_keeping(store, now, retention, rows_max, &retention::keep).await
    }

    /// The retention clock, beside the wall clock. The retention clock follows the wall clock, but
    /// does not follow a jump of more than a day: what would be due after such a jump is kept until
    /// as much time has passed, or until [`Engine::confirm_clock`]. A confirmed time is durable
    /// when it is shown.
    pub async fn retention_time(&self) -> Result<RetentionTime, EngineError> {
        let now = self.shared.retention_time();
        self.durable_now().await?;
        Ok(now)
    }

    /// Sets the retention clock to the wall clock, ahead or back, because an operator says that the
    /// wall clock is right. `time` is what the operator's own clock says: if the wall clock differs
    /// by more than ten minutes, one of the two is wrong, and nothing changes. What is due by the
    /// wall clock is deleted from then on.
    pub async fn confirm_clock(
        &self,
        time: Timestamp,
        decided: PersonDecision,
    ) -> Result<Receipt<()>, ControlError> {
        let PersonDecision { actor, reason, key } = decided;
        let _room = self.shared.room(Flow::CONTROL).await?;
        // The hash leaves out the time: a repetition is later than the first request.
        let hash = |key| (key, RequestParts::new("confirm clock").text(&reason).hash());
        let under = match self.under(key.map(hash), SERVER).await? {
            KeyLookup::Nothing(under) => under,
            KeyLookup::Mismatch => return Err(ControlError::Mismatch),
            KeyLookup::Answer(answer, key) => {
                <()>::from_answer(answer).ok_or_else(|| other_kind(&key))?;
                return Ok(Receipt { value: (), prior: true });
            }
        };
        let under = self.note(under).await?;
        let shared = &self.shared;
        let fill = |before: Timestamp, wall: Timestamp| {
            let differ = wall.saturating_since(time).max(time.saturating_since(wall));
            if differ > CONFIRMED_DIFFERENCE_MAX {
                return Err(ControlError::ClocksDiffer { time, wall });
            }
            let mut batch = Batch::in_slots(Slot::SERVER);
            let subject = format!("retention-clock {before}");
            let about = AuditSubject::Subject(subject);
            let entry = audit_entry(&**shared, wall, &actor, about, "confirm clock", &reason);
            audit_rows::put(&mut batch, &entry);
            if let Some((under, _)) = &under {
                let change = keys::done(shared.context().expires_at(None), under, Answer::Done);
                batch.touch(change.id.slot());
                change.put(&mut batch);
            }
            Ok(batch)
        };
        let clock = shared.clock.as_ref();
        let confirmed = shared.retention_clock.confirm(&shared.store, clock, fill).await;
        if let Err(ControlError::ClocksDiffer { .. }) = &confirmed {
            self.forget(under.as_ref().map(|(under, _)| under)).await?;
        }
        let position = confirmed?;
        drop(under);
        shared.store.durable(position).await.map_err(EngineError::from)?;
        Ok(Receipt { value: (), prior: false })
    }
}
