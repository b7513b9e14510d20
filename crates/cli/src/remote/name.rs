//! The name of a call, an idempotency key or operation id: the same call under it is done once.

use clap::Args;
use indelible_client::{Identity, OperationId};

/// The flag that gives the name again, quoted for a shell.
pub(super) fn flag(identity: &Identity) -> String {
    match identity {
        Identity::Key(key) => format!("--key {}", quoted(key)),
        Identity::Operation(id) => format!("--id {id}"),
        Identity::Sequence { client_id, sequence } => {
            format!("--client {} --sequence {sequence}", quoted(client_id))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The arguments that name a call.
#[derive(Args, Clone)]
pub(crate) struct Name {
    /// A key of yours for what is wanted: the same again under it is done once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// An operation id, as a key; a UUID of version 7
    #[arg(long, value_name = "UUID", conflicts_with = "key")]
    id: Option<OperationId>,
}

impl Name {
    /// The given name, or a new operation id, minted here so that an error can name it.
    pub(crate) fn identity(&self) -> Identity {
        match (&self.key, self.id) {
            (Some(key), _) => Identity::Key(key.clone()),
            (None, id) => Identity::Operation(id.unwrap_or_else(OperationId::mint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell passes any key on as it is.
    #[test]
    fn names_can_be_typed() {
        let flag = |key: &str| flag(&Identity::Key(key.to_owned()));
        assert_eq!(flag("order 7"), "--key 'order 7'");
        assert_eq!(flag("ann's"), r"--key 'ann'\''s'");
    }
}
