//! `indelible store backup`: a copy of everything in one file, of a running server or of a folder
//! that no server has open.

use std::fs;
use std::io::{self, BufReader, BufWriter, Seek as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indelible_records::backup::{Counts, Header, Reader, Writer};
use indelible_runtime::world::{Clock as _, System};
use serde::Serialize;

use super::OpenReport;
use super::partial::Partial;
use super::progress::{self, Progress};
use super::text::bytes;
use crate::failure::Failure;
use crate::print;
use crate::remote::{Remote, Server};

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
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "context", "token_file"])]
    data: Option<PathBuf>,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
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
    pub(super) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        self.free()?;
        let partial = Partial::create(&self.file)?;
        match &self.data {
            Some(folder) => of_folder(folder, &partial)?,
            None => {
                let remote = self.server.connect().map_err(Failure::or_a_folder)?;
                of_server(&remote, &partial)?;
            }
        }
        let (header, counts, file_bytes) = verify(&partial)?;
        // Another process may have made the file meanwhile.
        if !partial.keep(&self.file, self.force)? {
            return Err(self.taken());
        }
        let document = Document {
            v: print::VERSION,
            file: &self.file,
            file_bytes,
            position: header.position.number(),
            made_at: header.made_at.to_string(),
            rows: counts.rows,
            bytes: counts.bytes,
        };
        let written = if self.json { print::pretty(&document, out) } else { text(&document, out) };
        written.map_err(|error| Failure::output(&error))
    }

    /// Fails if the file exists and is not to be replaced.
    fn free(&self) -> Result<(), Failure> {
        if !self.force && fs::symlink_metadata(&self.file).is_ok() {
            return Err(self.taken());
        }
        Ok(())
    }

    fn taken(&self) -> Failure {
        Failure::new(format!("{} already exists", self.file.display()))
            .hint("choose another file, or replace it with --force")
    }
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
    let OpenReport { store, .. } = super::open(folder)?;
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::new(error.to_string()).hint("find the damage with `indelible store check`")
    };
    let snapshot = store.snapshot().map_err(|error| unreadable(&error))?;
    let durable = store.durable(snapshot.position()).wait();
    durable.map_err(|error| unreadable(&error))?;
    let mut writer = Writer::new(snapshot, System.now());
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

/// Reads the backup back, from the disk's cache at least, and verifies it.
fn verify(partial: &Partial) -> Result<(Header, Counts, u64), Failure> {
    let mut file = &partial.file;
    file.sync_all().map_err(|error| partial.failed("sync", &error))?;
    let length = file.metadata().and_then(|found| file.rewind().map(|()| found.len()));
    let length = length.map_err(|error| partial.failed("read", &error))?;
    let read = Reader::open(BufReader::new(file)).and_then(progress::verify);
    let (header, counts) = read.map_err(|error| {
        Failure::new(format!("the backup that was written cannot be used: {error}"))
            .hint("take another one; if that fails too, check the disk and the connection")
    })?;
    Ok((header, counts, length))
}
