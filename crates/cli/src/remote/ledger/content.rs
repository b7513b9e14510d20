//! Values, amounts, operations and transactions in words.

use data_encoding::BASE64;
use indelible_client::api::call::Verdict;
use indelible_client::api::ledger::{Committed, FailedOperation, LogEntry};
use indelible_journal::Codec;
use indelible_ledger::json::{Amount, Content, Operation, OperationResult, Origin, Payload};

use crate::print::plain;

/// How many operations of a transaction are named on its line.
const OPERATIONS_SHOWN: usize = 4;

/// What an entity holds: JSON and text as it is, an amount with its unit, other bytes in base64.
pub(super) fn content(content: &Content) -> String {
    match content {
        Content::Value(payload) => value(payload),
        Content::Amount(Amount { quantity, unit }) => format!("{} {}", quantity.0, unit.0),
    }
}

fn value(payload: &Payload) -> String {
    match payload.clone().read() {
        Err(error) => format!("({error})"),
        Ok(payload) => match str::from_utf8(&payload.bytes) {
            Ok(text) if [Codec::JSON, Codec::TEXT].contains(&payload.codec) => text.to_owned(),
            _ => format!("{}:{}", payload.codec, BASE64.encode(&payload.bytes)),
        },
    }
}

/// A transaction that was applied, now or before.
pub(super) fn committed(committed: &Committed) -> String {
    let height = match committed.height {
        Some(height) => format!("committed at height {height}"),
        None => "committed; the log has forgotten at which height".to_owned(),
    };
    let sequence = committed.sequence.map(|sequence| format!(", sequence {sequence}"));
    let before = match committed.verdict {
        Verdict::Fresh => "",
        _ => "; it was applied before, and not again",
    };
    let mut words = format!("{height}{}{before}", sequence.unwrap_or_default());
    for result in committed.results.iter().flatten() {
        if let Some(line) = result_line(result) {
            words += &format!("\n  {}", plain(&line));
        }
    }
    words
}

/// What an operation answered, if it is more than that it was applied.
fn result_line(result: &OperationResult) -> Option<String> {
    match result {
        OperationResult::Got(got) => Some(match &got.entity {
            Some(entity) => content(&entity.is),
            None => "no entity".to_owned(),
        }),
        OperationResult::Added(added) => Some(format!("balance {}", added.balance.0)),
        OperationResult::Transferred(both) => {
            Some(format!("balances {} and {}", both.from_balance.0, both.to_balance.0))
        }
        OperationResult::Started(started) => Some(format!("operation {}", started.operation_id.0)),
        OperationResult::Set(_) | OperationResult::Deleted(_) | OperationResult::Checked(_) => None,
    }
}

/// The operation that was refused, and what it met.
pub(in crate::remote) fn failed(failed: &FailedOperation) -> String {
    let met = match (&failed.current_version, &failed.current_value, &failed.current_hash) {
        (None, _, _) => "there is no entity".to_owned(),
        (Some(version), Some(current), _) => format!("version {version}: {}", content(current)),
        (Some(version), None, Some(hash)) => format!("version {version}: a value with hash {hash}"),
        (Some(version), None, None) => format!("version {version}"),
    };
    format!("operation {} of write {}, key {}: {met}", failed.index, failed.write, failed.key.0)
}

/// A transaction of the log, on one line.
pub(super) fn entry(entry: &LogEntry) -> String {
    let transaction = &entry.transaction;
    let origin = match &transaction.origin {
        Origin::Client(client) => format!("{}#{}", client.id.0, client.sequence),
        Origin::Key(key) => format!("key {}", key.0),
        Origin::Operation(id) => format!("operation {}", id.0),
        Origin::Promise(id) => format!("promise {}", id.0),
        Origin::Message(message) => format!("message {}/{}", message.source.0, message.id.0),
        Origin::Expiry => "expiry".to_owned(),
    };
    let all: Vec<&Operation> = transaction.writes.iter().flatten().collect();
    let shown: Vec<String> = all.iter().take(OPERATIONS_SHOWN).map(|one| operation(one)).collect();
    let more = match all.len().saturating_sub(OPERATIONS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let line = format!(
        "{}  {}  {}  {origin}  {}{more}",
        transaction.height,
        transaction.time.0,
        transaction.actor,
        shown.join(", ")
    );
    plain(&line) + "\n"
}

fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Set { key, .. } => format!("set {}", key.0),
        Operation::Delete { key, .. } => format!("delete {}", key.0),
        Operation::Check { key, .. } => format!("check {}", key.0),
        Operation::Get { key } => format!("get {}", key.0),
        Operation::Add { key, delta, .. } => format!("add {} to {}", delta.0, key.0),
        Operation::Transfer { from, to, quantity, .. } => {
            format!("transfer {} from {} to {}", quantity.0, from.0, to.0)
        }
        Operation::Start { function, .. } => format!("start {}", function.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A transaction is a line, whatever its keys and values are.
    #[test]
    fn a_transaction_on_a_line() {
        let hash = "0".repeat(64);
        let read: LogEntry = serde_json::from_value(json!({
            "transaction": {
                "height": 7, "id": "01234567-89ab-7fff-bfff-ffffffffffff",
                "time": "2026-01-02T03:04:05.000006Z", "actor": "client:app",
                "origin": {"client": {"id": "till", "sequence": 3}}, "kind": "batch",
                "writes": [
                    [{"transfer": {"from": "ann", "to": "bob", "quantity": "500"}}],
                    [{"add": {"key": "fees", "delta": -3}}, {"get": {"key": "\u{202e}x"}},
                        {"delete": {"key": "a"}}, {"delete": {"key": "b"}}],
                ],
                "before": [], "state_hash": hash, "head": hash,
            },
            "results": [],
        }))
        .unwrap();
        assert_eq!(
            entry(&read),
            "7  2026-01-02T03:04:05.000006Z  client:app  till#3  transfer 500 from ann to bob, add \
             -3 to fees, get \\u{202e}x, delete a and 1 more\n"
        );
    }

    /// What entities hold, and what a refused operation met.
    #[test]
    fn what_entities_hold() {
        let shown =
            |value: serde_json::Value| content(&serde_json::from_str(&value.to_string()).unwrap());
        assert_eq!(shown(json!({"amount": {"quantity": "-5", "unit": "EUR"}})), "-5 EUR");
        assert_eq!(shown(json!({"value": {"codec": "json", "value": [1]}})), "[1]");
        assert_eq!(shown(json!({"value": {"codec": "raw", "base64": "/w=="}})), "raw:/w==");
        let refused =
            |value: serde_json::Value| failed(&serde_json::from_str(&value.to_string()).unwrap());
        let none = json!({"write": 0, "index": 1, "key": "a", "current_version": null});
        assert_eq!(refused(none), "operation 1 of write 0, key a: there is no entity");
        let amount = json!({"amount": {"quantity": "5", "unit": "EUR"}});
        let some = json!({"write": 0, "index": 1, "key": "a", "current_version": 3,
            "current_value": amount});
        assert_eq!(refused(some), "operation 1 of write 0, key a: version 3: 5 EUR");
    }
}
