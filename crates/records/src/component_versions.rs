//! The versions of a component's name: the one that new calls take, and all that were deployed
//! under the name (D6).
//!
//! ```text
//! setting `component/NAME`:
//!     {"version":1,"active":DIGEST,"versions":[{"digest":DIGEST,"deployed_at":TIME},…]}
//! ```

use indelible_journal::{ComponentDigest, Timestamp};
use indelible_store::{Batch, Read, ReadError, Seen};
use serde::{Deserialize, Serialize};

use super::{ComponentName, codec, settings};

pub(crate) const PREFIX: &str = "component/";

/// The versions of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentVersions {
    /// The version that new calls take.
    pub active: ComponentDigest,
    /// All versions, in the order in which they were deployed first.
    pub versions: Vec<Version>,
}

/// A version of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The digest of its code.
    pub digest: ComponentDigest,
    /// When it was deployed under this name for the first time.
    pub deployed_at: Timestamp,
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

/// Adds to a batch: the name has these versions.
pub fn put(batch: &mut Batch, name: &ComponentName, known: &ComponentVersions) {
    settings::put(batch, &setting(name), &encode(known));
}

/// Names after `after`, at most `limit`, and the versions of each.
pub fn next(
    read: &impl Read,
    after: Option<&ComponentName>,
    limit: usize,
) -> Result<Seen<Vec<(ComponentName, ComponentVersions)>>, ReadError> {
    settings::next(read, PREFIX, after.map(setting), limit, decode)
}

fn setting(name: &ComponentName) -> String {
    format!("{PREFIX}{name}")
}

fn encode(known: &ComponentVersions) -> Vec<u8> {
    let versions = known.versions.iter().map(|version| StoredVersion {
        digest: version.digest.to_string(),
        deployed_at: version.deployed_at.to_string(),
    });
    let (version, active) = (codec::JSON_VERSION, known.active.to_string());
    codec::write_json(&Stored { version, active, versions: versions.collect() })
}

pub(crate) fn decode(
    name: &str,
    body: &[u8],
) -> Result<(ComponentName, ComponentVersions), String> {
    let name = ComponentName::new(name).map_err(|error| error.to_string())?;
    let stored: Stored = codec::read_json(body)?;
    let digest = |text: &str| text.parse().map_err(|_| "a digest is invalid".to_owned());
    let mut versions = Vec::with_capacity(stored.versions.len());
    for version in &stored.versions {
        let deployed_at =
            version.deployed_at.parse().map_err(|_| "a time is invalid".to_owned())?;
        versions.push(Version { digest: digest(&version.digest)?, deployed_at });
    }
    Ok((name, ComponentVersions { active: digest(&stored.active)?, versions }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of version 1 must still be readable.
    #[test]
    fn version_1_reads() {
        let digest = "ab".repeat(32);
        let text = format!(
            "{{\"version\":1,\"active\":\"{digest}\",\"versions\":[{{\"digest\":\"{digest}\",\
             \"deployed_at\":\"2026-11-16T02:00:00.000000Z\"}}]}}"
        );
        let (name, known) = decode("shop", text.as_bytes()).expect("it is one");
        assert_eq!(name.as_str(), "shop");
        assert_eq!(known.active, ComponentDigest::from_bytes([0xab; 32]));
        assert_eq!(encode(&known), text.as_bytes());
        for (from, to) in [("n\":1", "n\":2"), ("abab", "zz"), ("2026-11-16T", ""), ("}]}", "")] {
            assert!(decode("shop", text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
        assert!(decode("a shop", text.as_bytes()).is_err());
    }
}
