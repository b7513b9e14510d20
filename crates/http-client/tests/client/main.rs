//! The client against real listeners: what leaves, what comes back, and what is never sent twice.

mod plain;
mod support;
