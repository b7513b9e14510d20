//! `indelible ledger set`: puts a value under a key.

use std::io::Write;

use clap::Args;
use indelible_journal::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::transact::named;
use super::{Place, committed};
use crate::failure::Failure;
use crate::input::Input;
use crate::remote::name::Name;

const HELP: &str = "\
Puts a value in place of what is under the key. --if-version and --if-absent refuse it if something
else is there by now: `indelible ledger get KEY --json` shows the version.

With --key or --id the same command, typed again, sets nothing a second time. Amounts, which are
added to and transferred, are written with `indelible ledger tx`.

Examples:
  indelible ledger set config '{\"open\":true}'
  indelible ledger set order/7 @order.json --if-absent --key order-7
  indelible ledger set config '{\"open\":false}' --if-version 12";

/// Put a value under a key
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Set {
    /// Under which key
    entity: String,
    /// The value, as JSON; @FILE reads it from a file, - from standard input
    #[arg(value_name = "JSON")]
    value: Input,
    /// Only if the entity was last changed at this height
    #[arg(long, value_name = "HEIGHT", conflicts_with = "if_absent")]
    if_version: Option<u64>,
    /// Only if there is nothing under the key
    #[arg(long)]
    if_absent: bool,
    /// When it is deleted by itself: a time as 2026-03-14T09:26:53Z
    #[arg(long, value_name = "TIME")]
    expires_at: Option<Timestamp>,
    #[command(flatten)]
    name: Name,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The operation as the API takes it. The value keeps its own spelling.
#[derive(Serialize)]
struct SetOperation<'a> {
    set: SetFields<'a>,
}

#[derive(Serialize)]
struct SetFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    key: &'a str,
    to: Content<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    value: JsonPayload<'a>,
}

#[derive(Serialize)]
struct JsonPayload<'a> {
    codec: &'static str,
    value: &'a RawValue,
}

impl Set {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let value = self.value.read()?;
        let (remote, ledger) = self.place.open()?;
        let transaction = ledger.transact(&[self.operation(&value)]);
        let written = named(&remote, transaction, &self.name.identity())?;
        committed(&written, self.json, out)
    }

    fn operation<'a>(&'a self, value: &'a RawValue) -> SetOperation<'a> {
        let condition = match (self.if_version, self.if_absent) {
            (Some(version), _) => Some(json!({ "version": version })),
            (None, true) => Some(json!("absent")),
            (None, false) => None,
        };
        let expires_at = self.expires_at.map(|at| at.to_string());
        let to = Content { value: JsonPayload { codec: "json", value } };
        SetOperation { set: SetFields { condition, expires_at, key: &self.entity, to } }
    }
}
