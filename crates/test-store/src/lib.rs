//! What tests of the store, of its rows and of the engine share: executions with real journals, what
//! a process commits and says of it, and folders that are opened again.

pub mod folder;
pub mod outcome;
pub mod rows;
pub mod said;
pub mod work;
