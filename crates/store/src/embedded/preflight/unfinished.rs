//! What a crash left unfinished: a torn write, which [`cut`] cuts off, and a folder whose creation
//! was interrupted, which [`stage`] recognises. Of the preflight, only `cut` changes files.
#![expect(clippy::disallowed_methods, reason = "fjall's files are repaired before it opens")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::folder::{KEYSPACES, Marker, VERSION, names};
use super::{PreflightError, Stage, TornTail, damaged};

/// Cuts off a torn write. The cut is durable when this returns.
pub(crate) fn cut(torn: &TornTail) -> io::Result<()> {
    // Blank journals first, newest first. If the torn one were cut first, a crash would leave a
    // journal that is not full and yet has a successor, which counts as damage.
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

/// How far the creation of a folder came whose version marker is not right. fjall writes the marker
/// after it has created the first journal and the folder of keyspaces, and before it writes to
/// them.
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
            Marker::Right | Marker::BatchFault => "its version is unknown to this build",
        };
        return Err(damaged(&path, None, what));
    }
    let missing = matches!(marker, Marker::Missing);
    Ok(if missing && journals.is_empty() { Stage::Absent } else { Stage::Unfinished })
}
