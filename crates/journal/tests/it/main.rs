//! The journal: its rules, what it says of a journal, replay, and its text.

mod allocation;
mod checker;
mod differential;
mod guards;
mod guest;
mod invariants;
mod json_fixture;
mod json_fuzz;
mod kit;
mod replay;
mod scenarios;
mod script;
mod support;
mod trace;
mod vocabulary;
