//! A request as it was checked: its operations within every bound, and the hash that tells two
//! requests under one name apart.

use indelible_idempotency::RequestHash;
use sha2::{Digest as _, Sha256};

use crate::bounds::Limits;
use crate::json;
use crate::operation::{Operation, OperationResult};

/// Whether a request is a single write or a batch. The kind is hashed: a batch under the number of a
/// single write is another request (C-45).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One write.
    Single,
    /// Several writes, applied in their order, all or none.
    Batch,
}

/// The operations of one transaction, and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    kind: Kind,
    operations: Vec<Operation>,
    /// Where each write ends.
    ends: Vec<usize>,
    hash: RequestHash,
}

/// Where an operation stands in its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which write of a batch, from 0; 0 of a single write.
    pub write: usize,
    /// Which operation of that write, from 0.
    pub operation: usize,
}

impl Request {
    /// A single write.
    pub fn single(operations: Vec<Operation>, limits: &Limits) -> Result<Self, RequestError> {
        Self::checked(Kind::Single, vec![operations], limits)
    }

    /// A batch (impl Q-14): all writes are of one scope and one client, and share one number.
    pub fn batch(writes: Vec<Vec<Operation>>, limits: &Limits) -> Result<Self, RequestError> {
        at_most("writes in the batch", writes.len(), limits.batch_writes_max)?;
        Self::checked(Kind::Batch, writes, limits)
    }

    /// A request as it was stored, with its hash. Its bounds were checked when it was new.
    pub fn stored(kind: Kind, writes: Vec<Vec<Operation>>, hash: RequestHash) -> Self {
        let mut operations = Vec::new();
        let mut ends = Vec::with_capacity(writes.len());
        for write in writes {
            operations.extend(write);
            ends.push(operations.len());
        }
        Self { kind, operations, ends, hash }
    }

    fn checked(
        kind: Kind,
        writes: Vec<Vec<Operation>>,
        limits: &Limits,
    ) -> Result<Self, RequestError> {
        if writes.is_empty() {
            return Err(RequestError::Empty { write: 0 });
        }
        let request = Self::stored(kind, writes, RequestHash::from_bytes([0; 32]));
        for (write, operations) in request.writes().enumerate() {
            if operations.is_empty() {
                return Err(RequestError::Empty { write });
            }
        }
        at_most("operations", request.operations.len(), limits.operations_max)?;
        for (index, operation) in request.operations.iter().enumerate() {
            check(operation, limits)
                .map_err(|why| RequestError::Operation { place: request.place(index), why })?;
        }
        at_most("bytes in the transaction", request.bytes(), limits.transaction_bytes_max)?;
        let hash = request.hashed();
        Ok(Self { hash, ..request })
    }

    /// Single or batch.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// All operations, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations, write by write; a single write is one.
    pub fn writes(&self) -> impl Iterator<Item = &[Operation]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.operations[start..*end])
    }

    /// The results of all operations, write by write.
    pub fn results_of<'a>(
        &'a self,
        results: &'a [OperationResult],
    ) -> impl Iterator<Item = &'a [OperationResult]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &results[start..*end])
    }

    /// What it is compared by (C-5).
    pub fn hash(&self) -> RequestHash {
        self.hash
    }

    /// Where the operation with this index stands.
    pub fn place(&self, index: usize) -> Place {
        let write = self.ends.partition_point(|end| *end <= index);
        let start = write.checked_sub(1).map_or(0, |before| self.ends[before]);
        Place { write, operation: index - start }
    }

    /// What it counts towards the bounds of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.operations.iter().map(Operation::bytes).sum()
    }

    /// SHA-256 over canonical JSON of kind and operations (impl C-5, C-45). A value of the codec `json`
    /// is hashed as the JSON that it means: a client that orders members anew for a retry sends the
    /// same request.
    fn hashed(&self) -> RequestHash {
        let canonical = serde_json::to_vec(&json::Hashed::of(self)).expect("JSON into memory");
        RequestHash::from_bytes(Sha256::digest(canonical).into())
    }
}

fn check(operation: &Operation, limits: &Limits) -> Result<(), OperationError> {
    match operation {
        Operation::Transfer { quantity, .. } if *quantity <= 0 => {
            return Err(OperationError::NotPositive { quantity: *quantity });
        }
        Operation::Transfer { from, to, .. } if from == to => {
            return Err(OperationError::SameEntity);
        }
        _ => {}
    }
    let (bytes, max) = (operation.value_bytes(), limits.value_bytes_max);
    if bytes > max { Err(OperationError::ValueTooLarge { bytes, max }) } else { Ok(()) }
}

