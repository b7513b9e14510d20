//! `Transcript`: what happened in a run, a line for each thing, the same for the same seed.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What happened in a run.
#[derive(Debug, Default)]
pub(crate) struct Transcript(Mutex<String>);

impl Transcript {
    fn text(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line.
    pub(crate) fn say(&self, line: fmt::Arguments<'_>) {
        let mut text = self.text();
        fmt::Write::write_fmt(&mut *text, line).expect("a text takes everything");
        text.push('\n');
    }

    /// All of it.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.text())
    }
}
