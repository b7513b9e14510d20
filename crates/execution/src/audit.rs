//! Who did what, why and when: written in the commit of what was done (C-38).

use indelible_journal::Timestamp;
pub(crate) use indelible_records::audit::AuditSubject;
use indelible_records::audit::Entry;

use crate::context::{Environment, Purpose};

/// Who does something: the program that embeds the engine derives it from a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor(String);

/// The longest name of an actor, and the longest reason in an audit record, in bytes.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1024;

impl Actor {
    /// An actor of this name; longer ones are cut.
    pub fn new(name: &str) -> Self {
        Self(cut(name).to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A new entry.
pub fn entry(
    surroundings: &dyn Environment,
    at: Timestamp,
    actor: &Actor,
    about: AuditSubject,
    action: &str,
    reason: &str,
) -> Entry {
    let mut id = [0; 16];
    surroundings.fill(Purpose::Id, &mut id);
    let reason = cut(reason).to_owned();
    Entry { reason, ..Entry::new(at, id, actor.as_str(), action, about) }
}

/// The beginning of a text, as an audit record keeps it.
pub(crate) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX)]
}
