//! The record of a caller's idempotency key: which operation a request under it led to (C-31), or
//! what was answered to a request that changed something else. It is looked up before any id is
//! made, and no id contains the key.
//!
//! ```text
//! body, version 1:   01 ‖ request hash (32) ‖ operation id
//! body, version 2:   02 ‖ request hash (32) ‖ answer
//! body, version 3:   03 ‖ request hash (32) ‖ root hash of the target (32), zeros for the server
//! ```
//! Version 1 is that of a start. It is written in the commit that starts the execution, and goes
//! with the operation's own record, a moment before it: a key that is there always leads somewhere.
//! Version 2 is that of everything else. It is written in the commit of what was done, and goes by
//! the same window.
//!
//! The key and what a request changes can be in different slots, which different nodes may own. Then
//! there are two steps (C-80): the key's slot notes what is to be changed, durably (version 3); then
//! the target commits the change, and the answer (version 2, in the table `answers`) with it. A
//! repetition goes from the key to the target to the answer; a note without an answer says that the
//! change was not made. A note that led to a refusal is removed before the refusal is told.

use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use indelible_idempotency::{IdempotencyKey, Limits, RequestHash, canonicalize};
use indelible_journal::{
    Codec, ComponentDigest, DeliveryId, Namespace, OperationId, Payload, RootHash, Timestamp,
};
use indelible_records::windows::{self, Id, Kind, Windowed};
use sha2::{Digest as _, Sha256};

use crate::key_locks::KeyLock;
use crate::operation::{self, Change, RecordError};
use crate::shared::Shared;
use crate::tree::command::Cancelling;

const VERSION: u8 = 1;
const VERSION_ANSWER: u8 = 2;
const VERSION_NOTE: u8 = 3;

/// What stands for the server among the targets of notes. No tree has this root.
const SERVER: RootHash = RootHash::from_bytes([0; 32]);

/// The deepest input that is taken for JSON.
const DEPTH_MAX: usize = 128;

/// A start under a caller's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) key: IdempotencyKey,
    /// What must not differ in a repetition (C-6, C-31): what is called, and the input's codec and
    /// canonical form. The version of the component is not in it.
    pub(crate) hash: RequestHash,
}

impl Keyed {
    pub(crate) fn new(key: &IdempotencyKey, called: &str, input: &Payload) -> Self {
        let hash = Requested(Sha256::new()).text(called).payload(input).hash();
        Self { key: key.clone(), hash }
    }
}

/// What must not differ in the repetition of a request, part by part.
pub(crate) struct Requested(Sha256);

