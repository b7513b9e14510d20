//! Where the programs of PostgreSQL are.
#![expect(clippy::disallowed_methods, reason = "it looks for programs in folders")]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where Debian keeps a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The programs of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Programs {
    /// The folder that has them all.
    pub(crate) folder: PathBuf,
}

impl Programs {
    pub(crate) fn find() -> Result<Self, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::find_in(&path, Path::new(VERSIONS)).ok_or(Error::Missing)
    }

    fn find_in(path: &OsStr, versions: &Path) -> Option<Self> {
        std::env::split_paths(path)
            .flat_map(|folder| {
                // Follow the link: its folder has all programs of the version, and the real psql.
                // Debian's psql on PATH is a script, which takes longer than most statements.
                let linked = folder.join("initdb").canonicalize().ok();
                let linked = linked.and_then(|program| Some(program.parent()?.to_owned()));
                linked.into_iter().chain([folder])
            })
            .chain(newest_first(versions))
            .find(|folder| {
                ["initdb", "postgres", "psql"].iter().all(|name| runs(&folder.join(name)))
            })
            .map(|folder| Self { folder })
    }
}

/// The folders of programs, those of the newest version first.
fn newest_first(versions: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(versions)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let numbers = name.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some((numbers, entry.path().join("bin")))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn runs(program: &Path) -> bool {
    program.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(folder: &Path, programs: &[&str]) {
        std::fs::create_dir_all(folder).unwrap();
        for name in programs {
            let path = folder.join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// PATH comes first, then the newest version that has all programs.
    #[test]
    fn path_first_then_the_newest_whole_version() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let versions = root.join("versions");
        let all = ["initdb", "postgres", "psql"];
        for version in ["9.6", "15", "8"] {
            make(&versions.join(version).join("bin"), &all);
        }
        make(&versions.join("17/bin"), &["initdb", "postgres"]);
        make(&versions.join("later/bin"), &all);
        let find = |path: &OsStr| Programs::find_in(path, &versions).map(|found| found.folder);
        assert_eq!(find(OsStr::new("/no/such/folder")), Some(versions.join("15/bin")));

        // One program of three on PATH is not enough.
        let path = root.join("path");
        make(&path, &["psql"]);
        assert_eq!(find(path.as_os_str()), Some(versions.join("15/bin")));
        // A link on PATH says which version is meant.
        std::os::unix::fs::symlink(versions.join("9.6/bin/initdb"), path.join("initdb")).unwrap();
        assert_eq!(find(path.as_os_str()), Some(versions.join("9.6/bin")));

        let whole = root.join("whole");
        make(&whole, &all);
        assert_eq!(find(whole.as_os_str()), Some(whole.clone()));
        // A file that is not executable is not a program.
        let plain = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(whole.join("psql"), plain).unwrap();
        assert_eq!(find(whole.as_os_str()), Some(versions.join("15/bin")));
        assert_eq!(Programs::find_in(whole.as_os_str(), &root.join("none")), None);
    }
}
