//! Stores: `begin`, then `commit` or fail, on the caller's own connection.
//!
//! The caller owns the transaction (I-14): no call opens, commits or rolls back one. There are two
//! ways to use a store:
//!
//! - **One transaction** around `begin`, the work, and `commit`. The work and its record become
//!   durable together; a crash leaves neither. Take this wherever the work is in the same database.
//! - **Two transactions**, with the work between them, for work that happens elsewhere. Other
//!   transactions then see the row as in flight. Its owner has a lease; if the lease lapses without
//!   a result, it is unknown whether the work was done: [`InFlight::Indeterminate`]. Taking over is
//!   an explicit call ([`RawIdempotencyStore::take_over`]), or automatic for operations that are
//!   declared harmless to do twice ([`OnLapse::Restart`]). An owner that comes late gets
//!   [`StoreError::Superseded`]. The commit of the first transaction must be durable
//!   (`synchronous_commit`), or a crash may take the record of work that was done.
//!
//! [`InFlight::Indeterminate`]: crate::InFlight::Indeterminate

mod client;
mod error;
mod factory;
mod judge;
mod raw;
mod record;
mod settings;
mod typed;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use client::{BeginCall, Begun, Client, ClientError, Ending, OwnerCall, Recorded, Row};
pub use error::{BoxError, ShapeError, StoreError};
pub use factory::IdempotencyStoreFactory;
pub use judge::RawOutcome;
#[cfg(feature = "postgres")]
pub use postgres::{POSTGRES_MIGRATION, PostgresClient, PostgresStoreFactory};
pub use raw::{PURGE_ROWS_MAX, RawIdempotencyStore};
pub use record::{Record, RecordState};
pub use settings::{DURATION_MAX, OnLapse, Settings, SettingsError, TABLE_NAME, TableName};
#[cfg(feature = "sqlite")]
pub use sqlite::{SQLITE_MIGRATION, SqliteClient, SqliteStoreFactory};
pub use typed::{Hashed, IdempotencyStore, Operation};
