//! Records of operations and keys, for tests of the rows.
#![allow(clippy::unwrap_used, reason = "a test helper: a panic is how a test fails")]

use bytes::Bytes;
use indelible_idempotency::RequestHash;
use indelible_journal::{Attempt, Namespace, OperationId, OperationKey};
use indelible_operations::Binding;
use indelible_records::idempotency_keys::{KeyOutcome, KeyRecord};
use indelible_records::operations::Operation;
use indelible_records::windows::{Id, WindowedRecord};

use indelible_test_store::rows::{at, key};

/// The id of a record of this operation, in one namespace.
pub(crate) fn operation_row(name: &str) -> Id {
    let (namespace, operation_id) = (shop(), OperationId::new(name).unwrap());
    Id::operation(&OperationKey { namespace, operation_id })
}

pub(crate) fn shop() -> Namespace {
    Namespace::new("shop").unwrap()
}

/// The record of an operation that led to tree 1.
pub(crate) fn operation_record(
    expires_at: Option<u64>,
    led_by: Option<&str>,
    end: impl Into<Bytes>,
) -> WindowedRecord<Operation> {
    let record = Operation {
        root: *key(1, &[], &[1]).execution_id().root(),
        binding: Binding::from_bytes([0xbb; 32]),
        accepted_at: at(2),
        attempt: Attempt::FIRST,
        key: led_by.map(str::to_owned),
        end: Some(end.into()).filter(|end| !end.is_empty()),
    };
    WindowedRecord { expires_at: expires_at.map(at), record }
}

/// The record of a key that led to this.
pub(crate) fn key_record(expires_at: Option<u64>, led_to: KeyOutcome) -> WindowedRecord<KeyRecord> {
    let record = KeyRecord { hash: RequestHash::from_bytes([7; 32]), led_to };
    WindowedRecord { expires_at: expires_at.map(at), record }
}
