//! Dead letters as JSON: the names of the specification (see O-29, O-30, O-34, O-48), and what is this
//! project's own beside them.

use data_encoding::BASE64;
use indelible_journal::Timestamp;
use indelible_ledger::json::Text;
use schemars::JsonSchema;
use serde::Serialize;

use super::entry::{Entry, EntryState, Original, SealedEntry, Status};
use crate::attempt::{FailureCode, FailureRecord};
use crate::delivery::DeadReason;
use crate::ids::{ContentHash, EntryId, MessageId};

/// A failed attempt (see O-30).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureJson {
    /// Which attempt, from 1.
    pub attempt_number: u32,
    /// When.
    pub failed_at: Text<Timestamp>,
    /// Why, for programs.
    pub error_code: Text<FailureCode>,
    /// Why, for people.
    pub error_message: String,
}

impl FailureJson {
    fn of(failure: &FailureRecord) -> Self {
        Self {
            attempt_number: failure.attempt,
            failed_at: Text(failure.failed_at),
            error_code: Text(failure.code),
            error_message: failure.text.to_string(),
        }
    }
}

/// The message, every byte of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OriginalJson {
    /// Its id.
    pub message_id: Text<MessageId>,
    /// Its type; of a webhook its topic.
    pub message_type: String,
    /// Where it comes from; of a webhook its namespace.
    pub source_chain_id: String,
    /// When it was made.
    pub timestamp: Text<Timestamp>,
    /// The endpoint that it did not reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How the bytes are to be read.
    pub content_type: String,
    /// The body, or the envelope, in base64.
    pub base64: String,
}

/// `DLQEntry` (see O-29).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryJson {
    /// Its id.
    pub dlq_entry_id: Text<EntryId>,
    /// What a decision about it signs.
    pub hash: Text<ContentHash>,
    /// The message.
    pub original_message: OriginalJson,
    /// Every failed attempt.
    pub failure_history: Vec<FailureJson>,
    /// When it was entered.
    #[serde(rename = "enteredDLQAt")]
    pub entered_dlq_at: Text<Timestamp>,
    /// Until when it is kept, once it is decided.
    pub retention_until: Text<Timestamp>,
    /// Where it stands.
    pub status: Text<Status>,
    /// Why the message died.
    pub reason: Text<DeadReason>,
    /// It, or a message that it was issued again for, may have arrived (see C-52).
    pub may_have_arrived: bool,
    /// Only governance may decide.
    pub escalated: bool,
    /// The messages that it was issued again for, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reissue_of: Vec<Text<MessageId>>,
    /// The message that was issued again for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reissued_as: Option<Text<MessageId>>,
}

/// What people are told of a new entry (see O-34).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationJson {
    /// The entry.
    pub dlq_entry_id: Text<EntryId>,
    /// The message.
    pub message_id: Text<MessageId>,
    /// Its type.
    pub message_type: String,
    /// Where it comes from.
    pub source_chain_id: String,
    /// Every failed attempt.
    pub failure_history: Vec<FailureJson>,
    /// The last one.
    pub last_error: LastErrorJson,
    /// The routing slip, as JSON; none of a webhook.
    pub routing_slip: Option<String>,
    /// It may have arrived.
    pub may_have_arrived: bool,
}

/// The last error of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LastErrorJson {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
}

impl OriginalJson {
    fn of(entry: &Entry) -> Self {
        let (message_id, timestamp) = (Text(entry.message_id()), Text(entry.created()));
        match &entry.original {
            Original::Webhook { message, endpoint } => Self {
                message_id,
                message_type: message.topic.to_string(),
                source_chain_id: message.namespace.to_string(),
                timestamp,
                endpoint: Some(endpoint.to_string()),
                content_type: message.content_type.to_string(),
                base64: BASE64.encode(&message.body),
            },
            Original::Envelope { message_type, source, bytes, .. } => Self {
                message_id,
                message_type: message_type.to_string(),
                source_chain_id: source.to_string(),
                timestamp,
                endpoint: None,
                content_type: "application/json".to_owned(),
                base64: BASE64.encode(bytes),
            },
        }
    }
}

impl EntryJson {
    /// An entry that was opened.
    pub fn of(entry: &Entry, sealed: &SealedEntry, state: EntryState) -> Self {
        Self {
            dlq_entry_id: Text(entry.id),
            hash: Text(sealed.hash()),
            original_message: OriginalJson::of(entry),
            failure_history: entry.failures.iter().map(FailureJson::of).collect(),
            entered_dlq_at: Text(entry.entered_at),
            retention_until: Text(entry.retention_until),
            status: Text(state.status),
            reason: Text(entry.reason),
            may_have_arrived: entry.unknown_messages().next().is_some(),
            escalated: state.escalated,
            reissue_of: entry.reissue_of().into_iter().map(|(id, _)| Text(id)).collect(),
            reissued_as: state.successor.map(Text),
        }
    }
}

impl NotificationJson {
    /// What people are told of an entry.
    pub fn of(entry: &Entry) -> Self {
        let OriginalJson { message_id, message_type, source_chain_id, .. } =
            OriginalJson::of(entry);
        let last = entry.failures.last();
        let routing_slip = match &entry.original {
            Original::Envelope { routing_slip: Some(slip), .. } => Some(slip.to_string()),
            _ => None,
        };
        Self {
            dlq_entry_id: Text(entry.id),
            message_id,
            message_type,
            source_chain_id,
            failure_history: entry.failures.iter().map(FailureJson::of).collect(),
            // A message that expired before its first attempt has no failure of its own.
            last_error: LastErrorJson {
                code: last
                    .map_or_else(|| entry.reason.to_string(), |failure| failure.code.to_string()),
                message: last.map_or_else(String::new, |failure| failure.text.to_string()),
            },
            routing_slip,
            may_have_arrived: entry.unknown_messages().next().is_some(),
        }
    }
}
