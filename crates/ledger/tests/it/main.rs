//! What the ledger promises, on the pure crate.

mod against_oracle;
mod apply;
mod attempts;
mod bounds;
mod cache;
mod duplicates;
mod export;
mod golden;
mod keyed;
mod lt_hash;
mod support;
