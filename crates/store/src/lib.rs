//! How everything durable in Indelible is kept.
//!
//! A [`Store`] is one commit pipeline over a [`Backend`](backend::Backend). Batches of writes, under
//! preconditions, are accepted in memory and become durable in order; reads see what is accepted
//! and say at which position. The rule for callers is output commit (D2): before anything leaves
//! the process, the position it depends on is durable.

pub mod backend;
mod batch;
mod bounds;
mod damage;
pub mod embedded;
mod error;
pub mod memory;
mod pipeline;
mod position;
mod table;

pub use backend::{Direction, KeyRange};
pub use batch::{Batch, Condition, Expect, Write};
pub use bounds::{Bound, Bounds, OutOfBounds};
pub use damage::{DamageLog, PLACES_MAX};
pub use error::{Lost, Poison, ReadError, Refusal, SubmitError};
pub use pipeline::{
    Durable, Page, Pause, PauseTime, Read, Readings, Row, Scan, Snapshot, StartError, Store,
    prefix_range,
};
pub use position::{Position, Seen, Sequence};
pub use table::{PIPELINE, Shape, TABLES_MAX, Table, TableError};
