//! The stored manifest of a component's version: what it offers. The code that deploys components
//! decides which manifests are acceptable.
//!
//! ```text
//! setting `manifest/DIGEST`:   {"version":1,"functions":[…]}
//! ```

use indelible_journal::ComponentDigest;
use indelible_store::{Batch, Read, ReadError, Seen};
use serde::{Deserialize, Serialize};

use super::{codec, settings};

pub(crate) const PREFIX: &str = "manifest/";

/// The version that is written.
pub const MANIFEST_VERSION: u32 = codec::JSON_VERSION as u32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    functions: Vec<Function>,
}

/// A function, in the order of its keys in the stored form. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/formats/engine-rows.md describes each field")]
pub struct Function {
    pub name: String,
    pub description: String,
    pub persist: bool,
    pub idem: bool,
    /// None: no bound.
    pub retries_max: Option<u32>,
    pub backoff_base_us: u64,
    pub backoff_cap_us: u64,
    pub deadline_us: Option<u64>,
    /// JSON text within JSON: the guest's text is kept unchanged.
    pub input_schema: Option<String>,
    pub output_schema: Option<String>,
}

/// Adds to a batch: this version has the manifest that [`encode`] has made.
pub fn put(batch: &mut Batch, digest: &ComponentDigest, manifest: &str) {
    settings::put(batch, &setting(digest), manifest.as_bytes());
}

/// The functions that a version offers.
pub fn get(
    read: &impl Read,
    digest: &ComponentDigest,
) -> Result<Seen<Option<Vec<Function>>>, ReadError> {
    settings::read(read, &setting(digest), decode)
}

fn setting(digest: &ComponentDigest) -> String {
    format!("{PREFIX}{digest}")
}

/// Functions, as they are stored.
pub fn encode(functions: Vec<Function>) -> String {
    let stored = Stored { version: MANIFEST_VERSION, functions };
    serde_json::to_string(&stored).expect("strings, numbers and lists are always JSON")
}

/// Decodes what [`encode`] made. Err: why that is not possible.
pub fn decode(body: &[u8]) -> Result<Vec<Function>, String> {
    codec::read_json(body).map(|stored: Stored| stored.functions)
}

pub(crate) fn check(digest: &str, body: &[u8]) -> Result<(), String> {
    digest.parse::<ComponentDigest>().map_err(|_| "its digest is invalid".to_owned())?;
    decode(body).map(drop)
}
