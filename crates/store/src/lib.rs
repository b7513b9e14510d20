//! How everything durable in Indelible is kept.
//!
//! A [`Store`] is one commit pipeline over a [`Backend`](backend::Backend). Batches of writes, under
//! preconditions, are accepted in memory and become durable in order; reads see what is accepted
//! and say at which position. The rule for callers is output commit (D2): before anything leaves
//! the process, the position it depends on is durable.
//!
//! Without the feature `pipeline` there is only the vocabulary: tables, batches, positions, and what
//! can be read from. That is all that machines know of a store.
#![cfg_attr(not(feature = "pipeline"), allow(dead_code, reason = "the pipeline uses it"))]

pub mod backend;
mod batch;
mod bounds;
mod damage;
#[cfg(feature = "pipeline")]
pub mod embedded;
mod error;
#[cfg(feature = "pipeline")]
pub mod memory;
#[cfg(feature = "pipeline")]
mod pipeline;
mod position;
mod read;
mod table;

pub use backend::{Direction, KeyRange};
pub use batch::{Batch, Condition, Expect, Write};
pub use bounds::{Bound, Bounds, OutOfBounds};
pub use damage::{DamageLog, PLACES_MAX};
pub use error::{Lost, Pause, Poison, ReadError, Refusal, SubmitError};
#[cfg(feature = "pipeline")]
pub use pipeline::{Durable, PauseTime, Readings, Snapshot, StartError, Store};
pub use position::{Position, Seen, Sequence};
pub use read::{Page, Read, Row, Scan, prefix_range};
pub use table::{PIPELINE, Shape, TABLES_MAX, Table, TableError};
