//! `indelible store restore`: makes a new data folder from a backup. The folder is made under
//! another name, and gets its own once everything in it is verified.
#![expect(clippy::disallowed_methods, reason = "it makes the folder that was named")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use indelible_records::TABLES;
use indelible_records::backup::{self, BackupError, Counts, Header, Reader, RestoreError};
use indelible_records::check;
use indelible_records::executions::Standing;
use indelible_records::hold::{self, Restored};
use indelible_records::listing::{self, Filter, PAGE_MAX};
use indelible_records::restores;
use indelible_runtime::world::{Clock as _, System};
use indelible_store::{Store, embedded};
use serde::Serialize;

use super::partial::{cannot, sync_folder_of};
use super::progress::{self, CheckProgress, Progress};
use crate::failure::Failure;
use crate::print;
use crate::serve::folder;
use crate::text::count;

pub(super) const HELP: &str = "\
DIR must be empty or absent. Before DIR appears, every part of FILE is verified, and then the new
folder, as by `indelible store check`. If there is a problem, nothing is created.

A backup takes Indelible back in time, but not the rest of the world. The new folder does not know
what happened after the backup: its server repeats the steps that unfinished executions have taken
since, and executes a later request again when it is repeated. So restore only when the original is
lost, and never next to a server that still runs it.

With --hold the new folder is on hold: its server shows everything, and nothing goes on until an
operator says so with `indelible hold lift`. Meanwhile look at what is unfinished and unknown.
Without it, what is unfinished goes on at once. In both cases requests under a key or an operation id
that the backup does not have are refused (`restored`) until an operator has lifted the hold.

API keys are as they were: a key that was revoked since then is valid again. Components are compiled
again when they are first used.

Exit codes:
  0  the folder was created
  1  it was not created, and nothing has changed
  2  invalid arguments

Examples:
  indelible store restore monday.backup indelible-data --hold
  indelible serve --data indelible-data
  indelible hold show";

#[derive(Args)]
pub(crate) struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The data folder to make
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The new folder is on hold: its server lets nothing go on until an operator says so
    #[arg(long)]
    hold: bool,
    /// Make the folder although `store check` finds something wrong in it: the store was damaged
    /// before the backup was taken
    #[arg(long)]
    despite_problems: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    folder: &'a Path,
    position: u64,
    made_at: String,
    rows: u64,
    bytes: u64,
    unfinished: u64,
    on_hold: bool,
    problems_count: u64,
}

/// What was restored.
struct RestoreReport {
    header: Header,
    counts: Counts,
    /// Roots that are not finished.
    unfinished: u64,
    /// The folder is on hold: that was asked for, or the backup was of one on hold.
    on_hold: bool,
    problems: u64,
}

