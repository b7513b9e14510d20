//! What guests log, and what the engine has to say, on stderr: a line each.

use std::io::{self, Write as _};

use indelible_journal::JournalKey;
use indelible_runtime::world::{Level, LogLine, Observer};

/// Writes lines to stderr.
pub(super) struct Lines;

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

    fn held(&self, key: &JournalKey, why: &str) {
        tell(&format!("held  {key:#}  {why}"));
    }

    fn trouble(&self, what: &str) {
        tell(&format!("error {what}"));
    }
}

/// One line, whatever is in it: a guest's text must not move somebody's cursor.
fn tell(text: &str) {
    let plain: String = text
        .chars()
        .flat_map(|c| {
            let control = c.is_control();
            let escaped = control.then(|| c.escape_default()).into_iter().flatten();
            escaped.chain((!control).then_some(c))
        })
        .collect();
    // Nobody is left to tell if stderr is closed.
    _ = writeln!(io::stderr(), "{plain}");
}
