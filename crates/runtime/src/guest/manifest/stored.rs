//! From a manifest to its stored form, and back.

use indelible_journal::{
    Backoff, Durability, Idempotency, Micros, RetryBound, RetryClass, RetryPolicy,
};
use indelible_records::manifests::{self, Function};

use super::{FunctionSpec, Manifest, ManifestError, check};

pub(super) fn write(manifest: &Manifest) -> String {
    manifests::encode(manifest.functions().iter().map(function).collect())
}

pub(super) fn read(stored: Vec<Function>) -> Result<Manifest, ManifestError> {
    check::manifest(stored.into_iter().map(spec).collect::<Result<_, _>>()?)
}

fn function(spec: &FunctionSpec) -> Function {
    let policy = &spec.retry_policy;
    Function {
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

fn spec(stored: Function) -> Result<FunctionSpec, ManifestError> {
    let durability = if stored.persist { Durability::Persist } else { Durability::Volatile };
    let idempotency = if stored.idem { Idempotency::Idem } else { Idempotency::NonIdem };
    let policy = RetryPolicy {
        class: RetryClass { durability, idempotency },
        bound: stored.retries_max.map_or(RetryBound::Unbounded, RetryBound::Bounded),
        backoff: Backoff {
            base: Micros::new(stored.backoff_base_us),
            cap: Micros::new(stored.backoff_cap_us),
        },
        deadline: stored.deadline_us.map(Micros::new),
        ..RetryPolicy::default()
    };
    let name = check::name(&stored.name)?;
    check::spec(name, stored.description, policy, stored.input_schema, stored.output_schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the first version wrote it. Every later version must read this.
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
        check(r#""version":1"#, r#""version":2"#, "it has version 2");
        check(r#""version":1,"#, "", "missing field `version`");
        check(r#""idem":false"#, r#""idem":false,"more":1"#, "unknown field `more`");
        check("order", "charge", "two of its functions are named `charge`");
        check("order", "a b", "cannot be the name of a function");
        check("\"true\"", "\"tru\"", "its output schema is not JSON");
        check("}]}", "}]", "cannot be read");
    }
}
