//! The hold: what waits for an operator, and the operator who lets it go on.

use indelible_execution::{Actor, audit_entry};
use indelible_journal::Timestamp;
use indelible_records::audit as audit_rows;
use indelible_records::audit::AuditSubject;
use indelible_records::hold::{self as rows, Restored};
use indelible_slots::Slot;
use indelible_store::Batch;
use tracing::info;

use super::{Engine, EngineError};
use crate::hold::Hold;

/// What lifting the hold came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiftOutcome {
    /// The engine goes on.
    Lifted,
    /// It was not on hold, and not closed to unknown names: nothing has changed.
    NotOnHold,
}

impl Engine {
    /// Why the engine is on hold. None: it is not.
    pub fn hold(&self) -> Option<Hold> {
        self.shared.hold.why()
    }

    /// Until when keys and operation ids are refused that the store does not know, because it was
    /// restored (C-48). None: they are taken, as far as the [hold](Engine::hold) lets them.
    pub fn closed_until(&self) -> Option<Timestamp> {
        self.shared.hold.closed_until(|| self.shared.retention_time().time)
    }

    /// What the store was restored from, if that waits for an operator.
    pub fn restored(&self) -> Option<Restored> {
        self.shared.hold.liftable(|| self.shared.retention_time().time)?.restored
    }

    /// Lifts the hold: everything that is stored goes on, and names that the store does not know are
    /// taken again (impl C-48). The audit entry and the end of the store's own hold are one commit,
    /// and durable before anything goes on. An engine that was opened
    /// [on hold](crate::Opening::OnHold) goes on until it is closed.
    ///
    /// If the caller leaves before this returns, the commit may be made and the engine still be on
    /// hold: asking again lets it go on, and so does opening it again.
    pub async fn lift_hold(&self, actor: &Actor, reason: &str) -> Result<LiftOutcome, EngineError> {
        let shared = &self.shared;
        let _one = shared.hold.lifting.lock().await;
        let Some(hold) = shared.hold.liftable(|| shared.retention_time().time) else {
            return Ok(LiftOutcome::NotOnHold);
        };
        let mut batch = Batch::in_slots(Slot::SERVER);
        let about = AuditSubject::Subject(format!("hold: {hold}"));
        let now = shared.clock.now();
        let entry = audit_entry(&**shared, now, actor, about, "lift hold", reason);
        audit_rows::put(&mut batch, &entry);
        if hold.restored.is_some() {
            rows::delete(&mut batch);
        }
        self.submit_durably(batch).await?;
        shared.go_on();
        info!("hold lifted; stored work goes on, and unknown keys and ids are taken");
        Ok(LiftOutcome::Lifted)
    }
}
