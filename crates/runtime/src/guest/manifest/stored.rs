//! A manifest as it is stored. The structs here are the format; they do not change without a new
//! version beside them.

use indelible_journal::{
    Backoff, Durability, Idempotency, Micros, RetryBound, RetryClass, RetryPolicy,
};
use serde::{Deserialize, Serialize};

use super::{FunctionSpec, Manifest, ManifestError, check};

/// The version that is written.
pub const MANIFEST_VERSION: u32 = 1;

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestV1 {
    version: u32,
    functions: Vec<FunctionV1>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionV1 {
    name: String,
    description: String,
    persist: bool,
    idem: bool,
    retries_max: Option<u32>,
    backoff_base_us: u64,
    backoff_cap_us: u64,
    deadline_us: Option<u64>,
    /// JSON text within JSON: what the guest gave is kept to the letter.
    input_schema: Option<String>,
    output_schema: Option<String>,
}

pub(super) fn write(manifest: &Manifest) -> String {
    let functions = manifest.functions().iter().map(FunctionV1::from).collect();
    let stored = ManifestV1 { version: MANIFEST_VERSION, functions };
    serde_json::to_string(&stored).expect("strings, numbers and lists are always JSON")
}

pub(super) fn read(json: &[u8]) -> Result<Manifest, ManifestError> {
    let unreadable = |error: serde_json::Error| ManifestError::Stored(error.to_string());
    let Versioned { version } = serde_json::from_slice(json).map_err(unreadable)?;
    if version != MANIFEST_VERSION {
        return Err(ManifestError::Stored(format!(
            "it is of version {version}; this server reads {MANIFEST_VERSION}"
        )));
    }
    let stored: ManifestV1 = serde_json::from_slice(json).map_err(unreadable)?;
    let functions = stored.functions.into_iter().map(FunctionV1::spec);
    check::manifest(functions.collect::<Result<_, _>>()?)
}

impl From<&FunctionSpec> for FunctionV1 {
    fn from(spec: &FunctionSpec) -> Self {
        let policy = &spec.retry_policy;
        Self {
            name: spec.name.as_str().to_owned(),
            description: spec.description.clone(),
            persist: policy.class.durability == Durability::Persist,
            idem: policy.class.idempotency == Idempotency::Idem,
            retries_max: match policy.bound {
                RetryBound::Bounded(retries) => Some(retries),
                RetryBound::Unbounded => None,
            },
            backoff_base_us: policy.backoff.base.get(),
            backoff_cap_us: policy.backoff.cap.get(),
            deadline_us: policy.deadline.map(Micros::get),
            input_schema: spec.input_schema.as_deref().map(str::to_owned),
            output_schema: spec.output_schema.as_deref().map(str::to_owned),
        }
    }
}

impl FunctionV1 {
    fn spec(self) -> Result<FunctionSpec, ManifestError> {
        let durability = if self.persist { Durability::Persist } else { Durability::Volatile };
        let idempotency = if self.idem { Idempotency::Idem } else { Idempotency::NonIdem };
        let policy = RetryPolicy {
            class: RetryClass { durability, idempotency },
            bound: self.retries_max.map_or(RetryBound::Unbounded, RetryBound::Bounded),
            backoff: Backoff {
                base: Micros::new(self.backoff_base_us),
                cap: Micros::new(self.backoff_cap_us),
            },
            deadline: self.deadline_us.map(Micros::new),
            ..RetryPolicy::default()
        };
        let name = check::name(&self.name)?;
        check::spec(name, self.description, policy, self.input_schema, self.output_schema)
    }
}
