//! `indelible store`: a data folder, from outside: what is in it, whether it is sound, and copies of
//! it.
//!
//! - `check`, `info`, `backup`, `restore`: the commands.
//! - `partial`: a file on its way to its name. `progress`: how far it is, for who watches.
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

use crate::failure::{Failure, Verdict};

const CHECK_HELP: &str = "\
Everything that can be verified is: the engine's checksums, the seal of every row, each journal
against the rules, each index against what it points to, both ways. Nothing is mended. Opening a
folder after a crash does what starting the server would do: it drops the tail of a commit that
the crash tore, which nobody was told of.

Exit codes:
  0  all is well
  1  something is wrong, or the folder cannot be opened
  2  the arguments make no sense";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check everything that is stored
    #[command(after_long_help = CHECK_HELP)]
    Check(Arguments),
    /// Show what is stored: sizes, counts, versions
    Info(Arguments),
    /// Copy everything that is stored into a file, while the server goes on
    #[command(after_long_help = backup::HELP)]
    Backup(backup::Backup),
    /// Make a new data folder of a backup
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

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<Verdict, Failure> {
    match command {
        Command::Check(arguments) => check::run(&arguments, out),
        Command::Info(arguments) => info::run(&arguments, out).map(|()| Verdict::Well),
        Command::Backup(command) => command.run(out).map(|()| Verdict::Well),
        Command::Restore(command) => command.run(out).map(|()| Verdict::Well),
    }
}

/// What was opened, and what opening it had to do.
struct Opened {
    store: Store,
    /// The tail of a torn commit that was cut off, in words.
    recovered: Option<String>,
}

/// Opens a folder that is there already.
fn open(folder: &Path) -> Result<Opened, Failure> {
    let mut options = Options::default();
    options.create = Create::No;
    // What `indelible run` was given as its data folder has the store within.
    let within = folder.join("store");
    let folder = if within.join("FORMAT").is_file() { &within } else { folder };
    let tables = &indelible_records::TABLES;
    let opened = EmbeddedBackend::open(folder, tables, &options).and_then(|backend| {
        let recovered = backend.recovered().map(ToString::to_string);
        let store = Store::start(std::sync::Arc::new(backend), tables, options.bounds)?;
        Ok(Opened { store, recovered })
    });
    opened.map_err(|error| refused(&error))
}

fn refused(error: &OpenError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        OpenError::Folder(FolderError::InUse { .. }) => {
            failure.hint("stop that process first; a folder has one user at a time")
        }
        OpenError::Folder(FolderError::Missing { .. }) => {
            failure.hint("name the folder in which a server keeps its data")
        }
        OpenError::Folder(FolderError::NotAStore { .. }) => {
            failure.hint("name the folder that has the file FORMAT in it")
        }
        OpenError::Folder(FolderError::Older { .. }) => {
            failure.hint("use a build of that commit; nothing was changed")
        }
        OpenError::Folder(FolderError::Newer { .. }) => {
            failure.hint("use the version of indelible that wrote it, or a newer one")
        }
        OpenError::Folder(FolderError::Io { .. }) => {
            failure.hint("look at the folder's permissions and its disk")
        }
        OpenError::Start(StartError::Backend(_))
        | OpenError::Engine { .. }
        | OpenError::Damaged { .. }
        | OpenError::Folder(FolderError::Format { .. } | FolderError::EngineMissing { .. }) => {
            failure.hint("nothing was changed; restore the folder from a copy, or ask for help with this message")
        }
        _ => failure,
    }
}

/// Ends a command: a store that could not be closed well says so.
fn close(store: Store) -> Result<(), Failure> {
    store.close().map_err(|poison| Failure::new(poison.to_string()))
}
