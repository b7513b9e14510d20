//! What the store keeps about components, beside their bytes.

use bytes::Bytes;
use indelible_journal::{ComponentDigest, Timestamp};
use indelible_records::{SETTINGS, settings};
use indelible_store::{Scan, Store};
use serde::{Deserialize, Serialize};

use super::{ComponentError, ComponentName};

const NAME_PREFIX: &str = "component/";

/// A version of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// What it is.
    pub digest: ComponentDigest,
    /// When it was deployed under this name for the first time.
    pub deployed_at: Timestamp,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) active: ComponentDigest,
    pub(super) versions: Vec<Version>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    active: String,
    versions: Vec<StoredVersion>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredVersion {
    digest: String,
    deployed_at: String,
}

const VERSION: u8 = 1;

/// All names.
pub(super) fn scan() -> Scan {
    Scan::prefix(SETTINGS, NAME_PREFIX.as_bytes(), 256)
}

pub(super) fn name_of(name: &ComponentName) -> String {
    format!("{NAME_PREFIX}{name}")
}

pub(super) fn manifest_name(digest: &ComponentDigest) -> String {
    format!("manifest/{digest}")
}

/// The record of a row; none if it went meanwhile.
pub(super) fn read(
    store: &Store,
    key: &Bytes,
) -> Result<Option<(ComponentName, Record)>, ComponentError> {
    let text = String::from_utf8_lossy(key).into_owned();
    let malformed = |what: String| ComponentError::Malformed(text.clone(), what);
    let name = text.strip_prefix(NAME_PREFIX).unwrap_or_default();
    let name = ComponentName::new(name).map_err(|error| malformed(error.to_string()))?;
    let Some(json) = settings::get(store, &text)?.value else { return Ok(None) };
    Ok(Some((name, parse(&json).map_err(malformed)?)))
}

fn parse(json: &[u8]) -> Result<Record, String> {
    let stored: Stored = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if stored.version != VERSION {
        return Err(format!("its version is {}", stored.version));
    }
    let digest = |text: &str| text.parse().map_err(|_| "a digest is none".to_owned());
    let mut versions = Vec::with_capacity(stored.versions.len());
    for version in &stored.versions {
        let deployed_at = version.deployed_at.parse().map_err(|_| "a time is none".to_owned())?;
        versions.push(Version { digest: digest(&version.digest)?, deployed_at });
    }
    Ok(Record { active: digest(&stored.active)?, versions })
}

pub(super) fn write(record: &Record) -> Vec<u8> {
    let versions = record.versions.iter().map(|version| StoredVersion {
        digest: version.digest.to_string(),
        deployed_at: version.deployed_at.to_string(),
    });
    let active = record.active.to_string();
    let stored = Stored { version: VERSION, active, versions: versions.collect() };
    serde_json::to_vec(&stored).expect("texts and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of version 1, as it is described: it must still read.
    #[test]
    fn a_record_of_version_1_reads() {
        let digest = "ab".repeat(32);
        let text = format!(
            "{{\"version\":1,\"active\":\"{digest}\",\"versions\":[{{\"digest\":\"{digest}\",\
             \"deployed_at\":\"2026-11-16T02:00:00.000000Z\"}}]}}"
        );
        let record = parse(text.as_bytes()).unwrap();
        assert_eq!(record.active, ComponentDigest::from_bytes([0xab; 32]));
        assert_eq!(write(&record), text.as_bytes());
        for (from, to) in [("n\":1", "n\":2"), ("abab", "zz"), ("2026-11-16T", ""), ("}]}", "")] {
            assert!(parse(text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
    }
}
