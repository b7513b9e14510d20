//! The server: connections, credentials, a real client, and traces.

mod auth;
mod listen;
mod paused;
mod real_client;
mod spans;
mod traces;

/// What the binary has: memory is measured in `listen::idle`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
