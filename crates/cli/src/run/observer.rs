//! What guests log, and what the engine has to say, on stderr: a line each.

use std::io::{self, Write as _};
use std::path::PathBuf;

use indelible_journal::{Failure, JournalKey};
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{Level, LogLine, Observer, Then};

use crate::print::plain;

/// Writes lines to stderr.
#[derive(Default)]
pub(crate) struct Lines {
    /// The data folder, where no server is there to be asked.
    pub(crate) data: Option<PathBuf>,
}

impl Observer for Lines {
    fn logged(&self, line: LogLine<'_>) {
        let level = match line.level {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        let fields: String =
            line.fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        tell(&format!("{level:5} {:#}  {}{fields}", line.key, line.message));
    }

    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: Then) {
        let then = match then {
            Then::Again(wait) => format!("again in {wait}"),
            Then::Over(why) => format!("not tried again: {why}"),
        };
        let first = failure.message.lines().next().unwrap_or_default();
        tell(&format!("retry {key:#}  {}: {first}; {then}", failure.kind));
    }

    fn held(&self, key: &JournalKey, why: &str) {
        tell(&format!("held  {key:#}  {why}"));
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        let UnresolvedEffect { promise, label, why, .. } = effect;
        tell(&format!("waits {label}: nobody knows whether it happened: {why}"));
        tell("      look at the other side, then say how it ended:");
        let place = match &self.data {
            Some(data) => format!(" --data {}, when this has stopped", data.display()),
            None => String::new(),
        };
        let how = "happened|did-not-happen|run-again --reason TEXT";
        tell(&format!("      indelible resolve {promise} {how}{place}"));
    }

    fn trouble(&self, what: &str) {
        tell(&format!("error {what}"));
    }
}

/// One line, whatever is in it.
fn tell(text: &str) {
    // Nobody is left to tell if stderr is closed.
    _ = writeln!(io::stderr(), "{}", plain(text));
}
