//! Deterministic simulation of the engine: the real engine, journal and commit pipeline, on a
//! simulated clock, disk and scheduler. One seed decides everything that happens: which programs
//! run, who asks for what and when, which tree gets its turn, when the disk does anything, when
//! it fails, when the process dies. The same seed is the same run, byte for byte.
//!
//! A run is chaos, then quiet, then checks: nothing that was shown was taken back, every start
//! has one outcome and it is one that the program allows, nothing hangs, nothing is left over.
//! `docs/testing.md` says what that shows and what it cannot.
//!
//! - `plan`: what a seed draws. [`program`]: the programs.
//! - `run`: the scheduler. `quiet`: how a run comes to its end. `client`: the engine's clients.
//! - `disk`, `world`: what the engine runs on. `peer`: the receiver of its HTTP requests.
//! - `ledger`: what was shown. `check`, [`agree`], `effects`, `oracle`: what must be true.
//!
//! It is for tests: nothing that users get depends on it.

/// Ends a check with what is wrong.
macro_rules! ensure {
    ($holds:expr, $($wrong:tt)+) => {
        if !$holds {
            return Err(format!($($wrong)+));
        }
    };
}

pub mod agree;
mod check;
mod client;
pub mod counter;
mod disk;
mod doubts;
mod effects;
mod guests;
mod ledger;
mod oracle;
mod peer;
mod plan;
mod posts;
pub mod program;
mod quiet;
mod rng;
mod rooms;
mod run;
pub mod seeds;
mod store;
mod transcript;
mod vaults;
mod world;

pub use guests::Kit;
pub use rng::Rng;
pub use run::{Report, simulate};
