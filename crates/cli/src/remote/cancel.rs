//! `indelible cancel`: asks an execution to end.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::confirm::{Confirmation, confirm};
use super::decision::Decision;
use super::errors::short;
use crate::failure::Failure;
use crate::print;

const HELP: &str = "\
The execution learns of the request and may clean up before it ends: a saga undoes its steps. The
executions that it called are cancelled with it.

Examples:
  indelible cancel 9c4f1a2b --reason 'the customer called'
  indelible cancel last --yes";

/// Ask an execution to end; it may clean up first
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Cancel {
    #[command(flatten)]
    decision: Decision<Confirmation>,
}

#[derive(Serialize)]
struct CancelJson<'a> {
    execution_id: &'a str,
    already: bool,
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let Decision { reason, sure, json, .. } = &self.decision;
        let (remote, id) = self.decision.find()?;
        confirm(sure, || Ok(format!("cancel {}?", remote.describe(&id)?)))?;
        let already = remote.run(remote.client.cancel(&id, reason))?.already;
        let before = if already { "was already asked to end" } else { "was asked to end" };
        let words = format!(
            "execution {0} {before}; it may clean up first\nhint: see its progress with `indelible \
             show {0}`",
            short(&id)
        );
        print::done(CancelJson { execution_id: &id, already }, &words, *json, out)
    }
}
