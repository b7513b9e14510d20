//! The ledger: vaults, transactions, and what is read of them.
//!
//! Operations, results, entities and records are those of [`indelible_ledger::json`]: one form for
//! requests, for their hashes, and for exports.

use std::fmt;

use indelible_journal::Timestamp;
use indelible_ledger::json::{Content, Entity, Operation, OperationResult, Record, Text};
use indelible_ledger::{
    ChainHash, ClientId, EntityKey, Incarnation, StateHash, TransactionId, VaultName,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call::Verdict;

/// A vault to be made, or its new settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaultSettings {
    /// How long the log is kept, in seconds; for good, if left out. At least as long as operations
    /// are remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_retention_seconds: Option<u64>,
}

/// A vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vault {
    /// Its name.
    pub vault: Text<VaultName>,
    /// The namespace that it belongs to.
    pub namespace: String,
    /// Which life of the name this is: a vault that is made again has another.
    pub incarnation: Text<Incarnation>,
    /// How many transactions it has had.
    pub height: u64,
    /// The time of the last one.
    pub time: Text<Timestamp>,
    /// The head of its chain.
    pub head: Text<ChainHash>,
    /// The hash of all of its entities.
    pub state_hash: Text<StateHash>,
    /// When it was made.
    pub created_at: Text<Timestamp>,
    /// How long its log is kept, in seconds; for good, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_retention_seconds: Option<u64>,
    /// Transactions above this height are in its log.
    pub log_from: u64,
    /// How often the data folder was restored from a backup.
    pub restores: u64,
}

/// A page of vaults, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vaults {
    /// The page.
    pub vaults: Vec<Vault>,
    /// Where to go on: `after` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Text<VaultName>>,
}

/// A vault was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedVault {
    /// When another vault can be made under its name: an old retry must not meet a new vault.
    pub name_free_at: Text<Timestamp>,
}

/// The number of a write in its client's stream, as it comes: a number that is too large is told from
/// one that makes no sense. Past 128 bits it is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SequenceNumber(pub u128);

impl Serialize for SequenceNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u128(self.0)
    }
}

impl<'de> Deserialize<'de> for SequenceNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Box::<RawValue>::deserialize(deserializer)?;
        let number = number.get();
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(de::Error::custom("a sequence is a whole number from 1"));
        }
        Ok(Self(number.parse().unwrap_or(u128::MAX)))
    }
}

impl JsonSchema for SequenceNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SequenceNumber".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1 })
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction: under a client's number, or under an idempotency key or an operation id in a
/// header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = Transact::example())]
pub struct Transact {
    /// Whose number it is. Left out under a key or an operation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Text<ClientId>>,
    /// The number: the last one plus 1, or that of the write that is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceNumber>,
    /// The attempt: one more after every refusal that the client saw. Late copies of what was refused
    /// are then never applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub attempt: Option<u32>,
    /// The vault that the request is meant for. It is not applied to another of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Text<Incarnation>>,
    /// What it does, all or nothing.
    #[schemars(length(min = 1))]
    pub operations: Vec<Operation>,
}

/// Several writes under one number, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = TransactBatch::example())]
pub struct TransactBatch {
    /// Whose number it is.
    pub client_id: Text<ClientId>,
    /// The number: the last one plus 1, or that of the batch that is repeated.
    pub sequence: SequenceNumber,
    /// The attempt: one more after every refusal that the client saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub attempt: Option<u32>,
    /// The vault that the request is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Text<Incarnation>>,
    /// The writes, in order.
    #[schemars(length(min = 1))]
    pub writes: Vec<Write>,
}

/// A write of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// What it does.
    #[schemars(length(min = 1))]
    pub operations: Vec<Operation>,
}

/// Consecutive transactions of one client. Each has a result of its own; the first refusal stops the
/// run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = TransactRun::example())]
pub struct TransactRun {
    /// Whose numbers they are.
    pub client_id: Text<ClientId>,
    /// The attempt of all of them: one more after every refusal that the client saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub attempt: Option<u32>,
    /// The vault that the request is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Text<Incarnation>>,
    /// The transactions, each with the number after the one before it.
    #[schemars(length(min = 1))]
    pub transactions: Vec<RunTransaction>,
}

