//! What is said of an execution that somebody decides about: `cancel`, `release` and `fail`.

use clap::Args;

use super::connection::{Connection, Remote};
use super::target::{Target, target};
use crate::failure::Failure;

/// Which execution, and why.
#[derive(Args)]
pub(super) struct Decision<S: Args> {
    /// Its id, or the beginning of it; or `last`
    #[arg(value_parser = target)]
    execution: Target,
    /// Why: kept in the audit record
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) reason: String,
    #[command(flatten)]
    pub(super) sure: S,
    /// Print a JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Nobody has to be sure of what can be taken back.
#[derive(Args)]
pub(super) struct Unasked {}

impl<S: Args> Decision<S> {
    /// The server, and the whole id of what is meant.
    pub(super) fn find(&self) -> Result<(Remote, String), Failure> {
        let remote = self.connection.connect()?;
        let id = remote.find(&self.execution)?;
        Ok((remote, id))
    }
}
