//! Every table, each with the one module that makes and reads its keys and values, and what works
//! on all of them: checks, retention, backups. `docs/formats/store-rows.md` describes the bytes.
#![cfg_attr(
    not(feature = "store"),
    allow(dead_code, unused_imports, reason = "what goes over all tables uses it")
)]

pub mod audit;
#[cfg(feature = "store")]
pub mod backup;
#[cfg(feature = "store")]
pub mod beginning;
#[cfg(feature = "store")]
pub mod check;
pub(crate) mod codec;
mod component_name;
pub mod component_versions;
pub mod cursor_key;
#[cfg(feature = "store")]
pub mod delivery;
pub mod doubts;
pub mod executions;
pub mod hold;
pub mod idempotency_keys;
pub(crate) mod index;
pub mod journals;
pub(crate) mod keys;
pub mod labels;
#[cfg(feature = "store")]
pub mod ledger;
#[cfg(feature = "store")]
pub mod listing;
pub mod manifests;
pub mod operations;
pub mod outbox;
mod plain;
#[cfg(feature = "store")]
mod purge;
pub mod queue;
pub mod restores;
#[cfg(feature = "store")]
pub mod retention;
pub mod retention_clock;
mod room;
mod slots;
pub mod timers;
pub mod tokens;
pub mod truths;
pub mod windows;

pub use self::component_name::{COMPONENT_NAME_BYTES_MAX, ComponentName, ComponentNameError};
pub use self::plain::{components, settings};
pub use self::room::{BROUGHT_MIN, DELIVERY_ROOM, LEDGER_ROOM, Room, RoomKey};
use indelible_slots::Slot;
use indelible_store::{Shape, Table};

/// Components, by digest.
pub const COMPONENTS: Table = Table::new(1, "components", Shape::Large);
/// What an execution is and how it stands, by journal key.
pub const EXECUTIONS: Table = Table::new(2, "executions", Shape::Churn).with_slots(slots::tree);
/// The entries of executions, by journal key and the number of the first entry in the row.
pub const JOURNALS: Table = Table::new(3, "journals", Shape::Kept).with_slots(slots::tree);
/// Machines to run, by ticket.
pub const QUEUE: Table = Table::new(4, "queue", Shape::Churn).with_slots(slots::room);
/// Timers, by time.
pub const TIMERS: Table = Table::new(5, "timers", Shape::Churn).with_slots(slots::room);
/// Operations, by namespace and id.
pub const OPERATIONS: Table =
    Table::new(6, "operations", Shape::Sought).with_slots(slots::operation);
/// Idempotency keys, by namespace and key.
pub const IDEMPOTENCY_KEYS: Table =
    Table::new(7, "idempotency_keys", Shape::Sought).with_slots(slots::idempotency_key);
/// Who did what, by time.
pub const AUDIT: Table = Table::new(8, "audit", Shape::Kept).with_slots(slots::behind::<8>);
/// Settings of the server, by name.
pub const SETTINGS: Table = Table::new(9, "settings", Shape::Kept);
/// Index: executions by status, newest first.
pub const BY_STATUS: Table =
    Table::new(10, "executions_by_status", Shape::Churn).with_slots(slots::behind::<10>);
/// Index: executions by function and status, newest first.
pub const BY_FUNCTION: Table =
    Table::new(11, "executions_by_function", Shape::Churn).with_slots(slots::behind_name::<10>);
/// Index: finished trees by status, oldest first, for retention.
pub const FINISHED: Table =
    Table::new(12, "finished_trees", Shape::Churn).with_slots(slots::behind::<9>);
/// Index: records that expire, the next to expire first.
pub const EXPIRIES: Table = Table::new(13, "expiries", Shape::Churn).with_slots(slots::expiry);
/// Effects and lost calls whose outcome is, or was, unknown, by journal key and child.
pub const DOUBTS: Table = Table::new(14, "doubts", Shape::Kept).with_slots(slots::tree);

/// Index: roots by namespace and status, newest first.
pub const BY_NAMESPACE: Table =
    Table::new(15, "executions_by_namespace", Shape::Churn).with_slots(slots::behind_name::<9>);

/// Answers to requests under idempotency keys of other slots, by their target and the key.
pub const ANSWERS: Table = Table::new(16, "answers", Shape::Sought).with_slots(slots::answer);

/// Messages to other slots that are not settled, by channel and number.
pub const OUTBOX: Table = Table::new(17, "outbox", Shape::Churn).with_slots(Slot::at_start_of);
/// Messages from other slots that were applied and are not settled, by channel and number.
pub const APPLIED: Table = Table::new(18, "applied", Shape::Churn).with_slots(Slot::at_start_of);

/// Index: doubts, the open ones before the settled ones, the oldest first.
pub const DOUBTS_BY_TIME: Table =
    Table::new(19, "doubts_by_time", Shape::Churn).with_slots(slots::behind::<9>);
/// Index: roots by namespace and label, newest first.
pub const BY_LABEL: Table =
    Table::new(20, "executions_by_label", Shape::Churn).with_slots(slots::labelled);

/// Vaults and namespaces that are written to by transactions, by name.
pub const LEDGER_SCOPES: Table =
    Table::new(21, "ledger_scopes", Shape::Churn).with_slots(slots::vault);
/// Entities as they are now, by the incarnation of their scope and key.
pub const LEDGER_ENTITIES: Table =
    Table::new(22, "ledger_entities", Shape::Sought).with_slots(slots::incarnation);
/// Entities as they were, by incarnation, key and height.
pub const LEDGER_HISTORY: Table =
    Table::new(23, "ledger_history", Shape::Kept).with_slots(slots::incarnation);
/// Transactions with their proof, by incarnation and height.
pub const LEDGER_LOG: Table =
    Table::new(24, "ledger_log", Shape::Kept).with_slots(slots::incarnation);
/// What transactions came under: clients' streams, sequences, keys, operation ids; by incarnation.
pub const LEDGER_ORIGINS: Table =
    Table::new(25, "ledger_origins", Shape::Sought).with_slots(slots::incarnation);

/// Messages, by id.
pub const MESSAGES: Table = Table::new(26, "messages", Shape::Sought).with_slots(slots::message);
/// Post offices: endpoints, deliveries and what is open of them, by namespace.
pub const DELIVERIES: Table =
    Table::new(27, "deliveries", Shape::Churn).with_slots(slots::namespace);

/// All tables. Later kinds of machines add theirs behind these.
pub const TABLES: [Table; 27] = [
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
    DOUBTS,
    BY_NAMESPACE,
    ANSWERS,
    OUTBOX,
    APPLIED,
    DOUBTS_BY_TIME,
    BY_LABEL,
    LEDGER_SCOPES,
    LEDGER_ENTITIES,
    LEDGER_HISTORY,
    LEDGER_LOG,
    LEDGER_ORIGINS,
    MESSAGES,
    DELIVERIES,
];
