//! Owns no code: its manifest turns on, for whatever is built, the features of dependencies that the
//! tests need anyway, so that wasmtime is compiled once and not again for every selection of crates.
