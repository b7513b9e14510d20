//! `indelible signal`: sends a signal to an execution.

use std::io::Write;

use clap::Args;
use indelible_client::{Identity, OperationId};
use serde::Serialize;

use super::connection::Connection;
use super::errors::{Explained as _, MayHaveArrived as _, short};
use super::interrupt::{Interrupted, Interrupts, unanswered};
use super::name::flag;
use super::target::{Target, target};
use crate::failure::Failure;
use crate::input::Input;
use crate::print;

const HELP: &str = "\
A signal waits until the execution receives it. Signals are received once each, in the order in
which they were sent. A signal that is repeated with the same --key is sent once.

Examples:
  indelible signal 9c4f1a2b decision '{\"by\":\"bob\",\"approved\":true}'
  indelible signal last stop";

/// Send a signal to an execution
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Signal {
    /// Its id, or the beginning of it; or `last`, the newest that was started from here
    #[arg(value_parser = target)]
    execution: Target,
    /// The name of the signal
    name: String,
    /// Its value, as JSON; @FILE reads it from a file, - from standard input
    #[arg(value_name = "JSON", default_value = "null")]
    payload: Input,
    /// Your own key for this signal: repeating it under the same key sends nothing
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Serialize)]
struct SignalReceipt<'a> {
    execution_id: &'a str,
    delivery_id: u64,
}

impl Signal {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let payload = self.payload.read()?;
        let remote = self.connection.connect_to_find()?;
        let id = remote.find(&self.execution)?;
        // Minted here, so that the error can name the key if there is no answer.
        let key = self.key.clone().unwrap_or_else(|| OperationId::mint().to_string());
        let signal = remote.client.signal(&id, &self.name, &*payload).idempotency_key(&key);
        let name = Identity::Key(key);
        let delivered = remote.wait(async { Interrupts::listen().or(signal.into_future()).await });
        let delivered = match delivered {
            Ok(Ok(delivered)) => delivered,
            Ok(Err(error)) => {
                let riddle = error.may_have_arrived();
                let failure = error.explain(&remote.at);
                return Err(match riddle {
                    true => failure.hint(format!(
                        "the signal may have been accepted; send it again with {}, and it is still \
                         received only once",
                        flag(&name)
                    )),
                    false => failure,
                });
            }
            Err(Interrupted) => {
                return Err(unanswered(&name, "the signal is received only once"));
            }
        };
        let delivery_id = delivered.delivery_id;
        let words = format!("sent to {} as delivery {delivery_id} of {:?}", short(&id), self.name);
        print::done(SignalReceipt { execution_id: &id, delivery_id }, &words, self.json, out)
    }
}
