//! `indelible start`: starts a function and does not wait for it.

use std::io::Write;

use clap::Args;
use indelible_client::api::call::Verdict as Met;
use indelible_client::{Identity, StartError};
use serde_json::value::RawValue;

use super::call::AcceptedCall;
use super::connection::Connection;
use super::errors::{Explained as _, short};
use super::function::{ComponentFunction, FunctionRef, is_misfit, no_such};
use super::interrupt::{Interrupted, Interrupts, unanswered};
use super::labels::Labels;
use super::name::Name;
use crate::failure::Failure;
use crate::input::{ARRAY_HINT, Input};
use crate::print;

const HELP: &str = "\
Prints the id of the execution once its start is durable; from then on it survives any crash. --key
or --id names the start: repeating it under the same name finds the same execution.

Examples:
  indelible start order-saga/order '{\"id\":\"o-1\",\"item\":\"tea\",\"quantity\":2,\"cents\":500}' --key o-1
  indelible show \"$(indelible start order @order.json)\"";

/// Start a function, and print the id of its execution
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Start {
    /// component/function, or the function alone if one component has it
    function: FunctionRef,
    /// Its input, as JSON; @FILE reads it from a file, - from standard input; several arguments are
    /// an array
    #[arg(default_value = "null")]
    input: Input,
    /// What users add who take arguments for words: it is refused with a hint
    #[arg(hide = true)]
    more: Vec<String>,
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    labels: Labels,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Start {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let input = self.input.read_alone(&self.more)?;
        let remote = self.connection.connect()?;
        let found = remote.function(&self.function)?;
        let ComponentFunction { component, function } = &found;
        let function = remote
            .client
            .function::<RawValue, Box<RawValue>>(component.as_str(), function.as_str());
        let start = self.labels.add(function.start(&input));
        let identity = self.name.identity();
        let start = match identity.clone() {
            Identity::Key(key) => start.idempotency_key(key),
            Identity::Operation(id) => start.operation_id(id),
            Identity::Sequence { .. } => unreachable!("starts have no sequence"),
        };
        let started = remote.wait(async { Interrupts::listen().or(start.into_future()).await });
        let handle = match started {
            Ok(Ok(handle)) => handle,
            Ok(Err(StartError::Refused(problem))) if no_such(problem.code) => {
                return Err(remote.no_such_function(problem, &found));
            }
            Ok(Err(error)) => {
                let hint =
                    matches!(&error, StartError::Refused(problem) if is_misfit(problem, &input));
                let failure = error.explain(&remote.at);
                return Err(if hint { failure.hint(ARRAY_HINT) } else { failure });
            }
            Err(Interrupted) => {
                return Err(unanswered(
                    &identity,
                    "it finds the execution and does not start another",
                ));
            }
        };
        let id = handle.execution_id();
        remote.remember(id);
        match handle.verdict() {
            None | Some(Met::Fresh) => {}
            Some(Met::InFlight) => {
                print::tell("the execution was already running under this key or id");
            }
            Some(Met::PriorResult | Met::PriorError) => {
                print::tell(
                    "the execution was started earlier under this key or id, and has ended",
                );
            }
        }
        if self.json {
            return print::object(AcceptedCall::of(&handle).document(), out);
        }
        print::text(&format!("{id}\n"), out)?;
        print::tell(&format!("hint: see its progress with `indelible show {}`", short(id)));
        Ok(())
    }
}
