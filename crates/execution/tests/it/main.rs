//! A tree of executions as a machine: what it is told, and what follows.

mod support;
mod transitions;
