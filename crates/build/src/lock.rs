//! A lock between processes: two builds at once must not unpack, or copy, over each other.

use std::fs::{self, File};
use std::path::Path;

use crate::Error;

/// Held until dropped; the system lets go of it if the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock on a file, which is created if need be.
    ///
    /// # Errors
    /// The file cannot be created or locked.
    pub fn wait(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(Error::file("create", path))?;
        file.lock().map_err(Error::file("lock", path))?;
        Ok(Self { _file: file })
    }
}
