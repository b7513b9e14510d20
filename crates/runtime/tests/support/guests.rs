//! The project's guests, built once, and one place to run them for all tests of a process.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};

/// A guest's bytes.
pub fn bytes(name: &str) -> Vec<u8> {
    let path = indelible_guests::component(name);
    std::fs::read(path).unwrap()
}

/// One for all tests: what it reserves is much.
pub fn shared() -> Arc<Guests> {
    static GUESTS: OnceLock<Arc<Guests>> = OnceLock::new();
    let make = || {
        let folder: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "artifacts"].iter().collect();
        let options = GuestOptions { guests_max: 1_000, ..GuestOptions::default() };
        let guests = Guests::new(options, Artifacts::folder(folder).unwrap()).unwrap();
        let ticking = Arc::downgrade(&guests);
        std::thread::spawn(move || {
            while let Some(guests) = ticking.upgrade() {
                guests.tick();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        guests
    };
    Arc::clone(GUESTS.get_or_init(make))
}
