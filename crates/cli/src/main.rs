//! The binary `indelible`.

fn main() {}
