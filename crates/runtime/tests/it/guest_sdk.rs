//! A guest of the Rust SDK, as users write them.

#![expect(clippy::disallowed_methods, reason = "the component is a file")]

use crate::guest_kit::{Script, guests, options, trap_message};
use indelible_journal::{Limits, Payload};
use indelible_runtime::guest::Stop;

/// D8: growing its memory costs a guest more than all the rest, so it begins with enough.
#[test]
fn a_small_function_runs_in_the_memory_that_it_begins_with() {
    let component = std::fs::read(indelible_guests::component("trivial")).expect("it was built");
    let guests = guests(options());
    let deployed = guests.deploy_check(&component).expect("it is a guest");
    let name = deployed.manifest.functions()[0].name.as_str();
    let run = |memory_bytes_max: u64, input: &Payload| {
        let limits = Limits { memory_bytes_max, ..options().limits };
        let host = Box::new(Script::new().host());
        let guest = guests.start(&deployed.program, &limits, name, input.clone(), host);
        guest.expect("there is a place").resume()
    };

    let message = trap_message(run(0, &Payload::empty()));
    let begins_with = message.split(' ').nth(1).and_then(|bytes| bytes.parse().ok());
    let begins_with = begins_with.unwrap_or_else(|| panic!("no number in {message}"));
    for bytes in [0, 1_000, 100_000] {
        let input = Payload::json(vec![b'x'; bytes]);
        assert!(run(begins_with, &input) == Stop::Returned(Ok(input)), "with {bytes} bytes");
    }

    // What is larger makes it grow, up to its limit.
    let large = Payload::json(vec![b'x'; 4 << 20]);
    let message = trap_message(run(begins_with, &large));
    assert!(message.contains("bytes of memory; its limit is"), "{message}");
    let returned = run(options().limits.memory_bytes_max, &large);
    // Not compared by `assert_eq`, which would print four mebibytes.
    assert!(returned == Stop::Returned(Ok(large)), "it returned something else");
}
