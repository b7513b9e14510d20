//! Why there is no server, or no answer from it.

use std::io;

/// Why there is no server, or no answer from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no PostgreSQL.
    #[error(
        "there is no PostgreSQL: `cargo xtask setup` installs it; or put the folder with initdb, \
         postgres and psql on PATH"
    )]
    Missing,
    /// There is no account that the server could run under.
    #[error("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")]
    Account,
    /// The operating system said no.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, as in "cannot …".
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The server's folder could not be made.
    #[error("cannot make a folder for the server: {said}")]
    Folder {
        /// What mktemp said.
        said: String,
    },
    /// `initdb` failed.
    #[error("initdb failed:\n{log}")]
    Initdb {
        /// The end of its output.
        log: String,
    },
    /// The server did not start.
    #[error("the server does not start:\n{log}")]
    Start {
        /// The end of the server's log.
        log: String,
    },
    /// The supervisor has ended, and presumably the server with it.
    #[error("the supervisor of the server has ended")]
    Supervisor,
    /// The server refused a statement, or could not be reached.
    #[error("{said}")]
    Sql {
        /// What psql said.
        said: String,
    },
}

impl Error {
    /// For `map_err`: what was being done when the operating system said no.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// The end of what a program said: enough to see the reason, and short enough to read.
pub(crate) fn tail(said: &str) -> String {
    const LINES_MAX: usize = 25;
    let lines: Vec<&str> = said.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
}
