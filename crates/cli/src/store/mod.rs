//! `indelible store`: a data folder from outside: its contents, whether it is sound, and copies of
//! it.
//!
//! - `check`, `info`, `backup`, `restore`: the commands.
//! - `partial`: a file under a temporary name. `progress`: how far long work is, at a terminal.
//! - `text`: sizes and columns for people.

mod backup;
mod check;
mod info;
mod partial;
mod progress;
mod restore;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use indelible_store::embedded::{Create, EmbeddedBackend, FolderError, OpenError, Options};
use indelible_store::{StartError, Store};

use crate::failure::{CommandEnd, Failure};

const CHECK_HELP: &str = "\
Verifies everything: the storage backend's checksums, the seal of every row, each journal against
the journal rules, and each index against the rows that it points to, both ways. Repairs nothing,
with one exception: like the start of a server, opening a folder after a crash cuts off a commit
that the crash tore. No caller was told of that commit.

Exit codes:
  0  no problems were found
  1  a problem was found, or the folder cannot be opened
  2  invalid arguments";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check everything that is stored
    #[command(after_long_help = CHECK_HELP)]
    Check(Arguments),
    /// Show what is stored: sizes, counts, versions
    Info(Arguments),
    /// Copy everything that is stored into a file, while the server runs
    #[command(after_long_help = backup::HELP)]
    Backup(backup::Backup),
    /// Create a data folder from a backup
    #[command(after_long_help = restore::HELP)]
    Restore(restore::Restore),
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// The data folder; no server may have it open
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<CommandEnd, Failure> {
    match command {
        Command::Check(arguments) => check::run(&arguments, out),
        Command::Info(arguments) => info::run(&arguments, out).map(|()| CommandEnd::Well),
        Command::Backup(command) => command.run(out).map(|()| CommandEnd::Well),
        Command::Restore(command) => command.run(out).map(|()| CommandEnd::Well),
    }
}

/// An open store, and what opening it had to repair.
struct OpenReport {
    store: Store,
    /// The torn end of a commit that was cut off, in words.
    recovered: Option<String>,
}

/// Opens an existing folder.
fn open(folder: &Path) -> Result<OpenReport, Failure> {
    let mut options = Options::default();
    options.create = Create::No;
    // The data folder of `indelible run` has the store in a folder within.
    let within = folder.join("store");
    let folder = if within.join("FORMAT").is_file() { &within } else { folder };
    let tables = &indelible_records::TABLES;
    let opened = EmbeddedBackend::open(folder, tables, &options).and_then(|backend| {
        let recovered = backend.recovered().map(ToString::to_string);
        let store = Store::start(std::sync::Arc::new(backend), tables, options.bounds)?;
        Ok(OpenReport { store, recovered })
    });
    opened.map_err(|error| refused(&error))
}

fn refused(error: &OpenError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        OpenError::Folder(FolderError::InUse { .. }) => {
            failure.hint("stop that process first; only one process can open a folder at a time")
        }
        OpenError::Folder(FolderError::Missing { .. }) => {
            failure.hint("give the folder in which a server keeps its data")
        }
        OpenError::Folder(FolderError::NotAStore { .. }) => {
            failure.hint("give the folder that contains the file FORMAT")
        }
        OpenError::Folder(FolderError::Older { .. }) => {
            failure.hint("use a build of that commit; nothing was changed")
        }
        OpenError::Folder(FolderError::Newer { .. }) => {
            failure.hint("use the version of indelible that wrote it, or a newer one")
        }
        OpenError::Folder(FolderError::Io { .. }) => {
            failure.hint("check the folder's permissions and its disk")
        }
        OpenError::Start(StartError::Backend(_))
        | OpenError::Backend { .. }
        | OpenError::Damaged { .. }
        | OpenError::Folder(FolderError::Format { .. } | FolderError::BackendMissing { .. }) => {
            failure.hint("nothing was changed; restore the folder from a copy, or ask for help with this message")
        }
        _ => failure,
    }
}

/// Ends a command; fails if the store could not be closed cleanly.
fn close(store: Store) -> Result<(), Failure> {
    store.close().map_err(|poison| Failure::new(poison.to_string()))
}
