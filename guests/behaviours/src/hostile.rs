//! Functions that misbehave: they never end, take all that they can get, or break the contract.

use std::hint::black_box;

use indelible_sdk::bindings::indelible::guest::host;
use indelible_sdk::prelude::*;

/// Computes for ever.
#[function]
pub fn spin() {
    let mut count: u64 = 0;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Asks for the time, for ever.
#[function]
pub fn spin_calls() {
    loop {
        black_box(now());
    }
}

/// Allocates for ever.
#[function]
pub fn hog() {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        hoard.push(black_box(vec![1; 1 << 20]));
    }
}

/// Recurses until the stack is full.
#[function]
pub fn recurse() -> u64 {
    fn deeper(depth: u64) -> u64 {
        if depth == u64::MAX {
            return 0;
        }
        let frame = black_box([depth; 64]);
        black_box(deeper(black_box(depth + 1))) + frame[(depth % 64) as usize]
    }
    deeper(0)
}

/// Calls itself, each call from the one before it, until the engine stops it.
#[function]
pub fn recurse_calls(depth: u64) -> Result<u64, Error> {
    recurse_calls::call(depth + 1).wait()
}

/// Writes so many lines to the log, each of so many bytes.
#[function]
pub fn log_flood(lines: u32, bytes: usize) {
    let text = "x".repeat(bytes);
    for line in 0..lines {
        info!("{text}"; line = line);
    }
}

/// Waits for a number that was never given out.
#[function]
pub fn await_unknown() {
    _ = host::await_one(4_000_000_000);
}

/// Puts one call into a set twice.
#[function]
pub fn submit_twice() {
    let input = host::Payload { codec: 1, bytes: b"[1,2]".to_vec() };
    let promise = host::call("add", &input).expect("the function exists");
    let set = host::create_join_set();
    host::submit(set, promise);
    host::submit(set, promise);
}

/// Waits for the first of nothing.
#[function]
pub fn wait_for_nothing() {
    _ = host::await_any(&[]);
}
