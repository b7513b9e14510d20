//! The rows of everything that is stored: what they say, which belong together, and which go.

mod backup;
mod beginning;
mod delivery;
mod fixture;
mod labels;
mod ledger;
mod retention;
mod rows;
mod slots;
mod standings;
mod support;
