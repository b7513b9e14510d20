//! `indelible journal`, run as a user runs it: the real binary, files and pipes.

#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod damage;
mod journals;
mod run;
mod script;
mod show;
#[cfg(target_os = "linux")]
mod terminal;
mod timeline;
mod verify;
