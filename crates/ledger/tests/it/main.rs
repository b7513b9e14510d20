//! What the ledger promises, on the pure crate.
#![expect(clippy::unwrap_used, reason = "all of this is a test, its helpers too")]

mod against_oracle;
mod apply;
mod attempts;
mod bounds;
mod cache;
mod duplicates;
mod export;
mod golden;
mod json;
mod keyed;
mod lt_hash;
mod support;