impl Requested {
    /// A request of this kind that is not a start.
    pub(crate) fn new(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    /// A text; its length keeps it apart from what follows.
    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// A payload, which is the last part.
    pub(crate) fn payload(mut self, payload: &Payload) -> Self {
        self.0.update([payload.codec.number()]);
        match canonical(payload) {
            Some(canonical) => self.0.update(canonical),
            // What has no canonical form is compared byte by byte.
            None => self.0.update(&payload.bytes),
        }
        self
    }

    pub(crate) fn hash(self) -> RequestHash {
        RequestHash::from_bytes(self.0.finalize().into())
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

/// A request under a key that nothing is known of. Its holder is alone at the key.
#[derive(Debug, Clone)]
pub(crate) struct UnderKey {
    pub(crate) id: Id,
    pub(crate) hash: RequestHash,
    /// What the request changes; none is the server itself.
    pub(crate) target: Option<RootHash>,
    /// What the key's slot has noted, if the target is in another one.
    pub(crate) note: Option<Windowed>,
    /// Held until what was asked for is accepted: the next request under the key comes after that,
    /// and finds the record.
    pub(crate) _lock: Arc<KeyLock>,
}

impl UnderKey {
    /// The change that makes, or renews, the note of a request whose target is in another slot.
    pub(crate) fn noted(&self, shared: &Shared) -> Change {
        let led_to = LedTo::Target(self.target.unwrap_or(SERVER));
        let record = Record { hash: self.hash, led_to };
        // Renewed with each attempt: its window, and the answer's, begin when the change is made.
        let expires_at = Some(operation::expires_at(shared, None));
        let after = Windowed { expires_at, body: record.encode() };
        Change { id: self.id.clone(), before: self.note.clone(), after }
    }

    /// Where the answer is, if the target is in another slot than the key.
    fn answer_id(&self) -> Id {
        Id::answer(&self.id.namespace, self.target.as_ref(), &self.id.name)
    }
}

/// What was answered under a key, at the target that its note names.
pub(crate) fn answer_at(
    shared: &Shared,
    id: &Id,
    target: &RootHash,
) -> Result<Option<Record>, RecordError> {
    find(shared, &Id::answer(&id.namespace, Some(target), &id.name))
}

/// What was answered to a request under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// That it is done.
    Done,
    Delivered(DeliveryId),
    Cancelling(Cancelling),
    Deployed {
        digest: ComponentDigest,
        known: bool,
    },
}

/// Something that is answered under a key, and can be told again.
pub(crate) trait Answered: Sized {
    fn answer(&self) -> Answer;
    /// None: it is the answer to another kind of request.
    fn told(answer: Answer) -> Option<Self>;
}

impl Answered for () {
    fn answer(&self) -> Answer {
        Answer::Done
    }

    fn told(answer: Answer) -> Option<Self> {
        (answer == Answer::Done).then_some(())
    }
}

impl Answered for DeliveryId {
    fn answer(&self) -> Answer {
        Answer::Delivered(*self)
    }

    fn told(answer: Answer) -> Option<Self> {
        if let Answer::Delivered(delivery) = answer { Some(delivery) } else { None }
    }
}

impl Answered for Cancelling {
    fn answer(&self) -> Answer {
        Answer::Cancelling(*self)
    }

    fn told(answer: Answer) -> Option<Self> {
        if let Answer::Cancelling(cancelling) = answer { Some(cancelling) } else { None }
    }
}

impl Answer {
    fn encode(self, body: &mut BytesMut) {
        match self {
            Self::Done => body.put_u8(0),
            Self::Delivered(delivery) => {
                body.put_u8(1);
                body.put_u64(delivery.get());
            }
            Self::Cancelling(Cancelling::Requested) => body.put_slice(&[2, 0]),
            Self::Cancelling(Cancelling::Already) => body.put_slice(&[2, 1]),
            Self::Deployed { digest, known } => {
                body.put_u8(3);
                body.put_slice(digest.as_bytes());
                body.put_u8(known.into());
            }
        }
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (&kind, mut rest) = body.split_first()?;
        Some(match (kind, rest.len()) {
            (0, 0) => Self::Done,
            (1, 8) => Self::Delivered(DeliveryId::new(rest.get_u64())?),
            (2, 1) => Self::Cancelling(match rest[0] {
                0 => Cancelling::Requested,
                1 => Cancelling::Already,
                _ => return None,
            }),
            (3, 33) => {
                let (digest, known) = rest.split_first_chunk()?;
                let known = match known {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                };
                Self::Deployed { digest: ComponentDigest::from_bytes(*digest), known }
            }
            _ => return None,
        })
    }
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) hash: RequestHash,
    pub(crate) led_to: LedTo,
}

/// What a request under a key led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LedTo {
    /// It was a start.
    Operation(OperationId),
    /// It was anything else.
    Answer(Answer),
    /// It was anything else, and this tree, or the server, has the answer.
    Target(RootHash),
}

impl Record {
    fn encode(&self) -> Bytes {
        let mut body = BytesMut::with_capacity(70);
        let version = match &self.led_to {
            LedTo::Operation(_) => VERSION,
            LedTo::Answer(_) => VERSION_ANSWER,
            LedTo::Target(_) => VERSION_NOTE,
        };
        body.put_u8(version);
        body.put_slice(self.hash.as_bytes());
        match &self.led_to {
            LedTo::Operation(id) => body.put_slice(id.as_str().as_bytes()),
            LedTo::Answer(answer) => answer.encode(&mut body),
            LedTo::Target(target) => body.put_slice(target.as_bytes()),
        }
        body.freeze()
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (&version, rest) = body.split_first()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let led_to = match version {
            VERSION => LedTo::Operation(OperationId::new(std::str::from_utf8(rest).ok()?).ok()?),
            VERSION_ANSWER => LedTo::Answer(Answer::decode(rest)?),
            VERSION_NOTE => LedTo::Target(RootHash::from_bytes(rest.try_into().ok()?)),
            _ => return None,
        };
        Some(Self { hash: RequestHash::from_bytes(*hash), led_to })
    }
}

