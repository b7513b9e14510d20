//! One small function for each behaviour that the engine is tested with.

mod cancelling;
mod effects;
mod failing;
mod hostile;
mod interpreter;
mod kept;
mod volatile;
mod waiting;

use indelible_sdk::Payload;
use indelible_sdk::prelude::*;

use cancelling::{cleanup, leaves_running, stubborn};
use effects::{
    sends, sends_again, sends_and_leaves, sends_and_traps, sends_at_once, sends_by_call,
    sends_in_turn, sends_or_timer, was_it_processed,
};
use failing::{fail, fail_transient, fail_typed, flaky, panic_once, trap};
use hostile::{
    await_unknown, hog, log_flood, recurse, recurse_calls, spin, spin_calls, submit_twice,
    wait_for_nothing,
};
use kept::{book, collect, collect_again, errands, travel, unbook};
use volatile::{
    breaks_after, breaks_after_idem, calls_and_leaves, calls_two, calls_volatile, everything,
    fickle, glance, glance_idem, labels_volatile, naps, oversteps,
};
use waiting::{
    fan_out, fan_out_all, now_twice, race_timer, random_twice, sequence, signal_or_call,
    signal_or_timer, sleep_ms, wait_signal, wait_signals,
};

/// Returns its input, whatever it is.
#[function]
fn echo(input: Payload) -> Payload {
    input
}

/// Adds two numbers.
#[function]
fn add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// Does nothing: something for others to call.
#[function]
fn note(text: &str) -> String {
    info!("noted"; text = text);
    text.to_owned()
}

/// So many bytes.
#[function]
fn big_output(bytes: usize) -> Payload {
    Payload::raw(vec![b'x'; bytes])
}

/// What the execution knows of itself: attempt, function, whether it has a parent.
#[function]
fn who_am_i() -> (u32, String, bool) {
    let context = context();
    (context.attempt, context.function, context.parent_id.is_some())
}

/// Calls a function of any component, and returns what it returned.
#[function]
fn calls_remote(function: String, input: serde_json::Value) -> Result<serde_json::Value, Error> {
    call_remote(function, &input).wait()
}

indelible_sdk::guest!(
    add,
    await_unknown,
    big_output,
    book,
    breaks_after,
    breaks_after_idem,
    calls_and_leaves,
    calls_remote,
    calls_two,
    calls_volatile,
    cleanup,
    collect,
    collect_again,
    echo,
    errands,
    everything,
    fail,
    fail_transient,
    fail_typed,
    fan_out,
    fan_out_all,
    fickle,
    flaky,
    glance,
    glance_idem,
    hog,
    interpreter::interpreter,
    labels_volatile,
    leaves_running,
    log_flood,
    naps,
    note,
    now_twice,
    oversteps,
    panic_once,
    race_timer,
    random_twice,
    recurse,
    recurse_calls,
    sends,
    sends_again,
    sends_and_leaves,
    sends_and_traps,
    sends_at_once,
    sends_by_call,
    sends_in_turn,
    sends_or_timer,
    sequence,
    signal_or_call,
    signal_or_timer,
    sleep_ms,
    spin,
    spin_calls,
    stubborn,
    submit_twice,
    trap,
    travel,
    unbook,
    wait_for_nothing,
    wait_signal,
    wait_signals,
    was_it_processed,
    who_am_i,
);
