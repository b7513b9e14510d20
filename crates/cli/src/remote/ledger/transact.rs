//! `indelible ledger tx`: a transaction, under a key, an operation id, or a client's number.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use indelible_client::api::ledger::Committed;
use indelible_client::{
    Identity, IfMissing, Ledger, Operations, RunEnd, Sequenced, SequencedError, Transaction,
    Unfinished,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Place, committed, state_file};
use crate::failure::{Exit, Failure, quiet};
use crate::input::Input;
use crate::print;
use crate::remote::connection::Remote;
use crate::remote::errors::{Explained as _, MayHaveArrived as _};
use crate::remote::interrupt::{Interrupted, Interrupts, unanswered};
use crate::remote::name::{Name, flag};

const HELP: &str = "\
OPERATIONS is a JSON array, applied whole or not at all:
  [{\"set\": {\"key\": \"order/7\", \"to\": {\"value\": {\"codec\": \"json\", \"value\": {\"item\": \"tea\"}}}}},
   {\"add\": {\"key\": \"ann\", \"delta\": 10000, \"unit\": \"EUR-cent\"}},
   {\"transfer\": {\"from\": \"ann\", \"to\": \"bob\", \"quantity\": 500, \"min\": 0}}]
and `delete`, `check`, `get` and `start`. An object with `writes`, an array of such arrays, is a batch,
which needs --client.

Under which name:
  --key, --id            a key of yours, or an operation id
  --client C             the next number of this client. The number and the operations are kept in a
                         file before they are sent. If no answer comes, run the same command again: it
                         sends the same under the same number, and it is applied once
  --client C --sequence N  a number that you keep yourself; with --attempt, one more after every refusal

The file of a client is in ~/.config/indelible/ledger (or under XDG_CONFIG_HOME), or where --state-file
says. Do not copy it: two writers with one number are one too many.

Examples:
  indelible ledger tx @pay.json --vault wallets --key payment-7
  indelible ledger tx pay.json --vault wallets --client till-1";

/// Commit a transaction
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Transact {
    /// The operations, as JSON, or the file that has them; - is standard input
    #[arg(value_name = "OPERATIONS")]
    operations: String,
    #[command(flatten)]
    name: Name,
    /// Under the next number of this client
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["key", "id"])]
    client: Option<String>,
    /// Under this number, which you keep yourself
    #[arg(long, value_name = "N", requires = "client")]
    sequence: Option<u64>,
    /// The attempt of that number: one more after every refusal
    #[arg(long, value_name = "N", requires = "sequence")]
    attempt: Option<u32>,
    /// Where the client's number is kept
    #[arg(long, value_name = "FILE", requires = "client", conflicts_with = "sequence")]
    state_file: Option<PathBuf>,
    /// Go on with the number that the server knows: the file was lost
    #[arg(long, requires = "client", conflicts_with = "sequence")]
    recover: bool,
    /// Only if the vault has this incarnation
    #[arg(long, value_name = "ID")]
    incarnation: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// What the JSON says.
enum Content {
    Single(Box<RawValue>),
    Batch(Vec<Box<RawValue>>),
}

impl Transact {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let content = self.read()?;
        let (remote, ledger) = self.place.open()?;
        let client = match (&self.client, self.sequence, &content) {
            (Some(client), None, _) => {
                return self.sequenced(client, &content, &remote, &ledger, out);
            }
            (client, _, Content::Single(_)) => client,
            (_, _, Content::Batch(_)) => {
                return Err(Failure::new("a batch needs the number of a client")
                    .hint("give --client alone, or make the batch one array of operations")
                    .exit(Exit::Usage));
            }
        };
        let Content::Single(operations) = &content else { unreachable!("batches have returned") };
        let transaction = ledger.transact(&**operations);
        let transaction = match &self.incarnation {
            Some(incarnation) => transaction.incarnation(incarnation),
            None => transaction,
        };
        let identity = match (client, self.sequence) {
            (Some(client), Some(sequence)) => {
                Identity::Sequence { client_id: client.clone(), sequence }
            }
            _ => self.name.identity(),
        };
        let transaction = match self.attempt {
            Some(attempt) => transaction.attempt(attempt),
            None => transaction,
        };
        committed(&named(&remote, transaction, &identity)?, self.json, out)
    }

    fn read(&self) -> Result<Content, Failure> {
        let text = self.operations.trim_start();
        // A path needs no @ here: operations begin with a bracket.
        let input = match text == "-" || text.starts_with(['[', '{', '@']) {
            true => text.parse(),
            false => Ok(Input::File(PathBuf::from(&self.operations))),
        };
        let Ok(input) = input;
        let json = input.read()?;
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Batch {
            writes: Vec<Box<RawValue>>,
        }
        match json.get().starts_with('{') {
            false => Ok(Content::Single(json)),
            true => serde_json::from_str(json.get())
                .map(|Batch { writes }| Content::Batch(writes))
                .map_err(|error| {
                    Failure::new(format!("this is not a batch: {error}"))
                        .hint("give an array of operations, or {\"writes\": [[…], […]]}; nothing was sent")
                        .exit(Exit::Usage)
                }),
        }
    }

    /// Under the client's next number. An earlier request without an answer is sent first: it is this
    /// one, if it has the same operations.
    fn sequenced(
        &self,
        client: &str,
        content: &Content,
        remote: &Remote,
        ledger: &Ledger,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let file = match &self.state_file {
            Some(file) => file.clone(),
            None => state_file::path(&remote.at.url, ledger, client)?,
        };
        let mut open = ledger.sequenced(client, &file);
        if self.recover {
            open = open.if_missing(IfMissing::AskServer);
        }
        if let Some(incarnation) = &self.incarnation {
            open = open.incarnation(incarnation);
        }
        let mut writer = remote.run(open)?;
        let operations = match content {
            Content::Single(operations) => Operations::single(operations),
            Content::Batch(writes) => Operations::batch(writes),
        };
        if let Some((request, end)) = self.unless_interrupted(remote, writer.resume())? {
            if is_same(&request, content) {
                let done = ended(end).map_err(|error| error.explain(&remote.at))?;
                return self.finish(&done, &mut writer, remote, out);
            }
            print::tell(&earlier(&request, &end));
        }
        let done = self.unless_interrupted(remote, writer.transact(operations))?;
        self.finish(&done, &mut writer, remote, out)
    }

    /// Reports it first: until then a repetition of the command is to get the same answer.
    fn finish(
        &self,
        done: &Committed,
        writer: &mut Sequenced,
        remote: &Remote,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        committed(done, self.json, out)?;
        quiet(out.flush()).map_err(|error| Failure::output(&error))?;
        remote.run(writer.settle())
    }

    fn unless_interrupted<T>(
        &self,
        remote: &Remote,
        asked: impl Future<Output = Result<T, SequencedError>>,
    ) -> Result<T, Failure> {
        match remote.wait(async { Interrupts::listen().or(asked).await }) {
            Ok(answer) => answer.map_err(|error| error.explain(&remote.at)),
            Err(Interrupted) => Err(Failure::new(
                "interrupted before the server answered; the transaction may have been applied",
            )
            .hint("run the same command again: it sends the same number, and is applied once")
            .exit(Exit::Interrupted)),
        }
    }
}

/// The one transaction of a request.
fn ended(end: RunEnd) -> Result<Committed, SequencedError> {
    let RunEnd { mut committed, refused, .. } = end;
    match (committed.pop(), refused) {
        (Some(committed), None) => Ok(committed),
        (_, Some(problem)) => Err(SequencedError::Refused(problem)),
        (None, None) => unreachable!("a request has a transaction"),
    }
}

/// Whether the request has these operations.
fn is_same(request: &Unfinished, content: &Content) -> bool {
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    let Ok(body) = serde_json::from_str::<Value>(&request.body) else { return false };
    match content {
        Content::Single(operations) => body.get("operations") == value(operations).as_ref(),
        Content::Batch(writes) => {
            let kept = body.get("writes").and_then(Value::as_array);
            kept.is_some_and(|kept| {
                let kept = kept.iter().map(|write| write.get("operations").cloned());
                kept.eq(writes.iter().map(|write| value(write)))
            })
        }
    }
}

/// What came of a request that an earlier command had left.
fn earlier(request: &Unfinished, end: &RunEnd) -> String {
    let first = request.first;
    match &end.refused {
        Some(problem) => format!(
            "an earlier transaction of this client was refused: {} ({})",
            problem.detail, problem.code
        ),
        None => format!(
            "an earlier transaction of this client, sequence {first}, had no answer; it is committed"
        ),
    }
}

fn with_name(transaction: Transaction, identity: &Identity) -> Transaction {
    match identity.clone() {
        Identity::Key(key) => transaction.idempotency_key(key),
        Identity::Operation(id) => transaction.operation_id(id),
        Identity::Sequence { client_id, sequence } => transaction.sequence(client_id, sequence),
    }
}

/// Sends a transaction under its name. An error without an answer says how to repeat it.
pub(super) fn named(
    remote: &Remote,
    transaction: Transaction,
    identity: &Identity,
) -> Result<Committed, Failure> {
    let asked = with_name(transaction, identity).into_future();
    match remote.wait(async { Interrupts::listen().or(asked).await }) {
        Ok(Ok(committed)) => Ok(committed),
        Ok(Err(error)) => {
            let riddle = error.may_have_arrived();
            let failure = error.explain(&remote.at);
            Err(match riddle {
                true => failure.hint(format!(
                    "the transaction may have been applied; repeat it with {}, and it is still \
                     applied once",
                    flag(identity)
                )),
                false => failure,
            })
        }
        Err(Interrupted) => Err(unanswered(identity, "the transaction is applied once")),
    }
}