impl Restore {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let open = || {
            let file = File::open(&self.file);
            let file = file.map_err(|error| cannot("open", &self.file, &error))?;
            let reader = Reader::open(BufReader::new(file));
            reader.map_err(|error| hinted(self.unusable(&error), &error))
        };
        // The backup is verified first: a bad one is refused before anything is written.
        self.free()?;
        progress::verify(open()?).map_err(|error| hinted(self.unusable(&error), &error))?;
        let aside = Aside::create(&self.folder)?;
        let made = self.make(open()?, &aside)?;
        aside.keep(&self.folder)?;
        let document = Document {
            v: print::VERSION,
            folder: &self.folder,
            position: made.header.position.number(),
            made_at: made.header.made_at.to_string(),
            rows: made.counts.rows,
            bytes: made.counts.bytes,
            unfinished: made.unfinished,
            on_hold: made.on_hold,
            problems_count: made.problems,
        };
        let written = if self.json { print::pretty(&document, out) } else { text(&document, out) };
        written.map_err(|error| Failure::output(&error))
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::new(format!("{} cannot be used: {error}", self.file.display()))
    }

    /// Fails unless the folder is missing or empty.
    fn free(&self) -> Result<(), Failure> {
        let hint = "give a folder that is empty or does not exist";
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(cannot("list", &self.folder, &error).hint(hint)),
            Ok(mut entries) => entries.next(),
        };
        match entries {
            None => Ok(()),
            Some(_) => Err(Failure::new(format!("{} is not empty", self.folder.display()))
                .hint(format!("{hint}: nothing is overwritten"))),
        }
    }

    fn make(
        &self,
        reader: Reader<BufReader<File>>,
        aside: &Aside,
    ) -> Result<RestoreReport, Failure> {
        let store =
            embedded::open(&aside.data().join("store"), &TABLES, &embedded::Options::default());
        let store = store.map_err(|error| super::refused(&error))?;
        let mut progress = Progress::new("restored");
        let restored = backup::restore(reader, &store, &mut |read| progress.at(read));
        let (header, counts) = restored.map_err(|error| match &error {
            RestoreError::Backup(why) => hinted(self.unusable(&error), why),
            RestoreError::UnknownTable(_) => self.unusable(&error).hint(NEWER),
            _ => self.unusable(&error).hint("check the disk of the folder"),
        })?;
        drop(progress);
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(error.to_string()).hint(
                "nothing was restored; check the disk of the \
                 folder",
            )
        };
        let mut checking = CheckProgress::new(counts.bytes);
        let findings = check::check(&store, &mut |table| checking.at(table));
        drop(checking);
        let findings = findings.map_err(|error| failed(&error))?;
        let problems = findings.problems_count;
        if problems > 0 && !self.despite_problems {
            let list = findings.problems.iter().take(10);
            let list = list.map(|problem| format!("{}: {}", problem.table, problem.what)).collect();
            let count = count(problems, "problem");
            return Err(Failure::new(format!(
                "the backup is complete, but its contents are inconsistent ({count}): the store \
                 was damaged before the backup was taken"
            ))
            .list(list)
            .hint("use an earlier backup, or restore anyway with --despite-problems"));
        }
        let unfinished = unfinished(&store).map_err(|error| failed(&error))?;
        // Before the folder has its name: no server can be started on it without this.
        count_restore(&store).map_err(|error| failed(&*error))?;
        let earlier = hold::get(&store).map_err(|error| failed(&error))?.value;
        let on_hold = self.hold || earlier.is_some_and(|earlier| earlier.on_hold);
        wait_for_operator(&store, &header, on_hold).map_err(|error| failed(&*error))?;
        super::close(store)?;
        Ok(RestoreReport { header, counts, unfinished, on_hold, problems })
    }
}

/// Counts the restore, durably: clients of the ledger that are ahead of it are told so (C-48).
fn count_restore(store: &Store) -> Result<(), Box<dyn std::error::Error>> {
    Ok(store.durable(restores::raise(store)?).wait()?)
}

/// Puts a restored store on hold, or closes it to names that it does not know (C-48), durably.
fn wait_for_operator(
    store: &Store,
    header: &Header,
    on_hold: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let restored = Restored { at: System.now(), backup_made_at: header.made_at, on_hold };
    Ok(store.durable(hold::create(store, &restored)?).wait()?)
}

const NEWER: &str = "use the version of indelible that made it, or a newer one";

fn hinted(failure: Failure, error: &BackupError) -> Failure {
    match error {
        BackupError::NotABackup => failure.hint("take a backup with `indelible store backup FILE`"),
        BackupError::Newer { .. } => failure.hint(NEWER),
        BackupError::Older { .. } => {
            failure.hint("nothing was restored; use a build of that commit")
        }
        BackupError::CutOff { .. } | BackupError::Damaged { .. } => {
            failure.hint("nothing was restored; use another copy of it, or an earlier backup")
        }
        BackupError::Io(_) => failure.hint(
            "nothing was restored; check the disk that holds the \
             backup",
        ),
        _ => failure,
    }
}

