//! Operations and retry (V): what a repeated request meets, and what follows an attempt that
//! failed.
//!
//! The crate is pure: it knows no clock, no I/O, no async, no storage and no randomness. Whoever
//! uses it brings what is known and one thing that happened, and is told what follows.
//!
//! - [`effect`]: what follows an attempt at an effect that has ended.

pub mod effect;
