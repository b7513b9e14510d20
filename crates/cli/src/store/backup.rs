//! `indelible store backup`: a copy of everything, in one file: of a server that goes on, or of a
//! folder that no server has open.
#![expect(clippy::disallowed_methods, reason = "it writes the file that was named")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use indelible_journal::Timestamp;
use indelible_store::backup::{Counts, Header, Reader, Writer};
use serde::Serialize;

use super::text::bytes;
use super::{JSON_VERSION, Opened};
use crate::failure::{Failure, Verdict};
use crate::remote::{Connection, Remote};

pub(super) const HELP: &str = "\
The server goes on meanwhile; the backup shows what it had, durably, at one moment. It needs the role
admin, and takes one backup at a time. With --data the folder is read in its place: no server may
have it open.

FILE is there when all of it is written, read back and verified; until then it is called
FILE.partial. It holds everything that is stored: inputs, results, components, the hashes of API
keys. What functions logged is not in it, nor are secrets.

`indelible store restore` makes a data folder of it. What happened after the backup is not in it:
see there before you use it.

Exit codes:
  0  the backup is there
  1  it is not, and nothing has changed
  2  the arguments make no sense
  5  no answer from the server

Examples:
  indelible store backup monday.backup
  indelible store backup monday.backup --url https://indelible.example.com
  indelible store backup monday.backup --data indelible-data";

#[derive(Args)]
pub(crate) struct Backup {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read this data folder, which no server has open, instead of asking a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "context", "namespace", "token_file"])]
    data: Option<PathBuf>,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    file: &'a Path,
    file_bytes: u64,
    position: u64,
    made_at: String,
    rows: u64,
    bytes: u64,
}

impl Backup {
    pub(super) fn run(&self, out: &mut impl Write) -> Result<Verdict, Failure> {
        self.free()?;
        let partial = Partial::create(&self.file)?;
        match &self.data {
            Some(folder) => of_folder(folder, &partial)?,
            None => of_server(&self.connection.connect()?, &partial)?,
        }
        let (header, counts, file_bytes) = partial.verify()?;
        // Somebody may have made it meanwhile.
        self.free()?;
        partial.keep(&self.file)?;
        let document = Document {
            v: JSON_VERSION,
            file: &self.file,
            file_bytes,
            position: header.position.number(),
            made_at: header.made_at.to_string(),
            rows: counts.rows,
            bytes: counts.bytes,
        };
        let written = if self.json { json(&document, out) } else { text(&document, out) };
        written.map_err(|error| Failure::output(&error))?;
        Ok(Verdict::Well)
    }

    /// Whether the file may be written.
    fn free(&self) -> Result<(), Failure> {
        if !self.force && fs::symlink_metadata(&self.file).is_ok() {
            return Err(Failure::new(format!("{} is there already", self.file.display()))
                .hint("name another file; --force replaces it"));
        }
        Ok(())
    }
}

fn json(document: &Document<'_>, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

fn text(document: &Document<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "file       {}", document.file.display())?;
    writeln!(out, "size       {}", bytes(document.file_bytes))?;
    writeln!(out, "position   {}", document.position)?;
    writeln!(out, "made at    {}", document.made_at)?;
    writeln!(out, "rows       {}", document.rows)
}

fn of_server(remote: &Remote, partial: &Partial) -> Result<(), Failure> {
    let mut progress = Progress::new("received");
    let mut to = BufWriter::new(&partial.file);
    let mut backup = remote.run(remote.client.backup())?;
    while let Some(piece) = remote.run(backup.next())? {
        to.write_all(&piece).map_err(|error| partial.failed("write", &error))?;
        progress.add(piece.len());
    }
    to.flush().map_err(|error| partial.failed("write", &error))
}

