//! `indelible cancel`: asks an execution to end.

use std::io::Write;

use clap::Args;
use indelible_client::UnresolvedFilter;
use indelible_client::api::execution::State;
use serde::Serialize;

use super::confirm::{Confirmation, confirm};
use super::connection::Remote;
use super::decision::Decision;
use super::errors::short;
use crate::failure::Failure;
use crate::print;

/// How many open questions are counted.
const PAGE: u32 = 100;

const HELP: &str = "\
The execution learns of the request and may clean up before it ends: a saga undoes its steps. The
executions that it called are cancelled with it. A request whose outcome is unknown ends as
Indeterminate, and so does the execution; the question stays in `indelible unresolved`.

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

/// How many open questions there are in an execution and what it called, as far as one page goes.
/// A caller that may not list them is not told.
async fn unknown(remote: &Remote, id: &str) -> usize {
    let Ok(pages) = remote.client.unresolved(&UnresolvedFilter::open().tree(id)) else { return 0 };
    let Ok(Some(page)) = pages.limit(PAGE).next().await else { return 0 };
    let called = format!("{id}.");
    let is_own = |execution: &str| execution == id || execution.starts_with(&called);
    page.unresolved.iter().filter(|listed| is_own(&listed.execution_id)).count()
}

impl Cancel {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let Decision { reason, sure, json, .. } = &self.decision;
        let (remote, id) = self.decision.find()?;
        let unknown = remote.wait(unknown(&remote, &id));
        if unknown > 0 {
            print::tell(&format!(
                "it is unknown whether {unknown} of its requests happened: they end as \
                 Indeterminate, and stay in `indelible unresolved` until a person settles them"
            ));
        }
        confirm(sure, || {
            let execution = remote.run(remote.client.execution(&id))?.execution;
            let ended = match execution.state {
                State::Completed => "it completed",
                State::Failed => "it failed",
                State::Cancelled => "it was cancelled",
                State::Indeterminate => "its outcome is unknown",
                _ => return Ok(format!("cancel {}?", remote.describe(&id)?)),
            };
            let what = format!("execution {} has already ended: {ended}", short(&id));
            Err(Failure::new(what).hint("nothing was done"))
        })?;
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
