//! What `last` means: the newest execution that was started from here, of each server and
//! namespace. A file beside the contexts remembers it.
//!
//! "Newest of all" would be another person's as soon as two work on a server, and `cancel last`
//! must not hit that one.
#![expect(clippy::disallowed_methods, reason = "it reads and writes the user's own file")]

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::contexts;

/// Of how many servers and namespaces it is remembered.
const REMEMBERED_MAX: usize = 64;

/// More than such a file ever has.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The execution that was started last, of a server and a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Newest {
    url: String,
    /// None: the one of the credential.
    namespace: Option<String>,
    execution_id: String,
}

/// Where the file is.
fn file() -> Option<PathBuf> {
    Some(contexts::file()?.with_file_name("last.json"))
}

/// The newest execution; none if none was started from here.
pub(super) fn find(url: &str, namespace: Option<&str>) -> io::Result<Option<String>> {
    file().map_or(Ok(None), |path| find_in(&path, url, namespace))
}

/// Remembers the newest execution. Without a home folder, nothing is remembered.
pub(super) fn remember(url: &str, namespace: Option<&str>, execution: &str) -> io::Result<()> {
    file().map_or(Ok(()), |path| remember_in(&path, url, namespace, execution))
}

fn find_in(path: &Path, url: &str, namespace: Option<&str>) -> io::Result<Option<String>> {
    let url = url.trim_end_matches('/');
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    file.lock_shared()?;
    let all = read(&mut file)?;
    let found = all.into_iter().find(|one| one.url == url && one.namespace.as_deref() == namespace);
    Ok(found.map(|found| found.execution_id))
}

fn remember_in(path: &Path, url: &str, namespace: Option<&str>, execution: &str) -> io::Result<()> {
    let url = url.trim_end_matches('/');
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // Another command may have started something at the same time: neither loses its own.
    file.lock()?;
    let mut all = read(&mut file)?;
    all.retain(|one| one.url != url || one.namespace.as_deref() != namespace);
    let (url, namespace) = (url.to_owned(), namespace.map(str::to_owned));
    all.insert(0, Newest { url, namespace, execution_id: execution.to_owned() });
    all.truncate(REMEMBERED_MAX);
    let text = serde_json::to_string(&all).map_err(io::Error::other)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

/// Everything that is remembered: nothing, if the file was cut off.
fn read(file: &mut File) -> io::Result<Vec<Newest>> {
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each server and namespace has its own; a file that is cut off is as if it were empty; and
    /// it does not grow.
    #[test]
    fn the_newest_of_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("indelible/last.json");
        let find = |url: &str, namespace| find_in(&path, url, namespace).unwrap();
        let remember = |url: &str, namespace, id: &str| {
            remember_in(&path, url, namespace, id).unwrap();
        };
        assert_eq!(find("a", None), None);
        remember("a", None, "1");
        remember("a", Some("shop"), "2");
        remember("b", None, "3");
        remember("a/", None, "4");
        assert_eq!(find("a", None).as_deref(), Some("4"));
        assert_eq!(find("a", Some("shop")).as_deref(), Some("2"));
        assert_eq!((find("b", None).as_deref(), find("b", Some("shop"))), (Some("3"), None));
        for number in 1..REMEMBERED_MAX {
            remember(&number.to_string(), None, "5");
        }
        assert_eq!((find("a", None).as_deref(), find("b", None)), (Some("4"), None));
        std::fs::write(&path, "[{\"url\":\"a\"").unwrap();
        assert_eq!(find("a", None), None);
        remember("a", None, "6");
        assert_eq!(find("a", None).as_deref(), Some("6"));
    }
}
