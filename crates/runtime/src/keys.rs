//! The record of a caller's idempotency key: which operation a request under it led to (C-31). It
//! is looked up before any id is made, and no id contains the key.
//!
//! ```text
//! body, version 1:   01 ‖ request hash (32) ‖ operation id
//! ```
//! It is written in the commit that starts the execution, and goes with the operation's own record,
//! a moment before it: a key that is there always leads somewhere.

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_idempotency::{IdempotencyKey, Limits, RequestHash, canonicalize};
use indelible_journal::{Codec, Namespace, OperationId, Payload, Timestamp};
use indelible_store::rows::windows::{self, Id, Kind, Windowed};
use sha2::{Digest as _, Sha256};

use crate::operation::{Change, RecordError};
use crate::shared::Shared;

const VERSION: u8 = 1;

/// The deepest input that is taken for JSON.
const DEPTH_MAX: usize = 128;

/// A request under a caller's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) key: IdempotencyKey,
    /// What must not differ in a repetition (C-6, C-31): what is called, and the input's codec and
    /// canonical form. The version of the component is not in it.
    pub(crate) hash: RequestHash,
}

impl Keyed {
    pub(crate) fn new(key: &IdempotencyKey, called: &str, input: &Payload) -> Self {
        let mut hash = Sha256::new();
        // The length keeps name and input apart.
        hash.update((called.len() as u64).to_be_bytes());
        hash.update(called.as_bytes());
        hash.update([input.codec.number()]);
        match canonical(input) {
            Some(canonical) => hash.update(canonical),
            // What has no canonical form is compared byte by byte.
            None => hash.update(&input.bytes),
        }
        Self { key: key.clone(), hash: RequestHash::from_bytes(hash.finalize().into()) }
    }
}

fn canonical(input: &Payload) -> Option<Vec<u8>> {
    if input.codec != Codec::JSON {
        return None;
    }
    let text = std::str::from_utf8(&input.bytes).ok()?;
    // The input's size has its own bound.
    let limits = Limits { bytes_max: usize::MAX, depth_max: DEPTH_MAX };
    canonicalize(text, &limits).ok()
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) hash: RequestHash,
    pub(crate) operation_id: OperationId,
}

impl Record {
    fn encode(&self) -> Bytes {
        let id = self.operation_id.as_str();
        let mut body = BytesMut::with_capacity(33 + id.len());
        body.put_u8(VERSION);
        body.put_slice(self.hash.as_bytes());
        body.put_slice(id.as_bytes());
        body.freeze()
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = body.split_first_chunk()? else { return None };
        let (hash, id) = rest.split_first_chunk()?;
        let operation_id = OperationId::new(std::str::from_utf8(id).ok()?).ok()?;
        Some(Self { hash: RequestHash::from_bytes(*hash), operation_id })
    }
}

fn id(namespace: &Namespace, key: &str) -> Id {
    Id { kind: Kind::IdempotencyKey, namespace: namespace.clone(), name: key.to_owned() }
}

/// What is known of a key.
pub(crate) fn find(
    shared: &Shared,
    namespace: &Namespace,
    key: &IdempotencyKey,
) -> Result<Option<Record>, RecordError> {
    let id = id(namespace, key.value());
    let Some(windowed) = windows::get(&shared.store, &id)?.value else { return Ok(None) };
    match Record::decode(&windowed.body) {
        Some(record) => Ok(Some(record)),
        None => Err(RecordError::UnknownKey(key.to_string())),
    }
}

/// The key has led to this operation. While it goes on its record does not expire (C-3).
pub(crate) fn begun(namespace: &Namespace, keyed: &Keyed, operation_id: &OperationId) -> Change {
    let record = Record { hash: keyed.hash, operation_id: operation_id.clone() };
    let after = Windowed { expires_at: None, body: record.encode() };
    Change { id: id(namespace, keyed.key.value()), before: None, after }
}

/// What the operation led to is over: the key's record stays for its window.
pub(crate) fn ended(
    shared: &Shared,
    pending: Option<Change>,
    namespace: &Namespace,
    key: &str,
    expires_at: Timestamp,
) -> Result<Option<Change>, RecordError> {
    let id = id(namespace, key);
    let pending = match pending {
        Some(pending) => Some(pending),
        None => windows::get(&shared.store, &id)?.value.map(|before| Change {
            id,
            before: Some(before.clone()),
            after: before,
        }),
    };
    // Before the operation's own record, whose time this is.
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
        Keyed::new(&key, called, input).hash
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

    /// The stored form, byte by byte; anything else is not taken for one.
    #[test]
    fn the_stored_form() {
        let record = Record {
            hash: RequestHash::from_bytes([7; 32]),
            operation_id: OperationId::new("op-1").unwrap(),
        };
        let body = record.encode();
        assert_eq!(body, [&[1][..], &[7; 32], b"op-1"].concat());
        assert_eq!(Record::decode(&body), Some(record));
        for broken in [&body[..33], &body[..20], &[], &[&[2], &body[1..]].concat()] {
            assert_eq!(Record::decode(broken), None);
        }
    }
}
