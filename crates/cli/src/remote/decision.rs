//! The arguments that `cancel`, `release` and `fail` share.

use clap::Args;

use super::connection::{Connection, Remote};
use super::target::{Target, target};
use crate::failure::Failure;

/// Which execution, and why.
#[derive(Args)]
pub(super) struct Decision<S: Args> {
    /// Its id, or the beginning of it; or `last`, the newest that was started from here
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

/// Confirmation of a command that can be undone: none is needed.
#[derive(Args)]
pub(super) struct NoConfirmation {}

impl<S: Args> Decision<S> {
    /// Connects to the server, and finds the execution's whole id.
    pub(super) fn find(&self) -> Result<(Remote, String), Failure> {
        let remote = self.connection.connect_to_find()?;
        let id = remote.find(&self.execution)?;
        Ok((remote, id))
    }
}
