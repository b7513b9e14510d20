//! What was begun and never finished: a torn write, which is cut off, and a first start that was
//! interrupted. Only here is anything changed.
#![expect(clippy::disallowed_methods, reason = "the backend's files are mended before the engine")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::folder::{KEYSPACES, Marker, VERSION, names};
use super::{PreflightError, Stage, TornTail, damaged};

/// Cuts a torn write off, for good when this returns.
pub(crate) fn cut(torn: &TornTail) -> io::Result<()> {
    // The blank ones first. The other way round, a crash in between would leave a journal that
    // has a next one and yet is not full, which is damage.
    for blank in torn.blank.iter().rev() {
        fs::remove_file(blank)?;
    }
    if let Some(folder) = torn.path.parent()
        && !torn.blank.is_empty()
    {
        File::open(folder)?.sync_all()?;
    }
    let file = OpenOptions::new().write(true).open(&torn.path)?;
    file.set_len(torn.at)?;
    file.sync_all()
}

/// How far creation came in a folder whose version marker is not right. fjall writes the marker
/// after the first journal and the folder of keyspaces, and before anything is in them.
pub(super) fn stage(
    folder: &Path,
    marker: &Marker,
    journals: &[(u64, PathBuf)],
    blank: bool,
) -> Result<Stage, PreflightError> {
    let path = folder.join(VERSION);
    let first_only = matches!(journals, [] | [(0, _)]) && blank;
    if !first_only || !names(&folder.join(KEYSPACES))?.is_empty() {
        // Without the marker, fjall would create everything anew beside what is there.
        let what = match marker {
            Marker::Missing => "it is missing, but there is data",
            Marker::Right | Marker::BatchFault => "it is not a version that this build knows",
        };
        return Err(damaged(&path, None, what));
    }
    let missing = matches!(marker, Marker::Missing);
    Ok(if missing && journals.is_empty() { Stage::Absent } else { Stage::Unfinished })
}
