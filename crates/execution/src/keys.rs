//! Requests under a caller's idempotency key (C-31): which parts a repetition must not change, and
//! the records that say what the first request led to. A key is looked up before any id is made,
//! and no id contains it.

use indelible_idempotency::{IdempotencyKey, Limits, RequestHash, canonicalize};
use indelible_journal::{Codec, DeliveryId, Namespace, OperationId, Payload, RootHash, Timestamp};
use indelible_records::idempotency_keys::{Answer, CancelOutcome, KeyOutcome, KeyRecord};
use indelible_records::windows::{self, Id, WindowedRecord};
use indelible_store::ReadError;
use sha2::{Digest as _, Sha256};

use crate::context::Cx;
use crate::operation::Change;

/// The deepest nesting of an input that is treated as JSON.
const DEPTH_MAX: usize = 128;

/// A start under a caller's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedStart {
    /// The key.
    pub key: IdempotencyKey,
    /// A hash of the parts that a repetition must not change (C-6, C-31): the function's name, and
    /// the input's codec and canonical form. The version of the component is not among them.
    pub hash: RequestHash,
}

impl KeyedStart {
    /// A start of this function with this input.
    pub fn new(key: &IdempotencyKey, called: &str, input: &Payload) -> Self {
        let hash = RequestParts(Sha256::new()).text(called).payload(input).hash();
        Self { key: key.clone(), hash }
    }
}

/// Hashes the parts of a request that a repetition must not change.
pub struct RequestParts(Sha256);

impl RequestParts {
    /// A request of this kind that is not a start.
    pub fn new(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    /// A text; its length keeps it apart from what follows.
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Bytes, in the same way.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// A payload, which is the last part.
    pub fn payload(mut self, payload: &Payload) -> Self {
        self.0.update([payload.codec.number()]);
        match canonical(payload) {
            Some(canonical) => self.0.update(canonical),
            // A payload without a canonical form is compared byte by byte.
            None => self.0.update(&payload.bytes),
        }
        self
    }

    /// The hash of all parts.
    pub fn hash(self) -> RequestHash {
        RequestHash::from_bytes(self.0.finalize().into())
    }
}

fn canonical(input: &Payload) -> Option<Vec<u8>> {
    if input.codec != Codec::JSON {
        return None;
    }
    let text = std::str::from_utf8(&input.bytes).ok()?;
    // The size of the input has its own bound.
    let limits = Limits { bytes_max: usize::MAX, depth_max: DEPTH_MAX };
    canonicalize(text, &limits).ok()
}

/// A request under a key that has no answer yet. It holds the key's lock until its commit is
/// accepted: the next request under the key then finds the record.
#[derive(Debug, Clone)]
pub struct KeyedRequest {
    /// The id of the key's record.
    pub id: Id,
    /// A hash of the parts that a repetition must not change.
    pub hash: RequestHash,
    /// The tree that the request changes, or the server.
    pub target: RootHash,
    /// The note in the key's slot, if the target is in another slot.
    pub note: Option<WindowedRecord<KeyRecord>>,
}

impl KeyedRequest {
    /// The change that makes, or renews, the note of a request whose target is in another slot.
    /// Each attempt renews it: the windows of the note and of the answer both begin now.
    pub fn noted(&self, expires_at: Timestamp) -> Change<KeyRecord> {
        let record = KeyRecord { hash: self.hash, led_to: KeyOutcome::Target(self.target) };
        let after = WindowedRecord { expires_at: Some(expires_at), record };
        Change { id: self.id.clone(), before: self.note.clone(), after }
    }

