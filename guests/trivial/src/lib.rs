//! The smallest guest: one function that returns its input.

use indelible_sdk::bindings::indelible::guest::types::RetryPolicy;
use indelible_sdk::bindings::{Failure, Function, Guest, Payload, export};

struct Trivial;

impl Guest for Trivial {
    fn describe() -> Vec<Function> {
        vec![Function {
            name: "echo".to_owned(),
            description: "Returns its input.".to_owned(),
            persist: true,
            idem: false,
            retry_policy: RetryPolicy {
                retries_max: Some(5),
                backoff_base: 100_000,
                backoff_cap: 30_000_000,
                deadline: None,
            },
            input_schema: None,
            output_schema: None,
        }]
    }

    fn run(_function: String, input: Payload) -> Result<Payload, Failure> {
        Ok(input)
    }
}

export!(Trivial with_types_in indelible_sdk::bindings);
