//! The state machine of operations: against a model, by its whole table, and in scenarios.

mod against_model;
mod effect;
mod model;
mod retention;
mod scenarios;
mod table;
