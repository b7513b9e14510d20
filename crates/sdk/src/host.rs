//! What this crate asks of its host: `interface host` of the contract. In a guest these are imports.
//! In a native build they are answered by a `testing::TestHost`, or not at all.

pub(crate) use crate::bindings::indelible::guest::host::*;

#[cfg(not(target_family = "wasm"))]
pub(crate) use self::native::{
    await_all, await_any, await_one, await_signal, await_signal_or, call, context, create_join_set,
    label, log, next, now, random, report_panic, send_http, start_timer, submit, take_all,
};
#[cfg(all(feature = "test-host", not(target_family = "wasm")))]
use crate::testing::calls as native;

/// Why there is no answer.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn no_host(what: &str) -> ! {
    let feature = if cfg!(feature = "test-host") {
        ""
    } else {
        " It needs the SDK's feature `test-host`, under [dev-dependencies]."
    };
    panic!(
        "a durable function asked for `{what}`, and there is no host to answer. In a test, run the \
         function in one: `indelible_sdk::testing::TestHost::new().run(|| order::call(…))`.{feature}"
    )
}

/// The host that is not there.
#[cfg(all(not(feature = "test-host"), not(target_family = "wasm")))]
mod native {
    use super::{
        Cancelled, ExecutionContext, Failure, HttpPolicy, HttpRequest, JoinSet, Level, Outcome,
        Payload, Promise, Settled, SignalOrSettled, no_host,
    };

    macro_rules! absent {
        ($($name:ident($($takes:ty),*) -> $gives:ty;)+) => {$(
            pub(crate) fn $name($(_: $takes),*) -> $gives {
                no_host(stringify!($name))
            }
        )+};
    }

    absent! {
        call(&str, &Payload) -> Result<Promise, Failure>;
        send_http(&HttpRequest, &HttpPolicy) -> Promise;
        start_timer(u64) -> Promise;
        await_one(Promise) -> Result<Outcome, Cancelled>;
        await_any(&[Promise]) -> Result<Settled, Cancelled>;
        await_all(&[Promise]) -> Result<Vec<Outcome>, Cancelled>;
        await_signal(&str) -> Result<Payload, Cancelled>;
        await_signal_or(&str, &[Promise]) -> Result<SignalOrSettled, Cancelled>;
        create_join_set() -> JoinSet;
        submit(JoinSet, Promise) -> ();
        next(JoinSet) -> Result<Option<Settled>, Cancelled>;
        take_all(JoinSet) -> Result<Vec<Settled>, Cancelled>;
        now() -> u64;
        random(u32) -> Vec<u8>;
        context() -> ExecutionContext;
        label(&str, &str) -> ();
    }

    /// Lines for people have no answer, so a plain test of a helper that logs can run.
    pub(crate) fn log(_: Level, _: &str, _: &[(String, String)]) {}

    pub(crate) fn report_panic(_: &str, _: &str) {}
}
