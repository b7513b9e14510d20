//! The execution journal: an append-only record that fully describes an execution.
