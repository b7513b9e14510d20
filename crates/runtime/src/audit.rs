//! Who did what, why, when: written in the same commit as what was done (C-38).

use indelible_journal::{JournalKey, PromiseId, Timestamp};
use indelible_store::rows::audit;
use serde::Serialize;

use crate::shared::Shared;
use crate::world::Purpose;

/// Who does something: derived from a credential by whoever embeds the engine.
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

#[derive(Serialize)]
struct Body<'a> {
    version: u8,
    actor: &'a str,
    action: &'a str,
    execution: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<String>,
    reason: &'a str,
}

pub(crate) fn entry(
    shared: &Shared,
    at: Timestamp,
    actor: &Actor,
    key: &JournalKey,
    action: &str,
    reason: &str,
) -> audit::Entry {
    entry_of(shared, at, actor, key, None, action, reason)
}

/// The same for what is about one of its promises.
pub(crate) fn entry_of(
    shared: &Shared,
    at: Timestamp,
    actor: &Actor,
    key: &JournalKey,
    promise: Option<&PromiseId>,
    action: &str,
    reason: &str,
) -> audit::Entry {
    let mut id = [0; 16];
    shared.entropy.fill(Purpose::Id, &mut id);
    let (actor, reason) = (actor.as_str(), cut(reason));
    let (execution, promise) = (key.to_string(), promise.map(PromiseId::to_string));
    let body = Body { version: 1, actor, action, execution, promise, reason };
    let body = serde_json::to_vec(&body).expect("texts and numbers are JSON").into();
    audit::Entry { at, id, body }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX)]
}
