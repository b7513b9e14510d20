//! A check of fjall's folder before fjall opens it.
//!
//! fjall forgives too much for a store that must not lose what it acknowledged: it ends a journal
//! at the first entry that it cannot read and cuts off all that follows, it makes a new journal if
//! none is there, and it deletes keyspaces that it takes for unfinished. And it forgives too
//! little: a write that power loss cut short can keep it from opening, or make it allocate what a
//! broken length says. So [`examine`] reads the folder first and tells the two apart: damage is an
//! error, and a torn write is something to [`cut`] off.
//!
//! It relies on how our writer uses fjall. There is one writer; each commit is one batch, synced
//! before the next begins; journals are not compressed; keyspaces are never cleared nor deleted.
//! fjall syncs a journal before it makes the next one, and it makes the next one only after 64 000
//! 000 bytes.
//!
//! So only the newest journal can end in a torn write, with one exception: if a commit *fails* (the
//! disk is full, or a sync returns an error), fjall takes no more commits, but its workers may
//! still make the next journal. Then the torn write is in the last but one, and the newest is
//! blank. A blank journal may have any length: power may be lost between its creation and the
//! setting of its size.

mod batch;
mod folder;
mod journal;
mod source;
mod tear;
#[cfg(test)]
mod tests;
mod tree;
mod unfinished;

use std::path::{Path, PathBuf};

use self::folder::Marker;
use self::journal::{Ending, Progress};
pub(crate) use self::unfinished::cut;

/// fjall makes a new journal when the last one is longer than this.
const SEALED_BYTES_MIN: u64 = 64_000_000;

/// What is in fjall's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// How far its creation came.
    pub(crate) stage: Stage,
    /// The journals, oldest first.
    pub(crate) journals: Vec<JournalFile>,
    /// A write at the end that did not reach the disk as a whole.
    pub(crate) torn: Option<TornTail>,
}

/// How far the creation of fjall's folder came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// None of fjall's files are there. fjall will create them.
    Absent,
    /// The first start was interrupted. Nothing is stored yet, but fjall can neither open nor
    /// create the folder.
    Unfinished,
    /// It is there.
    Created,
}

/// One journal file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalFile {
    /// Its number.
    pub(crate) id: u64,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// How many bytes its batches take.
    pub(crate) bytes: u64,
    /// How many whole batches it has.
    pub(crate) batches: u64,
    /// How many items they have.
    pub(crate) items: u64,
    /// The sequence numbers of the first batch and of the last.
    pub(crate) seqnos: Option<(u64, u64)>,
}

/// A write that did not reach the disk as a whole. It was never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TornTail {
    /// The journal.
    pub(crate) path: PathBuf,
    /// Where its last whole batch ends.
    pub(crate) at: u64,
    /// How many bytes from there to the last that is not zero.
    pub(crate) bytes: u64,
    /// Newer journals, which are blank.
    pub(crate) blank: Vec<PathBuf>,
}

/// Why fjall must not open the folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreflightError {
    /// It could not be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is not as it was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

/// Something that is not as it was written. Opening the folder could lose what was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is damaged{}: {what}", path.display(), at_byte(*offset))]
pub(crate) struct Damage {
    /// The file.
    pub(crate) path: PathBuf,
    /// The byte in it, if it is a matter of bytes.
    pub(crate) offset: Option<u64>,
    /// What is wrong.
    pub(crate) what: String,
}

fn at_byte(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset}"))
}

fn damaged(path: &Path, offset: Option<u64>, what: &str) -> PreflightError {
    Damage { path: path.to_path_buf(), offset, what: what.to_owned() }.into()
}

/// Reads fjall's folder, and changes nothing.
pub(crate) fn examine(folder: &Path) -> Result<Report, PreflightError> {
    let found = folder::journals(folder)?;
    let marker = folder::marker(folder)?;
    let (journals, torn, progress) = read_journals(&found)?;
    let blank = torn.is_none() && journals.iter().all(|journal| journal.batches == 0);
    if !matches!(marker, Marker::Right) {
        let stage = unfinished::stage(folder, &marker, &found, blank)?;
        return Ok(Report { stage, journals, torn });
    }

    if journals.is_empty() {
        // The first journal is made before the marker. Without any, fjall would start a new one.
        return Err(damaged(folder, None, "it has no journal"));
    }
    let keyspaces_path = folder.join(folder::KEYSPACES);
    if !keyspaces_path.is_dir() {
        return Err(damaged(&keyspaces_path, None, "it is missing"));
    }
    let keyspaces = folder::keyspaces(folder)?;
    let fresh = blank && matches!(found.as_slice(), [(0, _)]);
    if !fresh && !keyspaces.contains(&tree::META) {
        // fjall makes it right after the marker, and before anything is written.
        let path = keyspaces_path.join(tree::META.to_string());
        return Err(damaged(&path, None, "the list of keyspaces is missing"));
    }
    if let Some(missing) = progress.keyspaces.difference(&keyspaces).next() {
        // fjall ignores items of keyspaces that it does not find.
        let path = keyspaces_path.join(missing.to_string());
        return Err(damaged(&path, None, "it is missing, but a journal has items for it"));
    }
    Ok(Report { stage: Stage::Created, journals, torn })
}

type Journals = (Vec<JournalFile>, Option<TornTail>, Progress);

fn read_journals(found: &[(u64, PathBuf)]) -> Result<Journals, PreflightError> {
    let mut journals: Vec<JournalFile> = Vec::with_capacity(found.len());
    let mut torn: Option<TornTail> = None;
    let mut progress = Progress::default();
    for (place, (id, path)) in found.iter().enumerate() {
        let newest = place + 1 == found.len();
        let (file, ending) = journal::read(path, *id, &mut progress)?;
        if let Ending::Damaged(offset, what) = ending {
            return Err(damaged(path, Some(offset), &what));
        }
        if let Some(torn) = &mut torn {
            // fjall wrote this journal's data only after the write before it had succeeded, so that
            // write cannot be torn.
            if file.batches > 0 || !matches!(ending, Ending::Clean) {
                return Err(damaged(
                    &torn.path,
                    Some(torn.at),
                    &format!("its last batch is torn, but {} has data", path.display()),
                ));
            }
            torn.blank.push(path.clone());
        } else if let Ending::Torn(end) = ending {
            let (at, bytes) = (file.bytes, end - file.bytes);
            torn = Some(TornTail { path: path.clone(), at, bytes, blank: Vec::new() });
        } else if !newest && file.bytes <= SEALED_BYTES_MIN {
            return Err(damaged(
                path,
                Some(file.bytes),
                "its batches end here, but the backend would not have begun the next journal yet",
            ));
        }
        journals.push(file);
    }
    Ok((journals, torn, progress))
}
