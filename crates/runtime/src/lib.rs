//! The engine: runs users' functions, WebAssembly components, so that every step is journaled.

pub mod guest;
