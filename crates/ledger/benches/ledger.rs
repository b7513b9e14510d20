//! What a transaction costs.
fn main() {}
