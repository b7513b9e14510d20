//! One journal file: its batches, one after another, and how it ends.

use std::collections::BTreeSet;
use std::path::Path;

use super::batch::{self, Watch};
use super::source::Source;
use super::tear::{self, Tail, TailKind};
use super::{JournalFile, PreflightError};

/// How the batches of a file end.
#[derive(Debug)]
pub(super) enum Ending {
    /// Zeros, or the end of the file.
    Clean,
    /// A torn write, from the end of the batches to this place.
    Torn(u64),
    /// Damage: where, and what.
    Damaged(u64, String),
}

/// What all journals together have shown so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The sequence number of the last batch.
    pub(super) after: Option<u64>,
    /// The keyspaces that batches write to.
    pub(super) keyspaces: BTreeSet<u64>,
}

/// Reads a file from its start.
pub(super) fn read(
    path: &Path,
    id: u64,
    progress: &mut Progress,
) -> Result<(JournalFile, Ending), PreflightError> {
    let io = |source| PreflightError::Io { path: path.to_path_buf(), source };
    let mut source = Source::open(path).map_err(io)?;
    let mut file =
        JournalFile { id, path: path.to_path_buf(), bytes: 0, batches: 0, items: 0, seqnos: None };
    let mut keyspaces = Keyspaces::default();
    let failure = loop {
        let read = batch::read(&mut source, file.bytes, progress.after, &mut keyspaces);
        match read.map_err(io)? {
            Ok(batch) => {
                file.bytes = batch.end;
                file.batches += 1;
                file.items += u64::from(batch.items);
                let first = file.seqnos.map_or(batch.seqno, |(first, _)| first);
                file.seqnos = Some((first, batch.seqno));
                progress.after = Some(batch.seqno);
                keyspaces.keep(&mut progress.keyspaces);
            }
            Err(failure) => break failure,
        }
    };
    let at = file.bytes;
    let end = source.data_end(at).map_err(io)?;
    if end == at {
        return Ok((file, Ending::Clean));
    }
    let tail = Tail { at, end, after: progress.after, failure };
    let ending = match tear::judge(path, &mut source, tail).map_err(io)? {
        TailKind::Torn => Ending::Torn(end),
        TailKind::Damaged(offset, what) => Ending::Damaged(offset, what),
    };
    Ok((file, ending))
}

/// The keyspaces of the batch that is being read.
#[derive(Default)]
struct Keyspaces {
    /// The last one seen: mostly that of the next item too, which saves a lookup in the set.
    last: Option<u64>,
    seen: BTreeSet<u64>,
}

impl Keyspaces {
    fn keep(&mut self, all: &mut BTreeSet<u64>) {
        if self.seen.iter().any(|id| !all.contains(id)) {
            all.extend(&self.seen);
        }
    }
}

impl Watch for Keyspaces {
    fn keyspace(&mut self, id: u64) {
        if self.last != Some(id) {
            self.last = Some(id);
            self.seen.insert(id);
        }
    }
}
