//! The rows of API keys. The server decides whom a key lets in, and to what.
//!
//! ```text
//! setting `token/ID`:
//!     {"version":1,"name":…,"secret_sha256":…,"roles":[…],"namespaces":[…],
//!      "created_at":TIME,"expires_at":TIME,"revoked_at":TIME}
//! ```

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use indelible_idempotency::ConsumerNamespace;
use indelible_journal::Timestamp;
use indelible_slots::Slot;
use indelible_store::{Batch, Expect, Position, Read, ReadError, Seen, SubmitError};
use serde::{Deserialize, Serialize};

use super::truths::Truth;
use super::{SETTINGS, audit, codec, settings};

pub(crate) const PREFIX: &str = "token/";

/// The longest name of an API key, in characters: it is a part of an actor's name.
pub const TOKEN_NAME_CHARS_MAX: usize = 64;

/// The roles that a key may have.
const ROLES: [&str; 8] = ["call", "operate", "read", "write", "send", "decide", "deploy", "admin"];

/// Stands for every namespace.
const ALL_NAMESPACES: &str = "*";

/// The id of an API key: 16 hexadecimal digits. It is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; 8]);

impl TokenId {
    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// The text is not the id of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid id of an API key: use 16 lower-case hexadecimal digits")]
pub struct TokenIdError;

impl FromStr for TokenId {
    type Err = TokenIdError;

    fn from_str(text: &str) -> Result<Self, TokenIdError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| TokenIdError)?;
        Ok(Self(bytes.try_into().map_err(|_| TokenIdError)?))
    }
}

/// An API key, as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is for.
    pub name: String,
    /// The SHA-256 of its secret.
    pub secret_sha256: [u8; 32],
    /// What it may do: some of `call`, `operate`, `deploy`, `admin`.
    pub roles: Vec<String>,
    /// The namespaces in which it may do that; `*` is all of them.
    pub namespaces: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires; none: never.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// The hash is not shown: it must not leave the store.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    name: String,
    secret_sha256: String,
    roles: Vec<String>,
    namespaces: Vec<String>,
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

/// Makes or revokes a key, in one commit with the audit entry (C-38). `gone` is deleted, to make
/// room. `version` is the version of the keys as they were read.
#[cfg(feature = "store")]
pub async fn put(
    store: &indelible_store::Store,
    version: u64,
    (id, token): (TokenId, &Token),
    gone: Option<TokenId>,
    entry: &audit::Entry,
) -> Result<Position, SubmitError> {
    let mut batch = Batch::in_slots(Slot::SERVER);
    Truth::Tokens.raise(&mut batch, version);
    if token.revoked_at.is_none() {
        batch.expect(SETTINGS, setting(id), Expect::Absent);
    }
    settings::put(&mut batch, &setting(id), &encode(token));
    if let Some(gone) = gone {
        settings::delete(&mut batch, &setting(gone));
    }
    audit::put(&mut batch, entry);
    store.submit(batch).await
}

/// Keys after `after`, at most `limit`.
pub fn next(
    read: &impl Read,
    after: Option<TokenId>,
    limit: usize,
) -> Result<Seen<Vec<(TokenId, Token)>>, ReadError> {
    settings::next(read, PREFIX, after.map(setting), limit, decode)
}

/// The error for a row that decodes but cannot be of any key.
pub fn damaged(id: TokenId, what: impl Into<String>) -> ReadError {
    settings::damaged(&setting(id), what)
}

fn setting(id: TokenId) -> String {
    format!("{PREFIX}{id}")
}

