//! The component that is called.
#![expect(clippy::disallowed_methods, reason = "it reads a file that was named")]

use std::path::Path;

use crate::failure::Failure;
use crate::guest::bench_component;

/// The bytes of the component.
pub(super) fn component(named: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => bench_component()?,
    };
    std::fs::read(&path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("name a component with --guest")
    })
}
