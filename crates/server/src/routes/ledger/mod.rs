//! The ledger: transactions, and what is read of vaults. One handler serves the vaults of a namespace
//! (`/v1/vaults/{vault}/…`) and the namespace itself (`/v1/ledger/…`).
//!
//! - `vaults`: made, shown, deleted; client ids that are handed over. `transact`: writes, under a
//!   client's numbers or under a name. `read`: entities, the log, clients. `stream`: transactions as
//!   they happen, and exports.

pub(super) mod read;
pub(super) mod stream;
pub(super) mod transact;
pub(super) mod vaults;

use std::fmt::Display;
use std::str::FromStr;

use indelible_api::Problem;
use indelible_api::ledger::LogEntry;
use indelible_journal::Namespace;
use indelible_ledger::json::{OperationResult, Record, Text};
use indelible_ledger::{Actor, Height, Incarnation, Scope};
use indelible_runtime::ledger::LogEntry as Logged;

use crate::request::{ApiRequest, domain, malformed};

/// The namespace of a request.
fn namespace(asked: &ApiRequest) -> Result<Namespace, Problem> {
    Ok(domain(&asked.namespace()?))
}

/// The scope of a path: the vault that it names or, if it names none, the namespace.
fn scope(asked: &ApiRequest) -> Result<Scope, Problem> {
    let namespace = namespace(asked)?;
    let is_named = asked.params.iter().any(|(name, _)| name == "vault");
    let vault = is_named.then(|| param(asked, "vault")).transpose()?;
    Ok(Scope { namespace, vault })
}

/// What a part of the path names.
fn param<T: FromStr<Err: Display>>(asked: &ApiRequest, name: &str) -> Result<T, Problem> {
    parsed(name, asked.param(name))
}

fn parsed<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error| malformed(format!("{name}: {error}")))
}

/// What a parameter of the query names.
fn query<T: FromStr<Err: Display>>(asked: &ApiRequest, name: &str) -> Result<Option<T>, Problem> {
    asked.query(name).map(|text| parsed(name, text)).transpose()
}

fn height(asked: &ApiRequest, name: &str) -> Option<Height> {
    asked.number(name).map(Height::new)
}

/// Who asks, from the credential and from nothing else (impl ).
fn actor(asked: &ApiRequest) -> Actor {
    Actor::new(asked.caller.actor().as_str())
}

/// The vault that a request is meant for (see C-47).
fn pinned(asked: &ApiRequest) -> Result<Option<Incarnation>, Problem> {
    query(asked, "incarnation")
}

fn read<T>(text: Text<T>) -> T {
    text.0
}

/// A transaction as the log shows it.
fn logged(entry: &Logged) -> LogEntry {
    LogEntry {
        transaction: Record::of(&entry.record),
        results: entry.results.iter().map(OperationResult::of).collect(),
    }
}