/// The record of a key, in this namespace.
pub(crate) fn id(namespace: &Namespace, key: &str) -> Id {
    Id { kind: Kind::IdempotencyKey, namespace: namespace.clone(), name: key.to_owned() }
}

/// The record of a key, in its own namespace.
pub(crate) fn id_of(key: &IdempotencyKey) -> Id {
    let namespace = Namespace::new(key.namespace().as_str());
    id(&namespace.expect("a consumer's namespace is a short word of few letters"), key.value())
}

/// What is known of a key.
pub(crate) fn find(shared: &Shared, id: &Id) -> Result<Option<Record>, RecordError> {
    Ok(find_windowed(shared, id)?.map(|(record, _)| record))
}

/// The same, and the row as it is.
pub(crate) fn find_windowed(
    shared: &Shared,
    id: &Id,
) -> Result<Option<(Record, Windowed)>, RecordError> {
    let Some(windowed) = windows::get(&shared.store, id)?.value else { return Ok(None) };
    match Record::decode(&windowed.body) {
        Some(record) => Ok(Some((record, windowed))),
        None => Err(RecordError::UnknownKey(format!("{}/{}", id.namespace, id.name))),
    }
}

/// What was asked for under the key is done: its record stays for its window.
pub(crate) fn done(shared: &Shared, under: &UnderKey, answer: Answer) -> Change {
    let record = Record { hash: under.hash, led_to: LedTo::Answer(answer) };
    let mut expires_at = operation::expires_at(shared, None);
    let id = match &under.note {
        None => under.id.clone(),
        Some(note) => {
            // The note goes first: as long as it is there, the answer is.
            let noted = note.expires_at.map_or(0, |at| at.as_micros() + 1);
            expires_at = expires_at.max(Timestamp::from_micros(noted).unwrap_or(Timestamp::MAX));
            under.answer_id()
        }
    };
    let after = Windowed { expires_at: Some(expires_at), body: record.encode() };
    Change { id, before: None, after }
}

/// The key has led to this operation. While it goes on its record does not expire (C-3).
pub(crate) fn begun(namespace: &Namespace, keyed: &Keyed, operation_id: &OperationId) -> Change {
    let led_to = LedTo::Operation(operation_id.clone());
    let record = Record { hash: keyed.hash, led_to };
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

    /// The stored forms, byte by byte; anything else is not taken for one.
    #[test]
    fn the_stored_forms() {
        let digest = ComponentDigest::from_bytes([9; 32]);
        let answers = [
            (Answer::Done, vec![0]),
            (Answer::Delivered(DeliveryId::FIRST), vec![1, 0, 0, 0, 0, 0, 0, 0, 1]),
            (Answer::Cancelling(Cancelling::Requested), vec![2, 0]),
            (Answer::Cancelling(Cancelling::Already), vec![2, 1]),
            (Answer::Deployed { digest, known: true }, [&[3], &[9; 32][..], &[1]].concat()),
        ];
        let answers = answers.map(|(answer, bytes)| (2, LedTo::Answer(answer), bytes));
        let operation = LedTo::Operation(OperationId::new("op-1").unwrap());
        let note = (3, LedTo::Target(RootHash::from_bytes([5; 32])), vec![5; 32]);
        let all = [(1, operation, b"op-1".to_vec()), note].into_iter().chain(answers);
        for (version, led_to, rest) in all {
            let record = Record { hash: RequestHash::from_bytes([7; 32]), led_to };
            let body = record.encode();
            assert_eq!(body, [&[version][..], &[7; 32], &rest].concat());
            assert_eq!(Record::decode(&body), Some(record));
            for broken in [&body[..33], &body[..20], &[], &[&[4], &body[1..]].concat()] {
                assert_eq!(Record::decode(broken), None);
            }
            if version != 1 {
                assert_eq!(Record::decode(&[&body[..], &[0]].concat()), None);
            }
        }
    }
}
