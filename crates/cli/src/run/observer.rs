//! Logs of guests and messages of the engine, on stderr, a line each.

use std::io::{self, Write as _};
use std::path::PathBuf;

use indelible_journal::{Failure, JournalKey};
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{AfterFailure, Level, LogLine, Observer, Severity, Trouble};

use crate::print::plain;
use crate::text::one_line;

/// Writes lines to stderr.
pub(crate) struct Lines {
    /// The data folder, for hints: there is no server to ask.
    pub(crate) data: PathBuf,
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

    fn attempt_failed(&self, key: &JournalKey, failure: &Failure, then: AfterFailure) {
        let then = match then {
            AfterFailure::Again(wait) => format!("retrying in {wait}"),
            AfterFailure::Over(why) => format!("not retried: {why}"),
        };
        let first = failure.message.lines().next().unwrap_or_default();
        tell(&format!("retry {key:#}  {}: {first}; {then}", failure.kind));
    }

    fn stuck(&self, key: &JournalKey, why: &str) {
        tell(&format!("stuck {key:#}  {why}"));
    }

    fn unresolved(&self, effect: &UnresolvedEffect) {
        let UnresolvedEffect { promise, label, why, .. } = effect;
        if !effect.is_held() {
            return tell(&format!("unknown {label}: {why}"));
        }
        tell(&format!("waits {label}: its outcome is unknown: {why}"));
        tell("      check the other service, then record how it ended:");
        let place = format!(" --data {}, when this has stopped", self.data.display());
        let how = "happened|did-not-happen|run-again|accept-unknown --reason TEXT";
        tell(&format!("      indelible resolve {promise} {how}{place}"));
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        let level = match trouble.severity {
            Severity::Warning => "warn ",
            Severity::Error => "error",
        };
        tell(&format!("{level} {trouble}"));
    }
}

/// Writes one line, whatever the text has in it.
fn tell(text: &str) {
    // If stderr is closed there is no other place to say so.
    _ = writeln!(io::stderr(), "{}", plain(&one_line(text)));
}
