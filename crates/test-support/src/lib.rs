//! What tests of several crates share and that needs none of them, so that unit tests can use it
//! too: numbers from a seed, and where examples are.

mod examples;
mod prng;

pub use examples::example;
pub use prng::Prng;
