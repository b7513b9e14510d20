//! The component that is called.
#![expect(clippy::disallowed_methods, reason = "it reads a file that was named")]

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::guest::bench_component;

/// Where the component is; the one that this program brings along is built if it has to be.
pub(super) fn path(named: Option<&Path>) -> Result<PathBuf, Failure> {
    match named {
        Some(path) => Ok(path.to_path_buf()),
        None => bench_component(),
    }
}

/// The bytes of the component.
pub(super) fn component(named: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let path = path(named)?;
    std::fs::read(&path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("name a component with --guest")
    })
}
