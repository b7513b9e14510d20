//! The folder of the demo: a temporary one that is removed at the end, or one that is kept.
#![expect(clippy::disallowed_methods, reason = "the folder is made and looked at here")]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;

/// Dropping it removes the folder, unless it is kept.
#[derive(Debug)]
pub(super) struct DemoFolder {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl DemoFolder {
    /// The folder to keep, which must be empty or missing; otherwise a temporary one.
    pub(super) fn make(keep: Option<&Path>) -> Result<Self, Failure> {
        match keep {
            None => {
                let made = tempfile::Builder::new().prefix("indelible-demo-").tempdir();
                let folder = made.map_err(|error| {
                    let temporary = std::env::temp_dir();
                    Failure::new(format!(
                        "cannot make a folder in {}: {error}",
                        temporary.display()
                    ))
                    .hint("set TMPDIR to a folder that you can write to, or use --keep DIR")
                })?;
                Ok(Self { path: folder.path().to_owned(), temporary: Some(folder) })
            }
            Some(path) => {
                let failed = |error: &dyn std::fmt::Display| {
                    Failure::new(format!("cannot use the folder {}: {error}", path.display()))
                        .hint("--keep needs a folder that is empty or does not exist")
                };
                fs::create_dir_all(path).map_err(|error| failed(&error))?;
                if fs::read_dir(path).map_err(|error| failed(&error))?.next().is_some() {
                    return Err(failed(&"it is not empty"));
                }
                let path = path.canonicalize().map_err(|error| failed(&error))?;
                Ok(Self { path, temporary: None })
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file into the folder.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.join(name);
        let written = fs::write(&path, text);
        written.map(|()| path.clone()).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", path.display()))
                .hint("set TMPDIR to a folder with free space, or use --keep DIR")
        })
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if let Some(folder) = self.temporary.take()
            && let Err(error) = folder.close()
        {
            let path = self.path.display();
            _ = writeln!(io::stderr(), "cannot remove {path}: {error}; remove it yourself");
        }
    }
}
