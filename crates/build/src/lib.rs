//! Builds guests: runs cargo for `wasm32-unknown-unknown` with a linker that makes components, and
//! finds or fetches a compiler with that target. Must not know the engine, nor where this project's
//! own guests are.
//!
//! A toolchain from rustup that has the target is used as it is. Where it has none (no rustup, or
//! no network to its servers), Debian's compiler is fetched once into a cache folder of the user's
//! (`debian`); cargo stays the same.
#![expect(
    clippy::disallowed_methods,
    reason = "a shell: it runs compilers and keeps their files in a cache folder"
)]

mod cargo;
mod debian;
mod error;
mod lock;
mod run;
mod toolchain;

use std::path::Path;

pub use cargo::{Component, Request};
pub use error::Error;
pub use lock::Lock;

/// What guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The linker that turns a module into a component.
pub const LINKER: &str = "wasm-component-ld";

/// Builds the guests of a package or workspace, in the release profile. `progress` is called before
/// each step that takes long.
///
/// # Errors
/// No compiler has the target, or cargo fails; what cargo says goes to stderr.
pub fn build(
    request: &Request<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Component>, Error> {
    let folder = request.manifest.parent().unwrap_or(Path::new("."));
    let toolchain = toolchain::find(folder, progress)?;
    cargo::build(request, &toolchain)
}