pub(crate) fn at_most(what: &'static str, got: usize, max: usize) -> Result<(), RequestError> {
    if got > max { Err(RequestError::TooMany { what, got, max }) } else { Ok(()) }
}

/// Why operations are no request. Nothing was looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A write without an operation.
    #[error("write {write} has no operation")]
    Empty {
        /// Which write, from 0.
        write: usize,
    },
    /// Past one of the [`Limits`].
    #[error("{got} {what}; at most {max} are allowed")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        got: usize,
        /// How much there may be.
        max: usize,
    },
    /// An operation that makes no sense.
    #[error("operation {} of write {}: {why}", .place.operation, .place.write)]
    Operation {
        /// Which one.
        place: Place,
        /// What is wrong with it.
        why: OperationError,
    },
}

/// Why an operation makes no sense, whatever the vault holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// A transfer of nothing, or of less.
    #[error("the quantity {quantity} of a transfer must be more than 0")]
    NotPositive {
        /// How much was to be transferred.
        quantity: i128,
    },
    /// A transfer from an entity to itself.
    #[error("a transfer needs two entities; `from` and `to` are the same key")]
    SameEntity,
    /// A value or input past its bound.
    #[error("the value has {bytes} bytes; at most {max} are allowed")]
    ValueTooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        max: usize,
    },
}

#[cfg(test)]
mod tests {
    use indelible_idempotency::canonicalize;
    use indelible_journal::{Codec, FunctionName, Payload};

    use super::*;
    use crate::hashes::ValueHash;
    use crate::names::{EntityKey, Unit};
    use crate::numbers::Height;
    use crate::operation::Condition;
    use crate::value::Content;

    /// C-45: what is hashed is canonical JSON as it is written, whatever the values.
    #[test]
    fn what_is_hashed_is_canonical() {
        let key = || EntityKey::new("\"é\u{fb33}").unwrap();
        let unit = || Some(Unit::new("EUR").unwrap());
        let codecs = [Codec::JSON, Codec::TEXT, Codec::RAW];
        let texts = ["{\"b\":1.0,\n\"a\":[]}", "no json \u{1}\u{7f}", "null", "{\"a\":1,\"a\":2}"];
        let payloads =
            codecs.iter().flat_map(|codec| texts.map(|text| Payload::new(*codec, text.as_bytes())));
        let payloads: Vec<Payload> = payloads.chain([Payload::json(vec![0xff])]).collect();
        let mut conditions = vec![
            None,
            Some(Condition::Absent),
            Some(Condition::Present),
            Some(Condition::Version(Height::new(u64::MAX))),
            Some(Condition::Hash(ValueHash::of(b"1"))),
            Some(Condition::Content(Content::amount(-1, Unit::new("EUR").unwrap()))),
        ];
        let is = |payload: &Payload| Some(Condition::Content(Content::value(payload.clone())));
        conditions.extend(payloads.iter().map(is));
        let mut operations = vec![
            Operation::Get { key: key() },
            Operation::Transfer {
                from: EntityKey::new("a").unwrap(),
                to: key(),
                quantity: i128::MAX,
                unit: unit(),
                min: Some(1),
                max: Some(2),
            },
        ];
        for condition in conditions {
            let expires_at = Some(indelible_journal::Timestamp::MAX);
            let content = Content::amount(i128::MIN, Unit::new("EUR").unwrap());
            let (min, max) = (Some(-1), Some(1));
            operations.extend([
                Operation::Delete { key: key(), condition: condition.clone() },
                Operation::Set { key: key(), content, expires_at, condition: condition.clone() },
                Operation::Add {
                    key: key(),
                    delta: 0,
                    unit: unit(),
                    min,
                    max,
                    condition: condition.clone(),
                },
            ]);
            operations
                .extend(condition.map(|condition| Operation::Check { key: key(), condition }));
        }
        operations.extend(
            payloads
                .into_iter()
                .map(|input| Operation::Start { function: FunctionName::new("f").unwrap(), input }),
        );
        let limits = Limits::DEFAULT;
        for request in [
            Request::single(operations.clone(), &limits).unwrap(),
            Request::batch(vec![operations.clone(), operations], &limits).unwrap(),
        ] {
            let json = serde_json::to_string(&json::Hashed::of(&request)).unwrap();
            let canonical = canonicalize(&json, &indelible_idempotency::Limits::default()).unwrap();
            assert_eq!(String::from_utf8(canonical).unwrap(), json);
        }
    }
}
