//! The component to run or deploy: a file, or the folder of a project, which is built.
#![expect(clippy::disallowed_methods, reason = "it reads the component that was named")]

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::components;
use crate::failure::Failure;

/// The largest component that servers accept: no more of a file is read.
const COMPONENT_BYTES_MAX: u64 = 32 << 20;

/// A component, as a build leaves it.
pub(crate) struct Built {
    /// The default name.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The component in a file, or that a project builds.
pub(crate) fn component(path: &Path) -> Result<Built, Failure> {
    let file = if path.is_dir() {
        let built = components(path)?;
        let [one] = &built[..] else {
            let names = built.iter().map(|component| component.path.display().to_string());
            return Err(Failure::new("the project builds several components")
                .list(names.collect())
                .hint("give the file of one of them"));
        };
        one.path.clone()
    } else {
        path.to_path_buf()
    };
    let bytes = read(&file).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", file.display()))
            .hint("give the file of a component, or the folder of a project")
    })?;
    if bytes.len() as u64 > COMPONENT_BYTES_MAX {
        let (file, max) = (file.display(), COMPONENT_BYTES_MAX >> 20);
        return Err(Failure::new(format!("{file} is larger than {max} MiB")).hint(
            "a component built with `indelible build` is far smaller: is it the right file?",
        ));
    }
    let name = file.file_stem().map(|name| name.to_string_lossy().replace('_', "-"));
    Ok(Built { name: name.unwrap_or_default(), bytes })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe could wait for ever.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(COMPONENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
