//! Checks that a folder can hold data before anything is written into it, makes it, and explains
//! why it cannot be opened.
#![expect(clippy::disallowed_methods, reason = "it looks at the folder that was named")]

use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use indelible_runtime::OpenError as EngineOpenError;
use indelible_store::embedded::{FolderError, OpenError};

use crate::failure::Failure;

/// The entries of a data folder: `docs/formats/engine-rows.md` describes them.
const OURS: [&str; 4] = ["store", "artifacts", REPLAYS, "logs"];
const REPLAYS: &str = "replays";

/// Entries that file systems make at the top of a volume: a volume made for the data may have them.
const OF_VOLUMES: [&str; 1] = ["lost+found"];

/// The entries that earlier versions let other users read, and the permissions they get: the top
/// folders, and the store's own files.
const CLOSED: [(&str, u32); 6] = [
    ("store", 0o700),
    ("store/LOCK", 0o600),
    ("store/FORMAT", 0o600),
    ("store/engine", 0o700),
    ("artifacts", 0o700),
    ("logs", 0o700),
];

/// Write permission for the group or for others.
const OTHERS_WRITE: u32 = 0o022;

/// How many foreign entries an error lists.
const TOLD_MAX: usize = 3;

/// The hint for a damaged folder. It never leads to an empty one: that knows no keys, and a request
/// that a caller repeats would be executed again.
const DAMAGED: &str = "nothing was changed: copy the folder as it is, run `indelible store check`, \
     and restore a backup with `indelible store restore`";

/// Refuses a folder that cannot be a data folder, and changes nothing. A folder with foreign
/// entries and no store is, for example, a home folder.
pub(crate) fn check(folder: &Path) -> Result<(), Failure> {
    let found = match fs::metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unopened(folder, &error)),
    };
    if !found.is_dir() {
        return Err(Failure::new(format!("{} is a file, not a folder", folder.display()))
            .hint("give a folder with --data; it is created if it does not exist"));
    }
    if folder.join("store").exists() {
        return Ok(());
    }
    if folder.join(REPLAYS).exists() {
        // `replays` is made after the store, so the store was there. A new one would know no keys.
        return Err(Failure::new(format!(
            "the data folder {} has lost its subfolder `store`: only its file {REPLAYS} exists",
            folder.display()
        ))
        .hint(DAMAGED));
    }
    let entries = fs::read_dir(folder).map_err(|error| unopened(folder, &error))?;
    let mut others = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| unopened(folder, &error))?.file_name();
        if !OURS.iter().chain(&OF_VOLUMES).any(|own| name == **own) {
            others.push(name.to_string_lossy().into_owned());
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    others.sort();
    let more = if others.len() > TOLD_MAX { ", …" } else { "" };
    others.truncate(TOLD_MAX);
    let (shown, own) = (others.join(", "), folder.join("indelible-data"));
    Err(Failure::new(format!(
        "{} is not a data folder and contains other files: {shown}{more}",
        folder.display()
    ))
    .hint(format!(
        "give a separate folder, which is created if it does not exist: --data {}",
        own.display()
    )))
}

/// Makes a folder and its missing parents, for this user alone: inputs and results are stored
/// unencrypted. A folder that exists keeps its permissions.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Closes files and folders that an earlier version let other users read. The data folder itself
/// keeps its permissions; if other users can write to it, the warning says so, because the server
/// trusts its files and runs the compiled code in it.
pub(super) fn close(folder: &Path) -> Option<String> {
    let mode = |path: &Path| Some(fs::symlink_metadata(path).ok()?.permissions().mode());
    for (name, closed) in CLOSED {
        let path = folder.join(name);
        // The target of a link may belong to another program.
        let wide = |mode: &u32| mode & 0o077 != 0 && !path.is_symlink();
        if mode(&path).as_ref().is_some_and(wide) {
            // It fails if another user owns the file; that user decides then.
            _ = fs::set_permissions(&path, fs::Permissions::from_mode(closed));
        }
    }
    let others =
        fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & OTHERS_WRITE != 0);
    others.then(|| {
        format!(
            "other users can write to {}, and the server trusts its files: remove that permission \
             with `chmod go-w`",
            folder.display()
        )
    })
}

/// The hint for a folder of an earlier format. It names no other folder, because accepted
/// operations are in this one.
const OLDER: &str =
    "finish its executions with a build of that commit, and keep the folder for its history";

