//! The project's guests, built once, and places to run them for all tests of a process.
#![allow(clippy::disallowed_methods, reason = "guests are files, and their time is real")]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use indelible_journal::Micros;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};

/// A guest's bytes.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = indelible_guests::component(name);
    std::fs::read(path).unwrap()
}

/// One for all tests: what it reserves is much.
pub fn shared() -> Arc<Guests> {
    static GUESTS: OnceLock<Arc<Guests>> = OnceLock::new();
    let options = || GuestOptions { guests_max: 1_000, ..GuestOptions::default() };
    Arc::clone(GUESTS.get_or_init(|| ticking(options())))
}

/// One with narrow limits, for guests that go past them.
pub fn strict() -> Arc<Guests> {
    static GUESTS: OnceLock<Arc<Guests>> = OnceLock::new();
    let options = || {
        let mut options = GuestOptions { guests_max: 100, ..GuestOptions::default() };
        options.cpu_budget = Micros::from_millis(200);
        options.log_lines_max = 1_000;
        options.payload_bytes_max = 1 << 20;
        options.handed_over_bytes_max = 4 << 20;
        options
    };
    Arc::clone(GUESTS.get_or_init(|| ticking(options())))
}

/// One whose guests may compute for a second.
pub fn patient() -> Arc<Guests> {
    let cpu_budget = Micros::from_secs(1);
    let options = GuestOptions { guests_max: 100, cpu_budget, ..GuestOptions::default() };
    Guests::new(options, Artifacts::folder(folder()).unwrap()).unwrap()
}

/// One whose guests have all the time that they want: none is interrupted, so a run that is
/// repeated is the same run, however busy the machine is.
pub fn unhurried() -> Arc<Guests> {
    static GUESTS: OnceLock<Arc<Guests>> = OnceLock::new();
    let options = || GuestOptions { guests_max: 1_000, ..GuestOptions::default() };
    let guests = || Guests::new(options(), Artifacts::folder(folder()).unwrap()).unwrap();
    Arc::clone(GUESTS.get_or_init(guests))
}

/// One that has never seen a component.
pub fn fresh() -> Arc<Guests> {
    let options = GuestOptions { guests_max: 10, ..GuestOptions::default() };
    Guests::new(options, Artifacts::memory()).unwrap()
}

/// Guests whose time passes.
fn ticking(options: GuestOptions) -> Arc<Guests> {
    let tick = Duration::from_micros(options.tick.get());
    let guests = Guests::new(options, Artifacts::folder(folder()).unwrap()).unwrap();
    let ticking = Arc::downgrade(&guests);
    thread::spawn(move || {
        while let Some(guests) = ticking.upgrade() {
            guests.tick();
            thread::sleep(tick);
        }
    });
    guests
}

fn folder() -> PathBuf {
    [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect()
}
