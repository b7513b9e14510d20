//! What lies in fjall's folder: its version marker, its journals by number, its keyspaces.
#![expect(clippy::disallowed_methods, reason = "fjall's files are read before it opens")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{PreflightError, damaged, tree};

/// The marker that says that the folder is complete, of which version.
pub(super) const VERSION: &str = "version";
/// What is in it.
const VERSION_BYTES: [u8; 4] = *b"FJL\x03";
pub(super) const KEYSPACES: &str = "keyspaces";
const JOURNAL_SUFFIX: &str = "jnl";

/// The names in a folder; none if it is not there.
pub(super) fn names(folder: &Path) -> Result<Vec<OsString>, PreflightError> {
    let io = |source| PreflightError::Io { path: folder.to_path_buf(), source };
    match fs::read_dir(folder) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
    .map_err(io)
}

/// Whether the marker is there and right, or what it is instead.
pub(super) enum Marker {
    Right,
    Missing,
    BatchFault,
}

/// Looks at the version marker.
pub(super) fn marker(folder: &Path) -> Result<Marker, PreflightError> {
    let path = folder.join(VERSION);
    match fs::read(&path) {
        Ok(bytes) if bytes == VERSION_BYTES => Ok(Marker::Right),
        Ok(_) => Ok(Marker::BatchFault),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Marker::Missing),
        Err(source) => Err(PreflightError::Io { path, source }),
    }
}

/// The journals, oldest first. fjall numbers them one after another and deletes the oldest first,
/// so a gap means that a journal was lost.
pub(super) fn journals(folder: &Path) -> Result<Vec<(u64, PathBuf)>, PreflightError> {
    let mut journals = Vec::new();
    for name in names(folder)? {
        let path = folder.join(&name);
        if path.extension().is_none_or(|suffix| !suffix.eq_ignore_ascii_case(JOURNAL_SUFFIX)) {
            continue;
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        match stem.and_then(|stem| stem.parse::<u64>().ok()) {
            Some(id) if name == *format!("{id}.{JOURNAL_SUFFIX}") && path.is_file() => {
                journals.push((id, path));
            }
            _ => return Err(damaged(&path, None, "it is not a journal by its name and kind")),
        }
    }
    journals.sort_unstable();
    for (before, next) in journals.iter().zip(journals.iter().skip(1)) {
        if before.0 + 1 != next.0 {
            let missing = folder.join(format!("{}.{JOURNAL_SUFFIX}", before.0 + 1));
            return Err(damaged(&missing, None, "it is missing between other journals"));
        }
    }
    Ok(journals)
}

/// The keyspaces that are complete, after checking each.
pub(super) fn keyspaces(folder: &Path) -> Result<BTreeSet<u64>, PreflightError> {
    let folder = folder.join(KEYSPACES);
    let mut complete = BTreeSet::new();
    let mut other = None;
    for name in names(&folder)? {
        let path = folder.join(&name);
        if path.is_file() {
            // fjall ignores it, too.
            continue;
        }
        let Some(id) = name.to_str().and_then(|name| name.parse::<u64>().ok()) else {
            return Err(damaged(&path, None, "it is not a keyspace by its name"));
        };
        if id != tree::META {
            other = Some(path.clone());
        }
        if tree::check(&path, id)? {
            complete.insert(id);
        }
    }
    // Keyspace 0 is made before any other. Without it fjall makes a new one, which lists no
    // keyspaces, and deletes all the others.
    if let Some(other) = other
        && !complete.contains(&tree::META)
    {
        return Err(damaged(
            &folder.join(tree::META.to_string()),
            None,
            &format!("the list of keyspaces is missing, but {} exists", other.display()),
        ));
    }
    Ok(complete)
}
