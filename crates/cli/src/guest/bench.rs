//! The component that `indelible bench` calls: a project like any other, built once and cached.
#![expect(clippy::disallowed_methods, reason = "it is kept in a cache folder of the user's")]

use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;

use super::build::components;
use super::files::{self, File};
use crate::failure::Failure;

const SOURCE: &str = include_str!("../../../../guests/bench/src/lib.rs");

/// The component's file; it is built if it is missing.
pub(crate) fn component() -> Result<PathBuf, Failure> {
    let files: Vec<File> = files::all("bench")
        .map(|file| match file.path.as_str() {
            "src/lib.rs" => File { text: SOURCE.to_owned(), ..file },
            _ => file,
        })
        .collect();
    let failed = |error: io::Error| {
        Failure::new(format!("cannot build the benchmark's component: {error}"))
            .hint("give a component with the functions `echo` and `steps` with --guest")
    };
    let folder =
        cache().ok_or_else(|| failed(io::Error::other("there is no home folder: set HOME")))?;
    let folder = folder.join(format!("bench-{:016x}", fingerprint(&files)));
    let kept = folder.join("bench.wasm");
    if kept.is_file() {
        return Ok(kept);
    }
    for File { path, text } in &files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
    }
    let built = components(&folder)?;
    let built = built.first().ok_or_else(|| failed(io::Error::other("nothing was built")))?;
    // Copied aside and renamed: two processes may do this at once, and each file must be whole.
    let aside = folder.join(format!("bench.wasm.{}", std::process::id()));
    fs::copy(&built.path, &aside).map_err(failed)?;
    fs::rename(&aside, &kept).map_err(failed)?;
    Ok(kept)
}

/// Different sources get a different folder.
fn fingerprint(files: &[File]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for file in files {
        (&file.path, &file.text).hash(&mut hasher);
    }
    hasher.finish()
}

fn cache() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("indelible"))
}
