//! The macros of `indelible-sdk`: `#[function]` and `remote!`. Documented there by example.

mod duration;
mod function;
mod options;
mod remote;
mod signature;

use proc_macro::TokenStream;

/// Makes a function durable: it can be called with `name::call(…)`, and listed in `guest!`.
///
/// The function itself stays as it is: `name(…)` is an ordinary call, without a journal.
///
/// | option | meaning |
/// |---|---|
/// | `idem` | running it again, from the beginning, after it was interrupted is harmless |
/// | `volatile` | it runs in memory alone, and a crash loses it: it may send requests and sleep, and call nothing |
/// | `retries = 5`, `retries = unbounded` | how many retries may follow a failed attempt; 3 by itself |
/// | `backoff = "1s..60s"` | the wait before the first retry, doubled for each further one, and its limit |
/// | `deadline = "10m"` | for how long after its start a call is tried again |
/// | `name = "charge-card"` | its name for callers, if it is not that of the Rust function |
/// | `input_schema = "…"`, `output_schema = "…"` | JSON schemas, in place of those of the types |
///
/// Durations are numbers with `us`, `ms`, `s`, `m`, `h` or `d`. The doc comment becomes the
/// function's description.
///
/// Arguments are types that serde can read, or references to them; one is encoded as it is, several
/// as a JSON array, none as null. A function returns a value, or a `Result` whose error can be
/// shown and serialized, such as `indelible_sdk::Error`.
#[proc_macro_attribute]
pub fn function(options: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(options.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Declares functions of another component, so that calls of them are typed:
///
/// ```text
/// remote! {
///     /// Charges a card.
///     fn charge(card: &str, cents: u64) -> Result<String, String> as "payments/charge";
/// }
/// let receipt = charge::call("card 1", 500).wait()?;
/// ```
#[proc_macro]
pub fn remote(declarations: TokenStream) -> TokenStream {
    remote::expand(declarations.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