/// A transaction of a run: with operations or, if it is a batch, with writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTransaction {
    /// Its number.
    pub sequence: SequenceNumber,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<Operation>>,
    /// The writes of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<Vec<Write>>,
}

/// A transaction that was applied, now or before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Committed {
    /// Fresh: now. PriorResult: before.
    pub verdict: Verdict,
    /// `ALREADY_COMMITTED`: it was applied before, and the answer of then is not known as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The number of the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_number: Option<u8>,
    /// The client's number; left out under a key or an operation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Its id. Left out, like what follows, if the log has forgotten it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<Text<TransactionId>>,
    /// Its height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    /// Its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Text<Timestamp>>,
    /// The head of the chain after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Text<ChainHash>>,
    /// What each operation answered, in order; of a batch, write by write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<OperationResult>>,
    /// The vault to which it was applied.
    pub incarnation: Text<Incarnation>,
    /// How often the data folder was restored from a backup.
    pub restores: u64,
}

/// A run of which every transaction was applied, now or before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommittedRun {
    /// The transactions, in order.
    pub results: Vec<Committed>,
}

/// Why a transaction was not applied, as a problem document has it in `refusal`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// The number of the code.
    pub code_number: u8,
    /// The client's number; left out under a key or an operation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceNumber>,
    /// Of a run: the transactions before this one. They were applied, now or before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<Committed>>,
    /// The first operation that failed, if that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<FailedOperation>,
    /// The last committed number of the client; 0 before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_committed_sequence: Option<u64>,
    /// Of a gap: the data folder was restored from a backup since, and what the client knows to be
    /// committed may be gone. It must not renumber its writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<bool>,
    /// Of `STALE_ATTEMPT`: the attempt that was refused before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedAttempt>,
}

/// The first operation that failed, and what it met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedOperation {
    /// Which write, from 0; 0 unless it is a batch.
    pub write: usize,
    /// Which operation of that write, from 0.
    pub index: usize,
    /// The entity that it is about.
    pub key: Text<EntityKey>,
    /// The version that the entity has; `null` if there is none.
    pub current_version: Option<u64>,
    /// What the entity holds; left out if it is a value of more than 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_value: Option<Content>,
    /// The SHA-256 of the value, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_hash: Option<String>,
}

/// An attempt that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedAttempt {
    /// The attempt.
    pub attempt: u32,
    /// The number that it was for.
    pub sequence: u64,
    /// The hash of the request.
    pub request_hash: String,
    /// Why.
    pub code: String,
    /// The number of that code.
    pub code_number: u8,
}

/// How a client's stream stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientState {
    /// Whose stream.
    pub client_id: Text<ClientId>,
    /// The vault; left out of a namespace to which nothing was written yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Text<Incarnation>>,
    /// How often the data folder was restored from a backup.
    pub restores: u64,
    /// The last committed number; 0 before the first. The next is one more.
    pub last_committed_sequence: u64,
    /// That transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCommitted>,
    /// To whom the client id belongs; left out before its first write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The highest attempt that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedAttempt>,
    /// The attempt to send next. None: there is none left, and the client takes another id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<u32>,
    /// What the transaction under the number that was asked for was answered; left out if that number
    /// was not committed, or is no longer in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// The last committed transaction of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastCommitted {
    /// Its id.
    pub transaction: Text<TransactionId>,
    /// Its height.
    pub height: u64,
    /// Its time.
    pub time: Text<Timestamp>,
    /// The hash of its request.
    pub request_hash: String,
}

/// What is kept of a committed transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The hash of its request.
    pub request_hash: String,
    /// Its id.
    pub transaction: Text<TransactionId>,
    /// Its height.
    pub height: u64,
    /// Its time.
    pub time: Text<Timestamp>,
    /// The head of the chain after it.
    pub head: Text<ChainHash>,
    /// What each operation answered, in order.
    pub results: Vec<OperationResult>,
}

/// An operator hands a client id over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// To whom: `user:…`, `client:…` or `system:…`.
    #[schemars(length(min = 1, max = 1024))]
    pub owner: String,
    /// Why: kept in the audit record.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// What is under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntityAt {
    /// The height at which this holds.
    pub height: u64,
    /// The key.
    pub key: Text<EntityKey>,
    /// The entity; `null` if there is none.
    pub entity: Option<Entity>,
}