    /// The id of the answer's record, if the target is in another slot than the key.
    pub fn answer_id(&self) -> Id {
        Id::for_answer(&self.id.namespace, &self.target, &self.id.name)
    }
}

/// An answer that can be given again to a repeated request.
pub trait KeyedReply: Sized {
    /// The answer in this form. None: it answers another kind of request.
    fn from_answer(answer: Answer) -> Option<Self>;
}

impl KeyedReply for () {
    fn from_answer(answer: Answer) -> Option<Self> {
        (answer == Answer::Done).then_some(())
    }
}

impl KeyedReply for DeliveryId {
    fn from_answer(answer: Answer) -> Option<Self> {
        if let Answer::Delivered(delivery) = answer { Some(delivery) } else { None }
    }
}

impl KeyedReply for CancelOutcome {
    fn from_answer(answer: Answer) -> Option<Self> {
        if let Answer::Cancelling(cancelling) = answer { Some(cancelling) } else { None }
    }
}

/// The id of a key's record, in the key's own namespace.
pub fn id_of(key: &IdempotencyKey) -> Id {
    let namespace = Namespace::new(key.namespace().as_str());
    let namespace = namespace.expect("a consumer's namespace is a short word of few letters");
    Id::idempotency_key(&namespace, key.value())
}

/// The request under the key is done: its record stays until this time.
pub fn done(mut expires_at: Timestamp, under: &KeyedRequest, answer: Answer) -> Change<KeyRecord> {
    let record = KeyRecord { hash: under.hash, led_to: KeyOutcome::Answer(answer) };
    let id = match &under.note {
        None => under.id.clone(),
        Some(note) => {
            // The note expires first: as long as it is there, the answer is there.
            let noted = note.expires_at.map_or(0, |at| at.as_micros() + 1);
            expires_at = expires_at.max(Timestamp::from_micros(noted).unwrap_or(Timestamp::MAX));
            under.answer_id()
        }
    };
    let after = WindowedRecord { expires_at: Some(expires_at), record };
    Change { id, before: None, after }
}

/// The key has led to this operation. The record does not expire while the operation goes on (C-3).
pub(crate) fn begun(
    namespace: &Namespace,
    keyed: &KeyedStart,
    operation_id: &OperationId,
) -> Change<KeyRecord> {
    let led_to = KeyOutcome::Operation(operation_id.clone());
    let after = WindowedRecord { expires_at: None, record: KeyRecord { hash: keyed.hash, led_to } };
    Change { id: Id::idempotency_key(namespace, keyed.key.value()), before: None, after }
}

/// The key's operation is over: the key's record stays for its window.
pub(crate) fn ended(
    cx: Cx<'_>,
    pending: Option<Change<KeyRecord>>,
    namespace: &Namespace,
    key: &str,
    expires_at: Timestamp,
) -> Result<Option<Change<KeyRecord>>, ReadError> {
    let id = Id::idempotency_key(namespace, key);
    let pending = match pending {
        Some(pending) => Some(pending),
        None => windows::get(&cx.reads, &id)?.value.map(|before| Change::of(id, before)),
    };
    // The key's record expires before the operation's, which expires at `expires_at`.
    let earlier = Timestamp::from_micros(expires_at.as_micros().saturating_sub(1));
    Ok(pending.map(|mut change| {
        change.after.expires_at = earlier;
        change
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible_idempotency::{ConsumerNamespace, parse_key};

    fn keyed(called: &str, input: &Payload) -> RequestHash {
        let namespace = ConsumerNamespace::new("tests").unwrap();
        let key = parse_key(&namespace, Some("k")).unwrap().unwrap();
        KeyedStart::new(&key, called, input).hash
    }

    /// C-31, C-6: the hash covers function, codec and canonical input, and nothing else.
    #[test]
    fn what_counts_of_a_request() {
        let json = |text: &'static str| Payload::json(text);
        let hash = keyed("shop/order", &json(r#"{"a":1,"b":2}"#));
        assert_eq!(hash, keyed("shop/order", &json(r#" {"b":2.0, "a":1} "#)));
        assert_ne!(hash, keyed("shop/order", &json(r#"{"a":1,"b":3}"#)));
        assert_ne!(hash, keyed("shop/cancel", &json(r#"{"a":1,"b":2}"#)));
        let raw = Payload::new(Codec::RAW, r#"{"a":1,"b":2}"#);
        assert_ne!(hash, keyed("shop/order", &raw));
        // What is no JSON after all is compared byte by byte.
        let broken = keyed("shop/order", &json(r#"{"a":1,"a":1}"#));
        assert_eq!(broken, keyed("shop/order", &json(r#"{"a":1,"a":1}"#)));
        assert_ne!(broken, keyed("shop/order", &json(r#"{"a":1, "a":1}"#)));
    }
}
