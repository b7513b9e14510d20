//! Write durable functions for Indelible in Rust.

#[cfg(any(target_arch = "wasm32", test))]
mod alloc;
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::cloned_instead_of_copied,
    clippy::explicit_iter_loop,
    clippy::match_same_arms,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated"
)]
#[doc(hidden)]
pub mod bindings;
mod rt;
