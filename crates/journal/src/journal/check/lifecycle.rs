//! Start, end and cancelling (J-35 to J-38).

use super::{Check, Guest, refuse, require};
use crate::event::Started;
use crate::ids::RootHash;
use crate::journal::Journal;
use crate::status::Status;

impl Journal {
    /// J-35: the first event agrees with the journal's key (C-32), and a root's hash is made of its
    /// fields (J-1, C-31).
    pub(super) fn check_started(&self, started: &Started) -> Check {
        let execution = self.key.execution_id();
        require!(
            started.attempts == *self.key.attempts(),
            C32,
            "its attempts are {}, but those of the journal's key are {}",
            started.attempts,
            self.key.attempts()
        );
        if execution.is_root() {
            let Some(operation) = &started.idempotency_key else {
                refuse!(J1, "a root must have a namespace and an operation id");
            };
            let root =
                RootHash::derive(&started.component_digest, started.parent_id.as_ref(), operation);
            require!(
                root == *execution.root(),
                J1,
                "its namespace and operation id give the root {root:#}, not {:#}",
                execution.root()
            );
            return Ok(());
        }
        require!(
            started.parent_id == execution.parent(),
            C32,
            "a child's parent must be its caller, the execution one level up"
        );
        require!(
            started.idempotency_key.is_none() && started.retry_policy.is_none(),
            C32,
            "a child cannot have its own operation id or retry policy: its caller has them"
        );
        Ok(())
    }

    /// J-36 with C-23.
    pub(super) fn check_completed(guest: Guest) -> Check {
        require!(guest == Guest::Active, C23, "a blocked execution cannot complete");
        Ok(())
    }

    /// J-37 with C-22.
    pub(super) fn check_cancel_requested(&self) -> Check {
        require!(
            !matches!(self.status, Some(Status::Cancelling)),
            C22,
            "a cancel was already requested"
        );
        Ok(())
    }

    /// J-38, S-5. A requested cancel leaves the status Cancelling until the end (C-22).
    pub(super) fn check_cancelled(&self) -> Check {
        require!(matches!(self.status, Some(Status::Cancelling)), S5, "no cancel was requested");
        Ok(())
    }
}
