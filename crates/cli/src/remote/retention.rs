//! `indelible retention`: the clock by which a server deletes records and finished executions.

use std::io::Write;

use clap::{Args, Subcommand};
use indelible_client::Error;
use indelible_client::api::Code;
use indelible_client::api::control::RetentionClock;
use indelible_runtime::world::{Clock as _, System};
use serde::Serialize;

use super::connection::{Remote, Server};
use super::errors::Explained as _;
use crate::failure::Failure;
use crate::print::{self, plain};
use crate::remote::{Confirmation, confirm};

const CLOCK: &str = "\
A server deletes by its own retention clock. It follows the wall clock, but ignores jumps of more
than a day. After such a jump, or after more than a day without a running server, the retention
clock lags behind: deletions happen later by that lag, and never too early.

Examples:
  indelible retention clock
  indelible retention confirm --reason 'the machine was off in May'";

const CONFIRM: &str = "\
Check the time first. Once you confirm, the server deletes everything that is due by its wall clock,
and a request that is repeated under a deleted name is executed again. The server refuses if its
wall clock and this machine's clock differ by more than ten minutes.

Examples:
  indelible retention clock
  indelible retention confirm --reason 'the machine was off in May'";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show a server's retention clock, by which it deletes, next to its wall clock
    #[command(after_long_help = CLOCK)]
    Clock(Clock),
    /// Confirm that a server's wall clock is right: the retention clock is set to it
    #[command(after_long_help = CONFIRM)]
    Confirm(Confirm),
}

#[derive(Args)]
pub(crate) struct Clock {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
pub(crate) struct Confirm {
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    sure: Confirmation,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct Confirmed<'a> {
    confirmed: &'a str,
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Clock(clock) => clock.run(out),
        Command::Confirm(confirm) => confirm.run(out),
    }
}

impl Clock {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let clock = remote.run(remote.client.retention_clock())?;
        if self.json {
            return print::object(&clock, out);
        }
        let RetentionClock { retention_clock, wall_clock, lag_seconds } = &clock;
        let lag = lag(*lag_seconds);
        let lines = format!(
            "retention clock  {}\nwall clock       {}\nlag              {lag}\n",
            plain(retention_clock),
            plain(wall_clock)
        );
        print::text(&lines, out)
    }
}

impl Confirm {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        confirm(&self.sure, || question(&remote))?;
        let time = System.now().to_string();
        let confirmed = remote.client.confirm_retention_clock(&time, &self.reason);
        remote.wait(confirmed.into_future()).map_err(|error| match error {
            Error::Refused(problem) if problem.code == Code::WrongState => {
                Failure::new(problem.detail).hint("compare `date -u` on both machines")
            }
            error => error.explain(&remote.at),
        })?;
        let words = "confirmed; the retention clock now equals the wall clock";
        print::done(Confirmed { confirmed: &time }, words, self.json, out)
    }
}

fn question(remote: &Remote) -> Result<String, Failure> {
    let clock = remote.run(remote.client.retention_clock())?;
    let RetentionClock { retention_clock, wall_clock, .. } = clock;
    Ok(format!(
        "is it {wall_clock} now? Deletion has followed {retention_clock} so far; from now on \
         everything due by {wall_clock} is deleted"
    ))
}

/// The difference of the clocks, for people.
fn lag(seconds: i64) -> String {
    let apart = seconds.unsigned_abs();
    let apart = match apart {
        0..3_600 => format!("{apart}s"),
        3_600..86_400 => format!("{}h {}m", apart / 3_600, apart % 3_600 / 60),
        _ => format!("{}d {}h", apart / 86_400, apart % 86_400 / 3_600),
    };
    match seconds {
        0 => "none".to_owned(),
        1.. => apart,
        _ => {
            format!(
                "none: the wall clock was set back by {apart}, and nothing is deleted until it \
                 has caught up"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ() {
        let cases = [(0, "none"), (59, "59s"), (7_260, "2h 1m"), (2_509_200, "29d 1h")];
        for (seconds, words) in cases {
            assert_eq!(lag(seconds), words);
        }
        assert!(lag(-5).contains("set back by 5s"), "{}", lag(-5));
    }
}
