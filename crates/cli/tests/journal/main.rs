//! `indelible journal`, run as a user runs it: the real binary, files and pipes.

#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod journals;
mod run;
mod script;
mod show;
mod verify;
