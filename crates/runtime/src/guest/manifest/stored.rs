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

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first version wrote it. This must be read for ever.
    const V1: &str = r#"{"version":1,"functions":[{"name":"charge","description":"","persist":true,"idem":false,"retries_max":3,"backoff_base_us":1000000,"backoff_cap_us":60000000,"deadline_us":null,"input_schema":null,"output_schema":null},{"name":"order","description":"Takes an order.","persist":true,"idem":true,"retries_max":null,"backoff_base_us":5,"backoff_cap_us":50,"deadline_us":500,"input_schema":"{\"type\": \"object\"}","output_schema":"true"}]}"#;

    #[test]
    fn version_1_is_read_and_written() {
        let manifest = Manifest::from_json(V1.as_bytes()).unwrap();
        assert_eq!(manifest.to_json(), V1);
        let order = manifest.function("order").unwrap();
        assert_eq!(order.retry_policy.class, RetryClass::PERSIST_IDEM);
        assert_eq!(order.input_schema.as_deref(), Some(r#"{"type": "object"}"#));
        assert_eq!(manifest.function("charge").unwrap().retry_policy.deadline, None);
    }

    #[test]
    fn what_is_stored_is_checked() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(V1.contains(from));
            let error = Manifest::from_json(V1.replace(from, to).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(r#""version":1"#, r#""version":2"#, "it is of version 2");
        check(r#""version":1,"#, "", "missing field `version`");
        check(r#""idem":false"#, r#""idem":false,"more":1"#, "unknown field `more`");
        check("order", "charge", "two of its functions are named `charge`");
        check("order", "a b", "cannot be the name of a function");
        check("\"true\"", "\"tru\"", "its output schema is not JSON");
        check("}]}", "}]", "cannot be read");
    }
}
