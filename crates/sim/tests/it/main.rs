//! Simulations, run as a test.

mod seeds;