/// Whether a text can be the name of an API key.
pub fn is_token_name(name: &str) -> bool {
    (1..=TOKEN_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}

fn encode(token: &Token) -> Vec<u8> {
    codec::write_json(&Stored {
        version: codec::JSON_VERSION,
        name: token.name.clone(),
        secret_sha256: HEXLOWER.encode(&token.secret_sha256),
        roles: token.roles.clone(),
        namespaces: token.namespaces.clone(),
        created_at: token.created_at.to_string(),
        expires_at: token.expires_at.map(|time| time.to_string()),
        revoked_at: token.revoked_at.map(|time| time.to_string()),
    })
}

/// Err says what is wrong, without any part of the hash.
pub(crate) fn decode(id: &str, body: &[u8]) -> Result<(TokenId, Token), String> {
    let id = id.parse().map_err(|error: TokenIdError| error.to_string())?;
    // The decoder's own error could repeat a value.
    let stored: Stored =
        codec::read_json(body).map_err(|_| "it is not the JSON of an API key of version 1")?;
    if !is_token_name(&stored.name) {
        return Err("its name is invalid".to_owned());
    }
    if stored.roles.is_empty() || stored.roles.iter().any(|role| !ROLES.contains(&role.as_str())) {
        return Err("its roles are invalid".to_owned());
    }
    let is_namespace =
        |name: &String| name == ALL_NAMESPACES || ConsumerNamespace::new(name.as_str()).is_ok();
    if stored.namespaces.is_empty() || !stored.namespaces.iter().all(is_namespace) {
        return Err("its namespaces are invalid".to_owned());
    }
    let time = |text: &String| text.parse().map_err(|_| "a time is invalid".to_owned());
    let hash = HEXLOWER.decode(stored.secret_sha256.as_bytes()).ok();
    let hash = hash.and_then(|hash| hash.try_into().ok()).ok_or("its hash is invalid")?;
    let token = Token {
        name: stored.name,
        secret_sha256: hash,
        roles: stored.roles,
        namespaces: stored.namespaces,
        created_at: time(&stored.created_at)?,
        expires_at: stored.expires_at.as_ref().map(time).transpose()?,
        revoked_at: stored.revoked_at.as_ref().map(time).transpose()?,
    };
    Ok((id, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef";
    const TEXT: &str = "{\"version\":1,\"name\":\"billing\",\"secret_sha256\":\"\
        abababababababababababababababababababababababababababababababab\",\
        \"roles\":[\"call\",\"operate\"],\"namespaces\":[\"bank\",\"shop\"],\
        \"created_at\":\"2026-11-16T02:00:00.000000Z\",\
        \"expires_at\":\"2027-11-16T02:00:00.000000Z\",\
        \"revoked_at\":\"2026-11-17T02:00:00.000000Z\"}";

    fn read(text: &str) -> Token {
        let (id, token) = decode(ID, text.as_bytes()).expect("it is a key");
        assert_eq!(id.to_string(), ID);
        token
    }

    /// The text of version 1 must still be readable.
    #[test]
    fn a_record_of_version_1_reads() {
        let token = read(TEXT);
        assert_eq!((token.name.as_str(), token.secret_sha256), ("billing", [0xab; 32]));
        assert_eq!(token.namespaces, ["bank", "shop"]);
        assert_eq!(encode(&token), TEXT.as_bytes());
        assert!(!format!("{token:?}").contains("171"), "the hash is shown");

        let bare = TEXT.split(",\"expires_at").next().expect("it has one").to_owned() + "}";
        let token = read(&bare);
        assert_eq!((token.expires_at, token.revoked_at), (None, None));
        assert_eq!(encode(&token), bare.as_bytes());
    }

    /// Anything else is refused, without any part of the hash in the error.
    #[test]
    fn other_records_are_refused() {
        for (from, to) in [
            ("n\":1", "n\":2"),
            ("billing", ""),
            ("billing", "bil ling"),
            ("abab", "ab"),
            ("abab", "zzzz"),
            ("\"call\",\"operate\"", ""),
            ("\"call\"", "\"king\""),
            ("bank", "BANK"),
            ("\"bank\",\"shop\"", ""),
            ("2026-11-16T", ""),
            ("2027-11-16T", ""),
            ("2026-11-17T", ""),
            ("\"roles\"", "\"more\":1,\"roles\""),
            ("\"secret_sha256\":\"ab", "\"secret_sha256\":[\"ab"),
            ("Z\"}", ""),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT, "{from}");
            let error = decode(ID, text.as_bytes()).expect_err("it is no key");
            assert!(!error.contains("abab"), "{error}");
        }
        for id in ["", "zz", "0123456789ABCDEF", "0123456789abcde"] {
            assert!(decode(id, TEXT.as_bytes()).is_err(), "{id}");
        }
    }
}
