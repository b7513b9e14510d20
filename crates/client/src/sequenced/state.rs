//! What a state file says: a line of JSON, and a line with its checksum. Pure.
//!
//! The format is described in `docs/formats/ledger-client.md`.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// What the file says that it is.
const FORMAT: &str = "indelible-ledger-client";
/// The version of the format.
const VERSION: u32 = 1;

/// Whose numbers a file keeps: a client, in a scope, of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamName {
    /// The server's address, or the name that the program has for it.
    pub server: String,
    /// The namespace; `None` is the credential's only one.
    pub namespace: Option<String>,
    /// The vault; `None` is the namespace's own scope.
    pub vault: Option<String>,
    /// The client id.
    pub client: String,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, namespace, vault, client } = self;
        let namespace = namespace.as_deref().unwrap_or("the only namespace");
        match vault {
            Some(vault) => write!(f, "client {client:?} in {namespace}/{vault} of {server}"),
            None => write!(f, "client {client:?} in {namespace} of {server}"),
        }
    }
}

/// What is known of a stream, and the request that was sent last or is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileState {
    pub(crate) stream: StreamName,
    /// The incarnation of the scope; `None` until the server has said it.
    pub(crate) incarnation: Option<String>,
    /// How often the store had been restored when the server last said it.
    pub(crate) restores: u64,
    /// The last number of which the client knows that it is committed.
    pub(crate) committed: u64,
    /// The attempt of the request, or of the next one.
    pub(crate) attempt: u32,
    pub(crate) request: Option<KeptRequest>,
}

/// Which path takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Door {
    Transactions,
    Batches,
    Runs,
}

impl Door {
    pub(crate) const fn segment(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Batches => "batches",
            Self::Runs => "runs",
        }
    }
}

/// A request as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptRequest {
    pub(crate) door: Door,
    /// Its first number.
    pub(crate) first: u64,
    /// How many numbers it has: more than one for a run alone.
    pub(crate) count: u32,
    /// Its exact bytes.
    pub(crate) body: String,
}

/// The body of a request at any of the doors. Operations are texts that stay as they are.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) incarnation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operations: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writes: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transactions: Option<Vec<RunMember>>,
}

/// A transaction of a run: a single write, or a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunMember {
    pub(crate) sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operations: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writes: Option<Box<RawValue>>,
}

impl Body {
    /// With its numbers from this one on.
    pub(crate) fn numbered(mut self, first: u64) -> Self {
        match &mut self.transactions {
            Some(transactions) => {
                for (sequence, transaction) in (first..).zip(transactions) {
                    transaction.sequence = sequence;
                }
            }
            None => self.sequence = Some(first),
        }
        self
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("JSON into memory")
    }
}

impl KeptRequest {
    /// The last of its numbers.
    pub(crate) fn last(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count).saturating_sub(1))
    }

    /// The same operations under other numbers. `None`: the body is not one of this client.
    pub(crate) fn renumbered(&self, first: u64, attempt: u32) -> Option<Self> {
        let body: Body = serde_json::from_str(&self.body).ok()?;
        let body = Body { attempt: Some(attempt), ..body.numbered(first) }.text();
        Some(Self { first, body, ..self.clone() })
    }
}

/// Why the bytes of a file are not a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Cut off, or changed: the checksum is of something else.
    Torn,
    /// A later version of the format.
    Version(u32),
    /// Another kind of file.
    Other,
}

/// The line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    format: String,
    version: u32,
    server: String,
    namespace: Option<String>,
    vault: Option<String>,
    client: String,
    incarnation: Option<String>,
    restores: u64,
    committed: u64,
    attempt: u32,
    request: Option<KeptRequest>,
}

