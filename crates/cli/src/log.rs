//! The server's log: which lines are written to stderr, and how. A line is an event of `tracing`,
//! with a time, a level, a target, the surrounding spans and fields.
//!
//! Only this project's own events are written. Events of libraries may contain anything: at the
//! level `trace`, headers and parts of bodies.

use std::io::{self, Write};

use indelible_runtime::world::{Clock as _, System};
use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::print::plain;

/// The prefix of every target.
const OWN: &str = "indelible";

/// The crates that log: the first parts of targets.
const CRATES: [&str; 5] =
    [OWN, "indelible_http_client", "indelible_runtime", "indelible_server", "indelible_store"];

/// Which lines are written: a level, and other levels for some targets.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Filter {
    text: String,
    targets: Targets,
}

impl TryFrom<String> for Filter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let given = text.parse::<Targets>().map_err(|_| "it is not a log filter")?;
        // A misspelt level would pass for a target.
        let is_known =
            |target: &str| CRATES.contains(&target.split("::").next().unwrap_or_default());
        if text.contains('[') || given.iter().any(|(target, _)| !is_known(target)) {
            return Err("it names an unknown target");
        }
        // Other targets keep the default level: errors are written unless turned off.
        let level = given.default_level().unwrap_or(LevelFilter::INFO);
        let targets = Targets::new().with_target(OWN, level).with_targets(given.iter());
        Ok(Self { text, targets })
    }
}

impl From<Filter> for String {
    fn from(filter: Filter) -> Self {
        filter.text
    }
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    Text,
    Json,
}

/// Starts writing events to stderr; has an effect once per process.
pub(crate) fn start(filter: Filter, format: Format) {
    let layer = tracing_subscriber::fmt::layer().with_timer(Now).log_internal_errors(false);
    let lines = tracing_subscriber::registry().with(filter.targets);
    // This fails if a log was started before, which then stays.
    _ = match format {
        Format::Text => lines.with(layer.with_writer(|| Text)).try_init(),
        Format::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(false);
            lines.with(layer.with_writer(|| Json)).try_init()
        }
    };
}

/// A warning: a line of the log, or on stderr for a command without a log.
pub(crate) fn warn(text: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(target: "indelible::serve", "{text}");
    } else {
        write(format!("warning: {text}\n").as_bytes());
    }
}

/// The time in UTC, as RFC 3339.
struct Now;

impl FormatTime for Now {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{}", System.now())
    }
}

/// Writes a whole line at a time. Functions can put text into it, so it is made one line that
/// cannot move the cursor.
struct Text;

impl Write for Text {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        write(format!("{}\n", plain(text.trim_end_matches('\n'))).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same for lines of JSON, which escapes control characters by itself.
struct Json;

impl Write for Json {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(line: &[u8]) {
    // If stderr is closed there is no other place to say so.
    _ = io::stderr().write_all(line);
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    /// A filter passes the events that it names, none of libraries; an invalid one is refused.
    #[test]
    fn filters() {
        let lets = |text: &str, target: &str, level: &Level| {
            Filter::try_from(text.to_owned()).unwrap().targets.would_enable(target, level)
        };
        assert!(lets("info", "indelible_runtime::turn", &Level::INFO));
        assert!(!lets("info", "indelible_runtime::turn", &Level::DEBUG));
        assert!(!lets("trace", "hyper::proto", &Level::ERROR));
        let one = "indelible_store=debug";
        assert!(lets(one, "indelible_store::pipeline", &Level::DEBUG));
        assert!(lets(one, "indelible_runtime::turn", &Level::INFO));
        assert!(!lets(one, "indelible_runtime::turn", &Level::DEBUG));
        assert!(!lets("off", "indelible_runtime::turn", &Level::ERROR));
        assert!(!lets("info,indelible::function=off", "indelible::function", &Level::ERROR));
        for none in
            ["inof", "loud=debug", "indelible_store=loud", "hyper=trace", "indelible[a]=info"]
        {
            assert!(Filter::try_from(none.to_owned()).is_err(), "{none}");
        }
    }
}
