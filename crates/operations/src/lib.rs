//! Operations and retry (V): how a repeated request is answered, and what follows an attempt that
//! failed.
//!
//! The crate is pure: it knows no clock, no I/O, no async, no storage and no randomness. The caller
//! passes in what is known and one thing that happened, and gets back what follows.
//!
//! - [`id`]: operation ids, where each is unique, and what time it carries.
//! - [`binding`]: what an id stands for.
//! - [`state`]: the states of an operation, and the table of what happens to it.
//! - [`retention`]: how long it is remembered, and what an id without a record means.
//! - [`effect`]: what follows an attempt at an effect of a workflow that has ended.
//!
//! # A request that is sent twice
//!
//! ```
//! use indelible_journal::{Micros, Payload, RetryClass, Timestamp};
//! use indelible_operations::retention::{AHEAD_MAX, Age, Retention};
//! use indelible_operations::state::{self, Attempt, Decision, Input, Meaning, Refusal};
//! use indelible_operations::{Binding, id};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let day = Micros::from_secs(24 * 3600);
//! let retention = Retention::new(Micros::from_secs(7 * 24 * 3600), day, AHEAD_MAX)?;
//! let now: Timestamp = "2026-01-01T00:00:00Z".parse()?; // time is a value here, never a clock
//! let id = id::mint(now, &[7; 10], None);
//!
//! // The client asks. The id has no record, and it is young: the operation starts.
//! let attempt = |arguments: &'static str| Attempt {
//!     class: RetryClass::PERSIST,
//!     binding: Binding::of("order", &Payload::json(arguments)),
//!     age: retention.age(&id, now),
//! };
//! let step = state::attempt::<&str>(None, &attempt("1"))?;
//! assert_eq!(step.decision, Decision::Start);
//! let live = step.put.expect("it is on record now");
//!
//! // The client asks again, and attaches. Another request under the same id is a conflict.
//! assert_eq!(state::attempt(Some(&live), &attempt("1"))?.decision, Decision::Attach);
//! let other = state::attempt(Some(&live), &attempt("2"))?.decision;
//! assert_eq!(other, Decision::Refuse(Refusal::Conflict));
//!
//! // The handler returns. Every later attempt gets the same outcome.
//! let step = state::apply(Some(&live), Input::Returned(live.run, "done"))?;
//! assert_eq!(step.decision, Meaning::Sealed);
//! let sealed = step.put.expect("it has changed");
//! assert_eq!(state::attempt(Some(&sealed), &attempt("1"))?.decision, Decision::Replay("done"));
//!
//! // When the record may go, the id has become too old to be new.
//! let gone = retention.until(&sealed, id::created_at(&id), now).expect("it is over");
//! assert_eq!(retention.age(&id, gone), Age::Expired);
//! # Ok(())
//! # }
//! ```

pub mod binding;
pub mod effect;
pub mod id;
pub mod retention;
pub mod state;

pub use binding::Binding;
