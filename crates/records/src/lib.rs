//! Every table, each with the one place where its keys and values are made and read, and what
//! goes over all of them: checks, retention, backups. Bytes are described in
//! `docs/formats/store-rows.md`.

pub mod audit;
pub mod backup;
pub mod beginning;
pub mod check;
pub(crate) mod codec;
mod component_name;
pub mod component_versions;
pub mod executions;
pub(crate) mod index;
pub mod journals;
pub(crate) mod keys;
pub mod listing;
pub mod manifests;
mod plain;
pub mod queue;
pub mod retention;
pub mod retention_clock;
mod room;
pub mod timers;
pub mod tokens;
pub mod unresolved;
pub mod windows;

pub use self::component_name::{COMPONENT_NAME_BYTES_MAX, ComponentName, ComponentNameError};
pub use self::plain::{components, settings};
pub use self::room::Room;
use indelible_store::{Shape, Table};

/// Components, by digest.
pub const COMPONENTS: Table = Table::new(1, "components", Shape::Large);
/// What an execution is and how it stands, by journal key.
pub const EXECUTIONS: Table = Table::new(2, "executions", Shape::Churn);
/// The events of executions, by journal key and the number of the first event in the row.
pub const JOURNALS: Table = Table::new(3, "journals", Shape::Kept);
/// What is to be run.
pub const QUEUE: Table = Table::new(4, "queue", Shape::Churn);
/// What is to happen when, by time.
pub const TIMERS: Table = Table::new(5, "timers", Shape::Churn);
/// Operations, by namespace and id.
pub const OPERATIONS: Table = Table::new(6, "operations", Shape::Sought);
/// Idempotency keys, by namespace and key.
pub const IDEMPOTENCY_KEYS: Table = Table::new(7, "idempotency_keys", Shape::Sought);
/// Who did what, by time.
pub const AUDIT: Table = Table::new(8, "audit", Shape::Kept);
/// Settings of the server, by name.
pub const SETTINGS: Table = Table::new(9, "settings", Shape::Kept);
/// Index: executions by status, newest first.
pub const BY_STATUS: Table = Table::new(10, "executions_by_status", Shape::Churn);
/// Index: executions by function and status, newest first.
pub const BY_FUNCTION: Table = Table::new(11, "executions_by_function", Shape::Churn);
/// Index: finished trees by status, oldest first: what retention looks at.
pub const FINISHED: Table = Table::new(12, "finished_trees", Shape::Churn);
/// Index: records that go by a window of their own, the next to go first.
pub const EXPIRIES: Table = Table::new(13, "expiries", Shape::Churn);
/// Effects of which nobody knows whether they happened, by journal key and child.
pub const UNRESOLVED: Table = Table::new(14, "unresolved_effects", Shape::Churn);

/// Index: roots by namespace and status, newest first.
pub const BY_NAMESPACE: Table = Table::new(15, "executions_by_namespace", Shape::Churn);

/// All of them. Rooms that come later add theirs behind these.
pub const TABLES: [Table; 15] = [
    COMPONENTS,
    EXECUTIONS,
    JOURNALS,
    QUEUE,
    TIMERS,
    OPERATIONS,
    IDEMPOTENCY_KEYS,
    AUDIT,
    SETTINGS,
    BY_STATUS,
    BY_FUNCTION,
    FINISHED,
    EXPIRIES,
    UNRESOLVED,
    BY_NAMESPACE,
];
