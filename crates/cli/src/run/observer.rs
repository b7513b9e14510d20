//! What guests log, and what the engine has to say, on stderr: a line each.

use std::io::{self, Write as _};

use indelible_journal::{Failure, JournalKey};
use indelible_runtime::UnresolvedEffect;
use indelible_runtime::world::{Level, LogLine, Observer, Then};

/// Writes lines to stderr.
pub(crate) struct Lines;

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
        tell(&format!(
            "      say how it ended: indelible resolve {promise}, if nothing runs here,"
        ));
        tell(&format!("      or ask the server: POST /v1/unresolved/{promise}/resolve"));
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

/// Several lines, each plain: the frames of a trap stand below each other.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// A guest's text must not move somebody's cursor.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}
