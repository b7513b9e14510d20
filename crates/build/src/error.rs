//! Why a guest could not be built.

use std::io;
use std::path::{Path, PathBuf};

/// Why a guest could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error("cannot run {program}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program failed.
    #[error("{command} failed ({status}){}", quoted(said))]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it said, if that was not shown already.
        said: String,
    },
    /// A file could not be read or written.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No compiler on this machine can compile guests.
    #[error(
        "this machine has no compiler for guests: rustc lacks the target wasm32-unknown-unknown, \
         and {why}"
    )]
    NoCompiler {
        /// Why Debian's compiler cannot be used instead.
        why: String,
    },
    /// The linker is missing.
    #[error("the linker wasm-component-ld is missing: it is not in {} and not on PATH", tools.display())]
    NoLinker {
        /// Where rustup puts it.
        tools: PathBuf,
    },
    /// Cargo's output is not what it should be.
    #[error("cargo's JSON messages cannot be parsed")]
    Messages(#[source] serde_json::Error),
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Start { .. } => "install Rust from https://rustup.rs",
            Self::NoCompiler { .. } => "run `rustup target add wasm32-unknown-unknown`",
            Self::NoLinker { .. } => "run `cargo install wasm-component-ld`",
            Self::Failed { .. } => "see its output above",
            Self::File { .. } => "check the folder's permissions and free space",
            Self::Messages(_) => "update Rust with `rustup update`",
        }
    }

    pub(crate) fn file(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { verb, path: path.to_owned(), source }
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(":\n{text}") }
}
