//! The folder of one keyspace: an LSM tree, whose `current` file names the version file that
//! lists its tables.
//!
//! fjall takes a folder without `current` for one whose creation was interrupted, and deletes or
//! replaces it; it does not check the checksum of the version file that `current` holds; it deletes
//! every table that the version file does not list; and it takes a missing folder of blob files for
//! an empty one. So all of that is checked here.
//!
//! Not checked here: the content of tables, except those of keyspace 0, which list the keyspaces
//! and are small. Each block of a table has a checksum that fjall checks whenever it reads the
//! block.
#![expect(clippy::disallowed_methods, reason = "fjall's files are read before it opens")]

use std::fs;
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use super::source::Source;
use super::{PreflightError, damaged};

/// The keyspace in which fjall lists the keyspaces.
pub(super) const META: u64 = 0;

const CURRENT: &str = "current";
const TABLES: &str = "tables";
const BLOBS: &str = "blobs";

/// Version, checksum of the version file, kind of checksum.
const CURRENT_BYTES: usize = 8 + 16 + 1;

/// Checks a keyspace's folder. `false`: its creation was interrupted before anything was in it.
pub(super) fn check(folder: &Path, id: u64) -> Result<bool, PreflightError> {
    let current_path = folder.join(CURRENT);
    let current = match fs::read(&current_path) {
        Ok(current) => current,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return untouched(folder),
        Err(source) => return Err(PreflightError::Io { path: current_path, source }),
    };
    let Some((version, checksum)) = parse_current(&current) else {
        return Err(damaged(&current_path, None, "it does not name a version"));
    };
    let version_path = folder.join(format!("v{version}"));
    let bytes = match fs::read(&version_path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(&version_path, None, "the current version is missing"));
        }
        Err(source) => return Err(PreflightError::Io { path: version_path, source }),
    };
    if xxh3_128(&bytes) != checksum {
        return Err(damaged(&version_path, None, "its checksum is not the one in `current`"));
    }
    let Some(files) = Files::parse(&bytes) else {
        return Err(damaged(&version_path, None, "it does not list tables as expected"));
    };
    for (table, checksum) in files.tables {
        let path = folder.join(TABLES).join(table.to_string());
        present(&path)?;
        if id == META {
            let io = |source| PreflightError::Io { path: path.clone(), source };
            let mut table = Source::open(&path).map_err(io)?;
            let len = table.len();
            if table.hash(0, len).map_err(io)?.digest128() != checksum {
                return Err(damaged(&path, None, "its checksum is not the one in the version"));
            }
        }
    }
    for blob in files.blobs {
        present(&folder.join(BLOBS).join(blob.to_string()))?;
    }
    Ok(true)
}

/// A folder without `current`: either nothing was ever in it, or it is damaged.
fn untouched(folder: &Path) -> Result<bool, PreflightError> {
    for name in [TABLES, BLOBS] {
        let inner = folder.join(name);
        if !super::folder::names(&inner)?.is_empty() {
            return Err(damaged(&folder.join(CURRENT), None, "it is missing, but there is data"));
        }
    }
    for name in super::folder::names(folder)? {
        // The first version is written before `current`; a later one only if there is one.
        let version = name.to_str().and_then(|name| name.strip_prefix('v'));
        if version.is_some_and(|version| version != "0") {
            return Err(damaged(&folder.join(CURRENT), None, "it is missing, but versions exist"));
        }
    }
    Ok(false)
}

fn present(path: &Path) -> Result<(), PreflightError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => Ok(()),
        Ok(_) => Err(damaged(path, None, "it is empty, or not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(damaged(path, None, "it is missing, but the current version lists it"))
        }
        Err(source) => Err(PreflightError::Io { path: path.to_path_buf(), source }),
    }
}

fn parse_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    let whole = bytes.len() == CURRENT_BYTES && kind == [0];
    whole.then(|| (u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
}

/// The files that a version lists.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    tables: Vec<(u64, u128)>,
    blobs: Vec<u64>,
}

impl Files {
    /// A version file has named sections, a table of contents, and a trailer that says where that
    /// is. The caller has checked its checksum, so a file that does not parse has another format.
    fn parse(file: &[u8]) -> Option<Self> {
        let mut files = Self::default();

        let mut tables = Cursor(section(file, b"tables")?);
        for _level in 0..tables.u8()? {
            for _run in 0..tables.u8()? {
                for _table in 0..tables.u32()? {
                    let id = tables.u64()?;
                    let _kind = tables.u8()?;
                    files.tables.push((id, tables.u128()?));
                    let _seqno = tables.u64()?;
                }
            }
        }

        let mut blobs = Cursor(section(file, b"blob_files")?);
        for _ in 0..blobs.u32()? {
            files.blobs.push(blobs.u64()?);
            let _kind = blobs.u8()?;
            let _checksum = blobs.u128()?;
        }

        (tables.0.is_empty() && blobs.0.is_empty()).then_some(files)
    }
}

/// Magic, version, kind of checksum, checksum; then where the table of contents is, and its length.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;

fn section<'a>(file: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let trailer_at = file.len().checked_sub(TRAILER_BYTES)?;
    let mut trailer = Cursor(file.get(trailer_at..)?);
    if trailer.take(4)? != b"SFA!" {
        return None;
    }
    trailer.take(2 + 16)?;
    let contents_at = usize::try_from(trailer.u64()?).ok()?;

    let mut contents = Cursor(file.get(contents_at..trailer_at)?);
    if contents.take(4)? != b"TOC!" {
        return None;
    }
    for _ in 0..contents.u32()? {
        let at = usize::try_from(contents.u64()?).ok()?;
        let len = usize::try_from(contents.u64()?).ok()?;
        let name_len = contents.u16()?;
        if contents.take(usize::from(name_len))? == wanted {
            return file.get(at..at.checked_add(len)?);
        }
    }
    None
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }
}