/// A page of entities, by ascending keys (bytes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entities {
    /// The height at which this holds. A later page without `at` may have another.
    pub height: u64,
    /// The page.
    pub entities: Vec<KeyedEntity>,
    /// Where to go on: `after` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Text<EntityKey>>,
}

/// An entity and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyedEntity {
    /// The key.
    pub key: Text<EntityKey>,
    /// The entity.
    pub entity: Entity,
}

/// A page of the history of a key, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The height up to which this holds.
    pub height: u64,
    /// The page.
    pub versions: Vec<Version>,
    /// Where to go on: `before` of the next request. None: that was all that the log has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// What a key held from one height on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The height.
    pub version: u64,
    /// The entity; `null` if it was deleted then.
    pub entity: Option<Entity>,
}

/// A page of the log, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The height of the vault.
    pub height: u64,
    /// The page. It may be shorter than asked for although more follow.
    pub transactions: Vec<LogEntry>,
    /// Where to go on: `from` of the next request. None: that was all that there is yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A transaction with its proof, and what it answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// The transaction, as a line of an export has it.
    pub transaction: Record,
    /// What each operation answered, in order; of a batch, write by write.
    pub results: Vec<OperationResult>,
}

/// The state of a vault at a height.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateAt {
    /// The height.
    pub height: u64,
    /// The time of the transaction at that height.
    pub time: Text<Timestamp>,
    /// The head of the chain.
    pub head: Text<ChainHash>,
    /// The hash of all entities.
    pub state_hash: Text<StateHash>,
}

/// What the document shows.
fn example_operations() -> Value {
    json!([{"add": {"key": "till", "delta": "5", "unit": "EUR", "min": "0"}}])
}

impl Transact {
    fn example() -> Value {
        let operations = example_operations();
        json!({"client_id": "till-1", "sequence": 1, "attempt": 1, "operations": operations})
    }
}

impl TransactBatch {
    fn example() -> Value {
        let writes = json!([{ "operations": example_operations() }]);
        json!({"client_id": "till-2", "sequence": 1, "attempt": 1, "writes": writes})
    }
}

impl TransactRun {
    fn example() -> Value {
        let transactions = json!([{"sequence": 1, "operations": example_operations()}]);
        json!({"client_id": "till-3", "attempt": 1, "transactions": transactions})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-49: a number past the last one is read, however long it is; what is no number is refused.
    #[test]
    fn sequences_are_read_whole() {
        let read = |text: &str| serde_json::from_str::<SequenceNumber>(text);
        let long = "9".repeat(60);
        for (text, number) in [
            ("0", 0),
            ("18446744073709551615", u128::from(u64::MAX)),
            ("18446744073709551616", u128::from(u64::MAX) + 1),
            (long.as_str(), u128::MAX),
        ] {
            assert_eq!(read(text).unwrap().0, number);
        }
        assert_eq!(serde_json::to_string(&SequenceNumber(7)).unwrap(), "7");
        for wrong in ["-1", "1.0", "1e3", "\"1\"", "null", "[]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    /// What the document shows can be sent.
    #[test]
    fn examples_are_requests() {
        serde_json::from_str::<Transact>(&Transact::example().to_string()).unwrap();
        serde_json::from_str::<TransactBatch>(&TransactBatch::example().to_string()).unwrap();
        serde_json::from_str::<TransactRun>(&TransactRun::example().to_string()).unwrap();
    }

    /// Q-18: no body names an actor, and no field is passed over.
    #[test]
    fn requests_are_read_strictly() {
        let operations = r#""operations":[{"get":{"key":"a"}}]"#;
        let read = |rest: &str| {
            let text = format!(r#"{{{operations}{rest}}}"#);
            serde_json::from_str::<Transact>(&text).is_ok()
        };
        assert!(read("") && read(r#","client_id":"c","sequence":1,"attempt":1"#));
        for wrong in [
            r#","actor":"user:root""#,
            r#","client_id":"""#,
            r#","client_id":" ""#,
            r#","attempt":-1"#,
            r#","attempt":4294967296"#,
            r#","incarnation":"x""#,
            r#","x":1"#,
        ] {
            assert!(!read(wrong), "{wrong}");
        }
    }
}
