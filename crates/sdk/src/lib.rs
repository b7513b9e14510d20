//! Write durable functions for Indelible in Rust: plain functions
//! that survive crashes.
//!
//! A function is an ordinary Rust function with `#[function]` above it. What it takes and returns
//! crosses as JSON. Everything it asks of the world, calls, time, randomness, signals, goes
//! through this crate, is journaled, and is answered from the journal when the function runs again
//! after a crash; so it goes on where it stopped.
//!
//! ```
//! use indelible_sdk::prelude::*;
//!
//! /// Charges a card.
//! #[function]
//! fn charge(card: String, cents: u64) -> Result<String, Error> {
//!     if cents > 100_000 {
//!         return Err("the limit is 1,000.00".into());
//!     }
//!     Ok(format!("{card}-{cents}"))
//! }
//!
//! /// Charges a card and says thanks a day later.
//! #[function]
//! fn order(card: String, cents: u64) -> Result<String, Error> {
//!     let receipt = charge::call(card, cents).wait()?;
//!     sleep(Duration::from_secs(86_400))?;
//!     Ok(format!("thanks for {receipt}"))
//! }
//!
//! indelible_sdk::guest!(charge, order);
//! # fn main() {}
//! ```
//!
//! Two ways to use a function, and they differ: `charge::call(card, cents)` starts a durable call
//! with a journal of its own and returns a [`Promise`]; `charge(card, cents)` is the ordinary
//! function, run here and now as part of its caller.
//!
//! Functions of other components are declared with [`remote!`], and called in the same way:
//!
//! ```no_run
//! # use indelible_sdk::prelude::*;
//! remote! {
//!     /// Charges a card.
//!     fn charge(card: &str, cents: u64) -> Result<String, String> as "payments/charge";
//! }
//! # fn demo() -> Result<(), Error> {
//! let receipt = charge::call("card 1", 500).wait()?;
//! # Ok(()) }
//! ```
//!
//! Requests to the outside are effects of a workflow: each is sent once, or the workflow is told
//! that its outcome is unknown. See [`http`].
//!
//! ```no_run
//! # use indelible_sdk::prelude::*;
//! # fn demo(order: u64) -> Result<(), Error> {
//! let charged = http::post("https://payments.example.com/charges")
//!     .bearer("PAYMENTS_KEY")
//!     .json(&order)
//!     .send()
//!     .wait()?;
//! assert_eq!(charged.status, 201);
//! # Ok(()) }
//! ```
//!
//! With the feature `test-host`, for tests, a function runs in the test's own process: see `testing`.
//!
//! A guest has no threads, files, network, clock or environment. What of std would need them
//! panics; [`now()`], [`random()`] and [`sleep()`] are there instead.

#[cfg(target_arch = "wasm32")]
mod alloc;
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::cloned_instead_of_copied,
    clippy::explicit_iter_loop,
    clippy::match_same_arms,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated"
)]
#[doc(hidden)]
pub mod bindings;
mod context;
mod error;
mod function;
mod host;
pub mod http;
mod join_set;
mod label;
mod log;
mod payload;
mod promise;
mod random;
mod rt;
mod schema;
mod select;
mod several;
mod signal;
#[cfg(all(feature = "test-host", not(target_family = "wasm")))]
pub mod testing;
mod time;

pub use indelible_sdk_macros::{function, remote};
pub use schemars::{self, JsonSchema};

pub use crate::context::{Context, context};
pub use crate::error::{Error, ErrorKind, Failure, IntoFailure};
pub use crate::join_set::{JoinSet, join_set};
pub use crate::label::label;
pub use crate::log::{Level, log};
pub use crate::payload::{Decode, Encode, Payload};
pub use crate::promise::{Promise, call_remote};
pub use crate::random::{Random, random, random_uuid};
pub use crate::several::{Settled, race, settle_all, wait_all};
pub use crate::signal::{Signal, signal};
pub use crate::time::{Timestamp, now, sleep, timer};

/// Everything that a function usually needs.
pub mod prelude {
    pub use std::time::Duration;

    /// The crate itself too: what `#[derive(JsonSchema)]` makes names it.
    pub use schemars::{self, JsonSchema};
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Error, ErrorKind, Failure, JoinSet, Promise, Signal, Timestamp, call_remote, context,
        debug, error, function, http, info, join_set, label, now, race, random, random_uuid,
        remote, select, settle_all, signal, sleep, timer, trace, wait_all, warn,
    };
}

/// For what the macros make of a guest; not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::function::{
        Definition, Fallible, Function, Listed, arguments, describe, outcome, run,
    };
    pub use crate::promise::call_own;
    pub use crate::schema::{NoSchemas, SchemasOf};
    pub use crate::select::{Either, first};
}