/// How many roots are not finished: a server will go on with them.
fn unfinished(store: &Store) -> Result<u64, indelible_store::ReadError> {
    let standings = Standing::ALL.into_iter().filter(|standing| !standing.is_terminal());
    let filter = Filter { standings: standings.collect(), ..Filter::default() };
    let snapshot = store.snapshot()?;
    let (mut count, mut after) = (0, None);
    loop {
        let page = listing::list(&snapshot, &filter, after.as_ref(), PAGE_MAX)?.value;
        count += page.executions.len() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(count),
        }
    }
}

fn text(document: &Document<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "folder      {}", document.folder.display())?;
    writeln!(out, "taken at    {}", document.made_at)?;
    writeln!(out, "rows        {}", document.rows)?;
    writeln!(out, "unfinished  {}", document.unfinished)?;
    if document.on_hold {
        writeln!(out, "on hold     until `indelible hold lift`")?;
    } else {
        writeln!(
            out,
            "closed      to keys and ids that it does not have, until `indelible hold lift`"
        )?;
    }
    if document.problems_count > 0 {
        writeln!(out, "problems    {}", document.problems_count)?;
    }
    Ok(())
}

/// The folder `DIR.partial`, in which the data folder is made. Dropping this removes it.
struct Aside {
    path: PathBuf,
    /// Locked while the folder is in use.
    _marker: File,
}

/// A file that marks a folder as one of these, which may be removed.
const MARKER: &str = "RESTORING";

impl Aside {
    fn create(folder: &Path) -> Result<Self, Failure> {
        if folder.file_name().is_none() {
            return Err(Failure::new(format!("{} has no name", folder.display()))
                .hint("give the folder to create, such as ./indelible-data"));
        }
        // The given path may end with a slash.
        let mut path = folder.components().as_path().as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        let failed = |error: &io::Error| cannot("make", &path, error);
        let marker = path.join(MARKER);
        let made = path.parent().map_or(Ok(()), folder::make).and_then(|()| make_new(&path));
        match made {
            Ok(()) => {}
            // With the marker, a killed restore left it; without, another program made it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && marker.is_file() => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Failure::new(format!("{} already exists", path.display())).hint(
                    "the folder is first created there: remove it, or choose another folder",
                ));
            }
            Err(error) => return Err(failed(&error)),
        }
        let opened = OpenOptions::new().create(true).append(true).open(&marker);
        let marker = opened.map_err(|error| failed(&error))?;
        match marker.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Failure::new(format!(
                    "another process is creating {}",
                    folder.display()
                ))
                .hint("wait for it, or choose another folder"));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(&error)),
        }
        let aside = Self { path, _marker: marker };
        // A killed restore may have left data.
        match fs::remove_dir_all(aside.data()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("remove", &aside.data(), &error));
            }
            _ => {}
        }
        make_new(&aside.data()).map_err(|error| cannot("make", &aside.data(), &error))?;
        Ok(aside)
    }

    /// The folder that will become the data folder.
    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Renames the data to its final name, durably.
    fn keep(self, folder: &Path) -> Result<(), Failure> {
        sync_folder_of(&self.data().join("store"))?;
        // The owner of an existing folder has chosen its permissions: they are kept.
        if let Ok(there) = fs::metadata(folder) {
            let kept = fs::set_permissions(self.data(), there.permissions());
            kept.map_err(|error| cannot("make", folder, &error))?;
        }
        // The rename replaces an empty folder; it fails if the folder is no longer empty.
        fs::rename(self.data(), folder.components().as_path()).map_err(|error| {
            cannot("make", folder, &error).hint(
                "another process may have written to it in the \
                 meantime",
            )
        })?;
        sync_folder_of(folder.components().as_path())
    }
}

/// Makes a folder that is private to this user; fails if it exists.
fn make_new(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

impl Drop for Aside {
    fn drop(&mut self) {
        // If it cannot be removed, its name and its marker say what it is.
        _ = fs::remove_dir_all(&self.path);
    }
}
