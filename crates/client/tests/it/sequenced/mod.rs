//! The writer that keeps its number in a file.
#![allow(clippy::disallowed_methods, reason = "tests look at files, and break them")]

mod answers;
mod files;
mod house;
mod killed;
