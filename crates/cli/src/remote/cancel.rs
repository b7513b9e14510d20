//! `indelible cancel`: asks an execution to end.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::confirm::{Sure, confirm};
use super::connection::Connection;
use super::errors::short;
use super::target::{Target, target};
use crate::failure::{Failure, Verdict};
use crate::print;

const HELP: &str = "\
The execution is told, and may clean up before it ends: a saga undoes what it has done. What it
called is cancelled with it.

Examples:
  indelible cancel 9c4f1a2b --reason 'the customer called'
  indelible cancel last --yes";

/// Ask an execution to end; it may clean up first
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Cancel {
    /// Its id, or the beginning of it; or `last`
    #[arg(value_parser = target)]
    execution: Target,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    sure: Sure,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Serialize)]
struct Asked<'a> {
    execution_id: &'a str,
    already: bool,
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        let remote = self.connection.connect()?;
        let id = remote.find(&self.execution)?;
        confirm(&self.sure, || Ok(format!("cancel {}?", remote.describe(&id)?)))?;
        let already = remote.run(remote.client.cancel(&id, &self.reason))?.already;
        if self.json {
            print::object(Asked { execution_id: &id, already }, out)?;
            return Ok(Verdict::Well);
        }
        let id = short(&id);
        let before = if already { "had been asked to end before" } else { "was asked to end" };
        print::tell(&format!("execution {id} {before}; it may clean up first"));
        print::tell(&format!("hint: `indelible show {id}` says how it goes"));
        Ok(Verdict::Well)
    }
}
