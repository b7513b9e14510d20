//! The component that the benchmarks call.
#![expect(clippy::disallowed_methods, reason = "it reads a file that was named")]

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::guest::bench_component;

/// The component's file; if none is named, the included one is built if necessary.
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
            .hint("give a component with --guest")
    })
}
