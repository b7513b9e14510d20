//! `indelible logs`: the log lines of an execution and of everything that it called.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use indelible_client::api::log::{Level, LogLine};
use tokio::time::{sleep, timeout};

use super::connection::{Connection, Remote};
use super::errors::{Explained as _, short};
use super::target::{Target, target};
use crate::failure::{Failure, stop_when_unread};
use crate::print::{self, plain};
use crate::screen::{Screen, Tone};

/// How many lines to request at a time: the most that the server returns.
const PAGE: u32 = 500;

/// How long `--follow` waits before it requests more lines.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

const HELP: &str = "\
EXECUTION is an id or the beginning of one (6 digits or more), or `last` for the newest that you
started from here; append .0.2 to name a descendant.

Each line shows the time, the level, the execution and the message. The server keeps the newest
lines of all executions together, up to 64 MiB, and deletes the oldest. After a crash, the last
lines before it may appear twice.

Examples:
  indelible logs last
  indelible logs 9c4f1a2b --follow
  indelible logs 9c4f1a2b.0 --json | jq -r .message";

/// Show the log lines of an execution and of everything that it called
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Logs {
    /// Which execution
    #[arg(value_parser = target)]
    execution: Target,
    /// Keep printing new lines until the execution ends
    #[arg(long, short)]
    follow: bool,
    /// Print a JSON object for each line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Logs {
    pub(crate) fn run(&self, screen: Screen, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.connection.connect_to_find()?;
        let id = remote.find(&self.execution)?;
        let logs = remote.client.logs(&id).map_err(|error| error.explain(&remote.at))?;
        let mut logs = logs.limit(PAGE);
        // Whether the next read is the last one.
        let mut over = !self.follow;
        loop {
            let page = remote.run(logs.next())?;
            for line in &page.lines {
                let text = if self.json { print::line(line)? } else { text(line, screen) };
                print::part(text, out)?;
            }
            if page.more {
                continue;
            }
            stop_when_unread(out.flush())?;
            if over {
                return Ok(());
            }
            // When the execution has ended, all of its lines are stored: one more read gets them.
            over = is_over(&remote, &id)?;
            if !over && remote.wait(is_reader_gone()) {
                return Ok(());
            }
        }
    }
}

fn is_over(remote: &Remote, id: &str) -> Result<bool, Failure> {
    Ok(remote.run(remote.client.execution(id))?.execution.state.is_over())
}

/// Waits for the poll interval, then reports whether the reader of stdout is gone. While there are
/// no lines to write, no failing write would reveal that.
async fn is_reader_gone() -> bool {
    sleep(POLL_INTERVAL).await;
    timeout(POLL_INTERVAL, print::is_reader_gone()).await.unwrap_or(false)
}

/// A log line as text, without `--json`.
fn text(line: &LogLine, screen: Screen) -> String {
    let LogLine { at, execution_id, attempts, level, message, fields, cut } = line;
    let word = format!("{:5}", level.as_str());
    let word = match level {
        Level::Error => screen.paint(Tone::Bad, &word),
        Level::Warn => screen.paint(Tone::Warn, &word),
        Level::Info => word,
        Level::Debug | Level::Trace => screen.paint(Tone::Faint, &word),
    };
    let name = short(execution_id);
    // A first attempt is not marked.
    let name = match attempts.split('.').all(|attempt| attempt == "1") {
        true => name,
        false => format!("{name}@{attempts}"),
    };
    let at = screen.paint(Tone::Faint, &plain(at));
    let mut text = format!("{at} {word} {}  {}", plain(&name), plain(message));
    for (name, value) in fields {
        let is_bare = !value.is_empty() && !value.contains([' ', '"', '=']);
        let (name, value) = (plain(name), plain(value));
        text.push_str(&match is_bare {
            true => format!(" {name}={value}"),
            false => format!(" {name}=\"{}\"", value.replace('"', "\\\"")),
        });
    }
    text.push_str(if *cut { " (cut)\n" } else { "\n" });
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn line() -> LogLine {
        LogLine {
            at: "2026-01-02T03:04:05.000006Z".to_owned(),
            execution_id: format!("{}.0.2", "0123456789abcdef".repeat(4)),
            attempts: "1.1.1".to_owned(),
            level: Level::Info,
            message: "charged".to_owned(),
            fields: BTreeMap::new(),
            cut: false,
        }
    }

    fn shown(line: &LogLine, colours: bool) -> String {
        text(line, Screen { is_terminal: colours, columns: 80, colours })
    }

    /// A line shows the time, the level, the execution and the message, with its fields.
    #[test]
    fn a_line_for_people() {
        let plain = line();
        assert_eq!(
            shown(&plain, false),
            "2026-01-02T03:04:05.000006Z info  01234567.0.2  charged\n"
        );
        let fields = [("a", "1"), ("b", "two words"), ("c", ""), ("d", "say \"x\"")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let more = LogLine { fields, attempts: "1.2.1".to_owned(), cut: true, ..line() };
        assert_eq!(
            shown(&more, false),
            "2026-01-02T03:04:05.000006Z info  01234567.0.2@1.2.1  charged a=1 b=\"two words\" \
             c=\"\" d=\"say \\\"x\\\"\" (cut)\n"
        );
    }

    /// A logged text stays one line, and does not move the cursor.
    #[test]
    fn texts_are_harmless() {
        let hostile = "\u{1b}[2J\r\n\u{7}\u{9b}31m\u{202e}x";
        let fields = BTreeMap::from([(hostile.to_owned(), hostile.to_owned())]);
        let line = LogLine { message: hostile.to_owned(), fields, ..line() };
        let shown = shown(&line, false);
        assert_eq!(shown.lines().count(), 1);
        assert!(!shown.trim_end().contains(char::is_control) && !shown.contains('\u{202e}'));
    }

    /// Colours only accompany the words, and only where they are shown.
    #[test]
    fn what_matters_has_a_colour() {
        for (level, colour) in [(Level::Warn, "\u{1b}[33mwarn "), (Level::Error, "\u{1b}[31merror")]
        {
            let line = LogLine { level, ..line() };
            assert!(shown(&line, true).contains(colour));
            assert!(!shown(&line, false).contains('\u{1b}'));
        }
        assert!(shown(&line(), true).contains(" info  "));
    }
}
