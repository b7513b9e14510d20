//! Who did what, why, when: written in the same commit as what was done (C-38).

use indelible_journal::{ComponentDigest, JournalKey, PromiseId, Timestamp};
use indelible_records::audit;
use indelible_slots::Slot;
use serde::Serialize;

use crate::component::ComponentName;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    reason: &'a str,
}

/// What something was done to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    Execution(&'a JournalKey),
    /// One of an execution's promises.
    Promise(&'a JournalKey, &'a PromiseId),
    Component(&'a ComponentName, &'a ComponentDigest),
    /// Anything else, in words.
    Subject(&'a str),
}

impl About<'_> {
    fn slot(&self) -> Slot {
        match self {
            Self::Execution(key) | Self::Promise(key, _) => key.execution_id().root().slot(),
            Self::Component(..) | Self::Subject(_) => Slot::SERVER,
        }
    }
}

pub(crate) fn entry(
    shared: &Shared,
    at: Timestamp,
    actor: &Actor,
    about: About<'_>,
    action: &str,
    reason: &str,
) -> audit::Entry {
    let mut id = [0; 16];
    shared.entropy.fill(Purpose::Id, &mut id);
    about.slot().stamp(&mut id);
    let (actor, reason) = (actor.as_str(), cut(reason));
    let body = Body {
        version: 1,
        actor,
        action,
        execution: None,
        promise: None,
        component: None,
        digest: None,
        subject: None,
        reason,
    };
    let body = match about {
        About::Execution(key) => Body { execution: Some(key.to_string()), ..body },
        About::Promise(key, promise) => {
            Body { execution: Some(key.to_string()), promise: Some(promise.to_string()), ..body }
        }
        About::Component(name, digest) => {
            Body { component: Some(name.as_str()), digest: Some(digest.to_string()), ..body }
        }
        About::Subject(subject) => Body { subject: Some(subject), ..body },
    };
    let body = serde_json::to_vec(&body).expect("texts and numbers are JSON").into();
    audit::Entry { at, id, body }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX)]
}
