//! Indelible as programs meet it: an HTTP API over the engine.
//!
//! It knows the engine and the wire, and neither SQL nor wasmtime.

pub mod traces;
