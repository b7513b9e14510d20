//! What the store keeps of API keys: `docs/formats/server-rows.md`.

use data_encoding::HEXLOWER;
use indelible_api::access::Role;
use indelible_journal::Timestamp;
use indelible_records::audit;
use indelible_runtime::Actor;
use serde::{Deserialize, Serialize};

use super::secret::{SecretHash, TokenId, random};
use super::{Key, is_token_name};
use crate::auth::caller::Grant;

pub(super) const NAME_PREFIX: &str = "token/";

const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    name: String,
    secret_sha256: String,
    roles: Vec<Role>,
    namespaces: Vec<String>,
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<String>,
}

/// The name of a key's row among the settings.
pub(super) fn name_of(id: TokenId) -> String {
    format!("{NAME_PREFIX}{id}")
}

pub(super) fn write(key: &Key) -> Vec<u8> {
    let stored = Stored {
        version: VERSION,
        name: key.name.clone(),
        secret_sha256: HEXLOWER.encode(&key.hash.0),
        roles: key.grant.roles().iter().collect(),
        namespaces: key.grant.namespaces().names(),
        created_at: key.created_at.to_string(),
        expires_at: key.expires_at.map(|time| time.to_string()),
        revoked_at: key.revoked_at.map(|time| time.to_string()),
    };
    serde_json::to_vec(&stored).expect("texts and numbers are JSON")
}

/// Err says what is wrong; it never has a part of the hash in it.
pub(super) fn parse(json: &[u8]) -> Result<Key, String> {
    // serde's own words could repeat a value.
    let place =
        |error: serde_json::Error| format!("it is no such JSON (column {})", error.column());
    let stored: Stored = serde_json::from_slice(json).map_err(place)?;
    if stored.version != VERSION {
        return Err(format!("its version is {}", stored.version));
    }
    if !is_token_name(&stored.name) {
        return Err("its name is none".to_owned());
    }
    let time = |text: &String| text.parse().map_err(|_| "a time is none".to_owned());
    let hash = HEXLOWER.decode(stored.secret_sha256.as_bytes()).ok();
    let hash = hash.and_then(|hash| hash.try_into().ok()).ok_or("its hash is none")?;
    Ok(Key {
        name: stored.name,
        hash: SecretHash(hash),
        grant: Grant::new(&stored.roles, &stored.namespaces).map_err(|error| error.to_string())?,
        created_at: time(&stored.created_at)?,
        expires_at: stored.expires_at.as_ref().map(time).transpose()?,
        revoked_at: stored.revoked_at.as_ref().map(time).transpose()?,
    })
}

#[derive(Serialize)]
struct AuditBody<'a> {
    version: u8,
    actor: &'a str,
    action: &'a str,
    subject: String,
    reason: &'a str,
}

/// The record that somebody did something to what is no execution.
pub(crate) fn audit(
    at: Timestamp,
    actor: &Actor,
    action: &str,
    subject: &dyn std::fmt::Display,
) -> audit::Entry {
    let (actor, subject) = (actor.as_str(), subject.to_string());
    let body = AuditBody { version: 1, actor, action, subject, reason: "" };
    let body = serde_json::to_vec(&body).expect("texts and numbers are JSON").into();
    audit::Entry { at, id: random(), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "{\"version\":1,\"name\":\"billing\",\"secret_sha256\":\"\
        abababababababababababababababababababababababababababababababab\",\
        \"roles\":[\"call\",\"operate\"],\"namespaces\":[\"bank\",\"shop\"],\
        \"created_at\":\"2026-11-16T02:00:00.000000Z\",\
        \"expires_at\":\"2027-11-16T02:00:00.000000Z\",\
        \"revoked_at\":\"2026-11-17T02:00:00.000000Z\"}";

    /// The text of version 1, as it is described: it must still read.
    #[test]
    fn a_record_of_version_1_reads() {
        let key = parse(TEXT.as_bytes()).unwrap();
        assert_eq!((key.name.as_str(), key.hash.0), ("billing", [0xab; 32]));
        assert_eq!(key.grant.namespaces().names(), ["bank", "shop"]);
        assert_eq!(String::from_utf8(write(&key)).unwrap(), TEXT);

        let bare = TEXT.split(",\"expires_at").next().unwrap().to_owned() + "}";
        let key = parse(bare.as_bytes()).unwrap();
        assert_eq!((key.expires_at, key.revoked_at), (None, None));
        assert_eq!(String::from_utf8(write(&key)).unwrap(), bare);
    }

    /// What is not like that is refused, and the refusal has no part of the hash.
    #[test]
    fn other_records_are_refused() {
        for (from, to) in [
            ("n\":1", "n\":2"),
            ("billing", ""),
            ("billing", "bil ling"),
            ("abab", "ab"),
            ("abab", "zzzz"),
            ("\"call\",\"operate\"", ""),
            ("\"call\"", "\"admin\""),
            ("\"call\"", "\"king\""),
            ("bank", "BANK"),
            ("2026-11-16T", ""),
            ("2027-11-16T", ""),
            ("2026-11-17T", ""),
            ("\"roles\"", "\"more\":1,\"roles\""),
            ("\"secret_sha256\":\"ab", "\"secret_sha256\":[\"ab"),
            ("Z\"}", ""),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT, "{from}");
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(!error.contains("abab"), "{error}");
        }
    }

    /// C-38: an entry of the audit record reads as it is described.
    #[test]
    fn an_audit_entry_of_version_1() {
        let id: TokenId = "0123456789abcdef".parse().unwrap();
        let entry = audit(Timestamp::EPOCH, &Actor::new("user:ada"), "token create", &id);
        let text = "{\"version\":1,\"actor\":\"user:ada\",\"action\":\"token create\",\
            \"subject\":\"0123456789abcdef\",\"reason\":\"\"}";
        assert_eq!(entry.body.as_ref(), text.as_bytes());
    }
}