fn of_folder(folder: &Path, partial: &Partial) -> Result<(), Failure> {
    let Opened { store, .. } = super::open(folder)?;
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(error.to_string())
            .hint("`indelible store check` says what is wrong with the folder")
    };
    let snapshot = store.snapshot().map_err(|error| unreadable(&error))?;
    let durable = store.durable(snapshot.position()).wait();
    durable.map_err(|error| unreadable(&error))?;
    let mut writer = Writer::new(snapshot, now());
    let mut progress = Progress::new("copied");
    let mut to = BufWriter::new(&partial.file);
    while let Some(piece) = writer.next().map_err(|error| unreadable(&error))? {
        to.write_all(&piece).map_err(|error| partial.failed("write", &error))?;
        progress.add(piece.len());
    }
    to.flush().map_err(|error| partial.failed("write", &error))?;
    drop(writer);
    super::close(store)
}

/// What time it is here.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

/// A file on its way to its name. It goes with this, unless it is kept.
struct Partial {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl Partial {
    fn create(file: &Path) -> Result<Self, Failure> {
        let mut path = file.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        let failed = |error: &io::Error| cannot("create", &path, error);
        let mut options = OpenOptions::new();
        // It is read back, and whoever has it has everything: nobody else may read it.
        options.read(true).write(true).create(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(&path).map_err(|error| failed(&error))?;
        // Left over by a process that was killed, or another one's.
        match opened.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Failure::new(format!("another process writes {}", path.display()))
                    .hint("wait for it, or name another file"));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(&error)),
        }
        opened.set_len(0).map_err(|error| failed(&error))?;
        Ok(Self { path, file: opened, kept: false })
    }

    fn failed(&self, doing: &str, error: &io::Error) -> Failure {
        cannot(doing, &self.path, error)
    }

    /// Reads it back, from the disk's cache at least, and compares it with itself.
    fn verify(&self) -> Result<(Header, Counts, u64), Failure> {
        self.file.sync_all().map_err(|error| self.failed("sync", &error))?;
        let file = File::open(&self.path).map_err(|error| self.failed("read", &error))?;
        let length = file.metadata().map_err(|error| self.failed("read", &error))?.len();
        let read = Reader::open(BufReader::new(file)).and_then(Reader::verify);
        let (header, counts) = read.map_err(|error| {
            Failure::new(format!("the backup that was written cannot be used: {error}"))
                .hint("take another one; if that fails too, look at the disk and at the connection")
        })?;
        Ok((header, counts, length))
    }

    /// Gives it its name, for good.
    fn keep(mut self, file: &Path) -> Result<(), Failure> {
        fs::rename(&self.path, file).map_err(|error| self.failed("rename", &error))?;
        self.kept = true;
        sync_folder_of(file)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // It is no backup. If it cannot be removed, its name says so.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes durable what a file or folder is called.
pub(super) fn sync_folder_of(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let sync = || File::open(parent)?.sync_all();
    sync().map_err(|error| cannot("sync", parent, &error))
}

pub(super) fn cannot(doing: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {doing} {}: {error}", path.display()))
}

/// So many bytes go by before they are told of again.
const PROGRESS_BYTES: u64 = 4 << 20;

/// Tells how far it is, on a terminal.
pub(super) struct Progress {
    word: &'static str,
    shown: bool,
    bytes: u64,
    told: u64,
}

impl Progress {
    pub(super) fn new(word: &'static str) -> Self {
        Self { word, shown: io::stderr().is_terminal(), bytes: 0, told: 0 }
    }

    fn add(&mut self, count: usize) {
        self.at(self.bytes + count as u64);
    }

    /// So many bytes in all.
    pub(super) fn at(&mut self, count: u64) {
        self.bytes = count;
        if self.shown && self.bytes - self.told >= PROGRESS_BYTES {
            self.told = self.bytes;
            // Nobody is left to tell if stderr is closed.
            _ = write!(io::stderr(), "\r{} {}   ", self.word, bytes(self.bytes));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told > 0 {
            _ = writeln!(io::stderr(), "\r{} {}   ", self.word, bytes(self.bytes));
        }
    }
}
