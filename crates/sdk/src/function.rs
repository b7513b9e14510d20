//! Functions: what `#[function]` makes of one, what `guest!` makes of all, and how one is run.

use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::bindings::{self, indelible::guest::types};
use crate::error::{ErrorKind, Failure, IntoFailure};
use crate::host;
use crate::payload::{Decode, Encode, Payload};

/// What the host learns of a function, and how to run it. Made by `#[function]`.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Its name, for callers.
    pub name: &'static str,
    /// Its doc comment.
    pub description: &'static str,
    /// Whether its executions are durable; if not, they are in memory alone.
    pub persist: bool,
    /// Whether running it again after it was interrupted is harmless.
    pub idem: bool,
    /// How many retries there may be; none: no bound.
    pub retries_max: Option<u32>,
    /// The wait before the first retry, in microseconds.
    pub backoff_base: u64,
    /// The longest wait before a retry, in microseconds.
    pub backoff_cap: u64,
    /// For how long after its start a call is tried again, in microseconds.
    pub deadline: Option<u64>,
    /// Makes the JSON schema of its input.
    pub input_schema: fn() -> Option<String>,
    /// Makes the JSON schema of what it returns.
    pub output_schema: fn() -> Option<String>,
    /// Runs it.
    pub run: fn(Payload) -> Result<Payload, Failure>,
}

/// A durable function. `#[function]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a durable function",
    note = "put `#[function]` above `fn {Self}`"
)]
pub trait Function {
    /// What the host learns of it.
    const DEFINITION: Definition;
}

/// A function that the component has: `guest!` implements it for those that it lists.
#[diagnostic::on_unimplemented(
    message = "the durable function `{Self}` is not listed in `guest!(…)`",
    note = "a component has the functions that `indelible_sdk::guest!(…)` lists, once in its crate"
)]
pub trait Listed {
    /// All functions of its component.
    fn component() -> &'static [Definition];
}

/// What a function returns if it can fail.
#[diagnostic::on_unimplemented(message = "`{Self}` is called `Result` but is not std's `Result`")]
pub trait Fallible {
    /// What it returns if it succeeds.
    type Output;
    /// Its outcome, for the host.
    #[expect(clippy::missing_errors_doc, reason = "an error is what the function returned")]
    fn outcome(self) -> Result<Payload, Failure>;
}

impl<T: Encode, E: IntoFailure> Fallible for Result<T, E> {
    type Output = T;

    fn outcome(self) -> Result<Payload, Failure> {
        self.map_err(IntoFailure::into_failure).and_then(outcome)
    }
}

/// The outcome of a function that cannot fail.
#[expect(clippy::missing_errors_doc, reason = "only what has no form in JSON is one")]
pub fn outcome<T: Encode>(value: T) -> Result<Payload, Failure> {
    value.into_payload().map_err(|why| {
        let message = format!("the return value of the function cannot be encoded: {why}");
        Failure::new(ErrorKind::UserError, message)
    })
}

/// What a function was given. `signature` is for the message.
#[expect(clippy::missing_errors_doc, reason = "what was given is not what the function takes")]
pub fn arguments<T: Decode>(signature: &str, input: Payload) -> Result<T, Failure> {
    T::decode(input).map_err(|why| {
        let message = format!("the input does not match {signature}: {why}");
        Failure::new(ErrorKind::UserError, message)
    })
}

/// Lists the durable functions of a component, once in its crate: from them the component's
/// exports are made.
///
/// ```
/// use indelible_sdk::prelude::*;
///
/// /// Adds two numbers.
/// #[function(idem)]
/// fn add(a: u64, b: u64) -> u64 {
///     a + b
/// }
///
/// indelible_sdk::guest!(add);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! guest {
    ($($function:path),+ $(,)?) => {
        const _: () = {
            #[doc(hidden)]
            pub struct Component;

            const FUNCTIONS: &[$crate::__private::Definition] =
                &[$(<$function as $crate::__private::Function>::DEFINITION),+];

            $(impl $crate::__private::Listed for $function {
                fn component() -> &'static [$crate::__private::Definition] {
                    FUNCTIONS
                }
            })+

            impl $crate::bindings::Guest for Component {
                fn describe() -> ::std::vec::Vec<$crate::bindings::Function> {
                    $crate::__private::describe(FUNCTIONS)
                }

                fn run(
                    function: ::std::string::String,
                    input: $crate::bindings::Payload,
                ) -> ::core::result::Result<$crate::bindings::Payload, $crate::bindings::Failure>
                {
                    $crate::__private::run(FUNCTIONS, &function, input)
                }
            }

            #[cfg(target_arch = "wasm32")]
            $crate::bindings::export!(Component with_types_in $crate::bindings);
        };

        /// For test hosts: the functions of this component, by name.
        #[cfg(not(target_family = "wasm"))]
        #[doc(hidden)]
        #[allow(dead_code)]
        pub fn __indelible_functions() -> &'static [$crate::__private::Definition] {
            &[$(<$function as $crate::__private::Function>::DEFINITION),+]
        }
    };
}

/// For the host: the functions of this component.
#[must_use]
pub fn describe(functions: &[Definition]) -> Vec<bindings::Function> {
    functions.iter().map(describe_one).collect()
}

fn describe_one(function: &Definition) -> bindings::Function {
    types::Function {
        name: function.name.to_owned(),
        description: function.description.to_owned(),
        persist: function.persist,
        idem: function.idem,
        retry_policy: types::RetryPolicy {
            retries_max: function.retries_max,
            backoff_base: function.backoff_base,
            backoff_cap: function.backoff_cap,
            deadline: function.deadline,
        },
        input_schema: (function.input_schema)(),
        output_schema: (function.output_schema)(),
    }
}

/// For the host: runs one of the functions of this component.
#[expect(clippy::missing_errors_doc, reason = "an error is what the function returned")]
pub fn run(
    functions: &[Definition],
    name: &str,
    input: bindings::Payload,
) -> Result<bindings::Payload, bindings::Failure> {
    static HOOK: Once = Once::new();
    // In a test on the developer's machine, the test's own hook stays.
    if cfg!(target_arch = "wasm32") {
        HOOK.call_once(|| panic::set_hook(Box::new(report)));
    }
    let Some(function) = functions.iter().find(|function| function.name == name) else {
        let message = format!("this component has no function {name}");
        return Err(Failure::new(ErrorKind::UserError, message).into_host());
    };
    (function.run)(Payload::from_host(input)).map(Payload::into_host).map_err(Failure::into_host)
}

/// Tells the host why the guest is about to trap: the trap itself carries no text.
fn report(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("panicked with a value that is not text");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    host::report_panic(message, &place);
}