impl FileState {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { stream, incarnation, restores, committed, attempt, request } = self.clone();
        let StreamName { server, namespace, vault, client } = stream;
        let (format, version) = (FORMAT.to_owned(), VERSION);
        let line = Line {
            format,
            version,
            server,
            namespace,
            vault,
            client,
            incarnation,
            restores,
            committed,
            attempt,
            request,
        };
        let line = serde_json::to_string(&line).expect("JSON into memory");
        let checksum = checksum(line.as_bytes());
        format!("{line}\n{checksum}\n").into_bytes()
    }

    /// What the bytes say.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let text = str::from_utf8(bytes).map_err(|_| Unreadable::Torn)?;
        let (line, sum) = text.split_once('\n').ok_or(Unreadable::Torn)?;
        if sum.strip_suffix('\n') != Some(checksum(line.as_bytes()).as_str()) {
            return Err(Unreadable::Torn);
        }
        if let Some(version) = version_of(line).filter(|version| *version != VERSION) {
            return Err(Unreadable::Version(version));
        }
        let line: Line = serde_json::from_str(line).map_err(|_| Unreadable::Other)?;
        if line.format != FORMAT {
            return Err(Unreadable::Other);
        }
        let Line { server, namespace, vault, client, .. } = line;
        Ok(Self {
            stream: StreamName { server, namespace, vault, client },
            incarnation: line.incarnation,
            restores: line.restores,
            committed: line.committed,
            attempt: line.attempt,
            request: line.request,
        })
    }
}

/// The version of a file of this kind, which may have fields of its own.
fn version_of(line: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        format: String,
        version: u32,
    }
    let read: Versioned = serde_json::from_str(line).ok()?;
    (read.format == FORMAT).then_some(read.version)
}

fn checksum(line: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = include_bytes!("../../tests/fixtures/ledger-client-1.state");

    fn fixture() -> FileState {
        let body = r#"{"client_id":"app","sequence":7,"attempt":2,"incarnation":"0198f2d6-0000-7000-8000-000000000001","operations":[{"add":{"key":"a","delta":"5","unit":"EUR"}}]}"#;
        FileState {
            stream: StreamName {
                server: "http://127.0.0.1:7070".to_owned(),
                namespace: Some("shop".to_owned()),
                vault: Some("wallets".to_owned()),
                client: "app".to_owned(),
            },
            incarnation: Some("0198f2d6-0000-7000-8000-000000000001".to_owned()),
            restores: 1,
            committed: 6,
            attempt: 2,
            request: Some(KeptRequest {
                door: Door::Transactions,
                first: 7,
                count: 1,
                body: body.to_owned(),
            }),
        }
    }

    /// Version 1 is read and written as it was.
    #[test]
    fn the_fixture() {
        assert_eq!(String::from_utf8(fixture().encode()), String::from_utf8(FIXTURE.to_vec()));
        assert_eq!(FileState::decode(FIXTURE), Ok(fixture()));
    }

    /// A file that is cut off anywhere, or in which any bit is another, is found.
    #[test]
    fn damage_is_found() {
        for end in 0..FIXTURE.len() {
            assert_eq!(FileState::decode(&FIXTURE[..end]), Err(Unreadable::Torn), "{end}");
        }
        for at in 0..FIXTURE.len() {
            for bit in 0..8 {
                let mut bytes = FIXTURE.to_vec();
                bytes[at] ^= 1 << bit;
                assert_eq!(FileState::decode(&bytes), Err(Unreadable::Torn), "{at} {bit}");
            }
        }
    }

    /// Whole files of others are told apart.
    #[test]
    fn other_files() {
        let sealed = |line: &str| {
            FileState::decode(format!("{line}\n{}\n", checksum(line.as_bytes())).as_bytes())
        };
        let later = r#"{"format":"indelible-ledger-client","version":2,"new":true}"#;
        assert_eq!(sealed(later), Err(Unreadable::Version(2)));
        assert_eq!(sealed(r#"{"format":"indelible-ledger","version":1}"#), Err(Unreadable::Other));
        assert_eq!(sealed("7"), Err(Unreadable::Other));
    }

    /// Other numbers, and not another byte of the operations.
    #[test]
    fn requests_are_renumbered() {
        let body = r#"{"client_id":"app","attempt":1,"transactions":[{"sequence":7,"operations":[ 1.0 ]},{"sequence":8,"writes":[[]]}]}"#;
        let run = KeptRequest { door: Door::Runs, first: 7, count: 2, body: body.to_owned() };
        let other = run.renumbered(3, 9).unwrap();
        assert_eq!((other.first, other.last()), (3, 4));
        assert_eq!(
            other.body,
            r#"{"client_id":"app","attempt":9,"transactions":[{"sequence":3,"operations":[ 1.0 ]},{"sequence":4,"writes":[[]]}]}"#
        );
        let single = fixture().request.unwrap().renumbered(9, 3).unwrap();
        assert!(single.body.starts_with(r#"{"client_id":"app","sequence":9,"attempt":3,"#));
    }
}