/// Why a store cannot be opened, with a hint.
pub(crate) fn unopened_store(folder: &Path, error: &OpenError) -> Failure {
    let failure = Failure::new(format!("cannot open {}: {error}", folder.display()));
    match error {
        OpenError::Folder(FolderError::InUse { .. }) => failure.hint(
            "only one process can open a data folder at a time: stop that process, or choose \
             another folder with --data",
        ),
        OpenError::Folder(FolderError::Io { source, .. }) => match of_kind(folder, source) {
            Some(hint) => failure.hint(hint),
            None => failure.hint("check the disk; nothing was changed"),
        },
        OpenError::Folder(FolderError::Older { .. }) => failure.hint(OLDER),
        OpenError::Folder(FolderError::Newer { .. }) => {
            failure.hint("use the version of indelible that wrote it, or a newer one")
        }
        _ => failure.hint(DAMAGED),
    }
}

/// Why a part of a data folder cannot be opened, with a hint.
pub(super) fn unopened(folder: &Path, error: &(dyn Error + 'static)) -> Failure {
    let failure = Failure::new(format!("cannot open {}: {error}", folder.display()));
    let mut cause = Some(error);
    while let Some(error) = cause {
        let hint = error.downcast_ref::<io::Error>().and_then(|error| of_kind(folder, error));
        if let Some(hint) = hint {
            return failure.hint(hint);
        }
        cause = error.source();
    }
    match has_store(folder) {
        true => failure.hint(DAMAGED),
        false => failure.hint("check the folder and its disk; nothing was changed"),
    }
}

/// Why an engine cannot be opened over a store, with a hint.
pub(super) fn unopened_engine(folder: &Path, error: &EngineOpenError) -> Failure {
    let failure = Failure::new(format!("cannot open {}: {error}", folder.display()));
    match error {
        EngineOpenError::Components(_) | EngineOpenError::Queue(_) | EngineOpenError::Hold(_) => {
            failure.hint(DAMAGED)
        }
        _ => failure.hint("nothing was changed"),
    }
}

fn has_store(folder: &Path) -> bool {
    folder.join("store").exists()
}

/// The hint for an error of the system. If the folder has a store, the hint names no other folder:
/// accepted operations are in this one.
fn of_kind(folder: &Path, error: &io::Error) -> Option<&'static str> {
    let has_store = has_store(folder);
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem if has_store => {
            Some("the user who runs this command must be able to read and write everything in it")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(
            "the user who runs this command must be able to write there; choose another folder \
             with --data",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded if has_store => {
            Some("free space on that disk, or move the whole folder to another one")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("free space on that disk, or choose a folder on another with --data")
        }
        ErrorKind::NotADirectory if !has_store => {
            Some("a part of the path is a file; choose another folder with --data")
        }
        ErrorKind::NotFound if !has_store => {
            Some("it cannot be created there; choose another folder with --data")
        }
        ErrorKind::NotADirectory | ErrorKind::NotFound => Some(DAMAGED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(folder: &Path) -> String {
        check(folder).unwrap_err().to_string()
    }

    /// A new folder is private to its owner; an existing one keeps its permissions.
    #[test]
    fn folders_of_ones_own() {
        use std::os::unix::fs::PermissionsExt as _;

        let place = tempfile::tempdir().unwrap();
        let (above, folder) = (place.path().join("a"), place.path().join("a/b"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        make(&folder).unwrap();
        assert_eq!((mode(&above), mode(&folder)), (0o700, 0o700));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        make(&folder).unwrap();
        assert_eq!(mode(&folder), 0o750);
    }

    /// A folder that is missing, empty, ours or a new volume can hold data; one with foreign
    /// entries cannot, unless it has a store. Nothing is written in either case.
    #[test]
    fn folders_of_others_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        assert!(check(&folder).is_ok());
        assert!(!folder.exists());
        fs::create_dir_all(&folder).unwrap();
        assert!(check(&folder).is_ok());
        for ours in ["lost+found", "artifacts", "logs"] {
            fs::create_dir_all(folder.join(ours)).unwrap();
            assert!(check(&folder).is_ok(), "{ours}");
        }
        for other in ["b", "a", ".bashrc", "Documents"] {
            fs::write(folder.join(other), b"").unwrap();
        }
        let said = refused(&folder);
        assert!(said.contains("contains other files: .bashrc, Documents, a, …\n"), "{said}");
        assert!(
            said.contains(&format!(
                "hint: give a separate folder, which is created if it \
             does not exist: --data {}",
                folder.join("indelible-data").display()
            )),
            "{said}"
        );
        fs::create_dir_all(folder.join("store")).unwrap();
        assert!(check(&folder).is_ok(), "others may put things beside it");
        let said = refused(&folder.join("a"));
        assert!(said.contains("is a file, not a folder") && said.contains("hint: "), "{said}");
        let said = refused(&folder.join("a/b"));
        assert!(said.contains("a part of the path is a file"), "{said}");
    }
}
