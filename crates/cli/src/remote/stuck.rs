//! `indelible release` and `indelible fail`: an operator lets a stuck execution continue, or ends
//! it.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::confirm::{Confirmation, confirm};
use super::decision::{Decision, NoConfirmation};
use super::errors::short;
use crate::failure::Failure;
use crate::print;

const RELEASE: &str = "\
An execution is stuck when it would not be safe to continue: its journal does not fit its code, or
it brought the server down. `indelible show` says why. A released execution continues; if the
problem is still there, it is stuck again.

Examples:
  indelible ps --state stuck
  indelible release 9c4f1a2b --reason 'the disk is repaired'";

const FAIL: &str = "\
Ends a stuck execution as failed, and the executions that it called with it. Its code does not run
again, so it cannot clean up.

Examples:
  indelible ps --state stuck
  indelible fail 9c4f1a2b --reason 'refunded by hand'";

/// Let a stuck execution continue
#[derive(Args)]
#[command(after_long_help = RELEASE)]
pub(crate) struct Release {
    #[command(flatten)]
    decision: Decision<NoConfirmation>,
}

/// End a stuck execution as failed
#[derive(Args)]
#[command(after_long_help = FAIL)]
pub(crate) struct Fail {
    #[command(flatten)]
    decision: Decision<Confirmation>,
}

#[derive(Serialize)]
struct DecisionReceipt<'a> {
    execution_id: &'a str,
}

impl Release {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let Decision { reason, json, .. } = &self.decision;
        let (remote, id) = self.decision.find()?;
        remote.run(remote.client.release(&id, reason))?;
        said(&id, "continues", *json, out)
    }
}

impl Fail {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let Decision { reason, sure, json, .. } = &self.decision;
        let (remote, id) = self.decision.find()?;
        confirm(sure, || Ok(format!("end {} as failed?", remote.describe(&id)?)))?;
        remote.run(remote.client.fail(&id, reason))?;
        said(&id, "ends as failed", *json, out)
    }
}

fn said(id: &str, what: &str, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let words = format!(
        "execution {0} {what}\nhint: see its progress with `indelible show {0}`",
        short(id)
    );
    print::done(DecisionReceipt { execution_id: id }, &words, json, out)
}
