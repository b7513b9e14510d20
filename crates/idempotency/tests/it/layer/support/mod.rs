//! A database, a service behind the layer, and a client.

mod backend;
mod client;
mod service;

pub(crate) use backend::{Backend, Db, settings};
pub(crate) use client::{Chunks, code, post, request, send, text};
pub(crate) use service::{App, Call, answer, serve};

/// Runs a case on both databases.
macro_rules! on_both {
    ($case:ident) => {{
        $case::<sqlx::Sqlite>().await;
        $case::<sqlx::Postgres>().await;
    }};
}
pub(crate) use on_both;
