//! `indelible hold`: a server that shows everything and lets nothing go on, or that takes no key which a
//! restore may have made it forget, and the operator who lifts that.

use std::io::Write;

use clap::{Args, Subcommand};
use indelible_client::api::control::{Hold, Lifted, Restored};

use super::connection::{Remote, Server};
use crate::failure::Failure;
use crate::print::{self, plain};
use crate::remote::{Confirmation, confirm};

const SHOW: &str = "\
A server is on hold if its data folder was restored with `indelible store restore --hold`, or if it
was started with --paused. It shows everything that is stored, and nothing goes on: no function
runs, no timer fires, no request leaves, and nothing new is accepted.

A server whose data folder was restored in any way is also closed: requests under a key or an
operation id that it does not know are refused (`restored`), because they may have been accepted
after the backup was made.

Examples:
  indelible hold show
  indelible ps --namespace '*' --state running,blocked,cancelling,stuck
  indelible unresolved
  indelible hold lift --reason 'the payment service has nothing newer'";

const LIFT: &str = "\
From then on everything that is unfinished goes on, and new requests are accepted, under any key or
operation id. For a folder that was restored that is for good. A server that was started with --paused goes on until it
stops; when it is started so again, it is on hold again.

A restored folder does not know what happened after the backup. Requests that were sent since are
sent again when their executions come to them, with the same Idempotency-Key: look first at what is
unfinished, and ask the services that it calls.

Examples:
  indelible hold show
  indelible hold lift --reason 'the payment service has nothing newer'";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show whether a server is on hold or closed to unknown keys, why, and what would go on
    #[command(after_long_help = SHOW)]
    Show(Show),
    /// Let a server that is on hold go on, and one that was restored take all keys
    #[command(after_long_help = LIFT)]
    Lift(Lift),
}

#[derive(Args)]
pub(crate) struct Show {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Args)]
pub(crate) struct Lift {
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

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Show(show) => show.run(out),
        Command::Lift(lift) => lift.run(out),
    }
}

impl Show {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let hold = remote.run(remote.client.hold())?;
        if self.json {
            return print::object(&hold, out);
        }
        print::text(&lines(&hold), out)?;
        if hold.on_hold {
            print::note(
                "hint: look at what is unfinished (`indelible ps --namespace '*' --state \
                 running,blocked,cancelling,stuck`) and unknown (`indelible unresolved`), then let \
                 it go on with `indelible hold lift --reason TEXT`",
                out,
            );
        } else if hold.closed_until.is_some() {
            print::note(
                "hint: find out what was accepted after the backup was made, then let the server \
                 take all keys and ids with `indelible hold lift --reason TEXT`",
                out,
            );
        }
        Ok(())
    }
}

impl Lift {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        confirm(&self.sure, || question(&remote))?;
        let Lifted { already } = remote.run(remote.client.lift_hold(&self.reason))?;
        let words = match already {
            true => "the server is not on hold; nothing has changed",
            false => "the hold is lifted; the server goes on",
        };
        print::done(Lifted { already }, words, self.json, out)
    }
}

fn question(remote: &Remote) -> Result<String, Failure> {
    let hold = remote.run(remote.client.hold())?;
    let since = match &hold.restored {
        None => String::new(),
        Some(Restored { backup_made_at, .. }) => {
            format!("; what was sent after {backup_made_at} may be sent again")
        }
    };
    let url = &remote.at.url;
    if !hold.on_hold {
        return Ok(format!("let {url} take keys and ids that it does not know{since}?"));
    }
    Ok(format!(
        "let {url} go on? Unfinished executions: {}; open questions: {}{since}",
        hold.unfinished, hold.unresolved
    ))
}

fn lines(hold: &Hold) -> String {
    let is = |is: bool| if is { "yes" } else { "no" };
    let mut lines = format!("on hold        {}\n", is(hold.on_hold));
    if let Some(Restored { at, backup_made_at }) = &hold.restored {
        lines += &format!("restored at    {}\n", plain(at));
        lines += &format!("backup made    {}\n", plain(backup_made_at));
    }
    if hold.paused {
        lines += "paused         until this process ends\n";
    }
    if let Some(until) = hold.closed_until.as_ref().filter(|_| !hold.on_hold) {
        lines += &format!("closed         to unknown keys and ids, until {}\n", plain(until));
    }
    lines += &format!("unfinished     {}\n", hold.unfinished);
    lines += &format!("unresolved     {}\n", hold.unresolved);
    lines
}
