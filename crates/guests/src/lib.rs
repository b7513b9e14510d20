//! For tests: builds the project's own guests (`examples/` and `guests/`) and says where they are.
//! `cargo xtask guests` is the same. Must not be a dependency of anything that users get.
#![expect(
    clippy::disallowed_methods,
    reason = "it is for tests: it reads where cargo builds, and writes there"
)]

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use indelible_build::{Component, Error, Lock, Request};
use sha2::{Digest as _, Sha256};

/// Builds all guests, into `target/guests/NAME.wasm`, and returns them sorted by name. Quick when
/// nothing changed.
///
/// # Errors
/// No compiler for guests can be had, or they do not compile.
pub fn build(quiet: bool, progress: &mut dyn FnMut(&str)) -> Result<Vec<Component>, Error> {
    let root = root();
    let folder = target_folder().join("guests");
    let file = |verb: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { verb, path, source }
    };
    // One at a time: a test must not read what another process is just writing.
    let lock = Lock::wait(&folder.join(".lock"))?;
    let request = Request {
        manifest: &root.join("examples/Cargo.toml"),
        target_dir: Some(&folder.join("cargo")),
        locked: true,
        quiet,
    };
    let mut components = indelible_build::build(&request, progress)?;
    for component in &mut components {
        let path = folder.join(format!("{}.wasm", component.name));
        let bytes = fs::read(&component.path).map_err(file("read", &component.path))?;
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            component.path = path;
            continue;
        }
        let new = folder.join(format!("{}.wasm.new", component.name));
        fs::write(&new, bytes).map_err(file("write", &new))?;
        fs::rename(&new, &path).map_err(file("rename", &new))?;
        component.path = path;
    }
    drop(lock);
    Ok(components)
}

/// The file of a guest of the project's, by its name. All guests are built once for each process.
///
/// # Panics
/// They cannot be built, a compiler for them would have to be fetched first, or there is none of this
/// name.
#[must_use]
pub fn component(name: &str) -> PathBuf {
    static BUILT: OnceLock<Result<Vec<Component>, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        // Only what is fetched takes long enough to be told, and tests fetch nothing.
        let mut progress = |what: &str| panic!("run `cargo xtask setup` first: {what}");
        build(true, &mut progress).map_err(|error| explain(&error))
    });
    let components = match built {
        Ok(components) => components,
        Err(why) => panic!("the guests cannot be built: {why}"),
    };
    match components.iter().find(|component| component.name == name) {
        Some(component) => component.path.clone(),
        None => {
            let names: Vec<&str> = components.iter().map(|found| found.name.as_str()).collect();
            panic!("there is no guest {name}; there are {}", names.join(", "))
        }
    }
}

/// What the component of `indelible demo` is built from, as one hash: `examples/shop`, the SDK and its
/// contract. It stands beside the component, so that a test can tell when that is stale.
///
/// # Errors
/// The sources cannot be read.
pub fn demo_sources() -> io::Result<String> {
    const SOURCES: [&str; 5] = [
        "crates/sdk-macros/src",
        "crates/sdk/src",
        "crates/sdk/wit",
        "examples/shop/Cargo.toml",
        "examples/shop/src",
    ];
    let root = root();
    let mut hash = Sha256::new();
    for source in SOURCES {
        for file in files(&root.join(source))? {
            let bytes = fs::read(&file)?;
            let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
            hash.update(format!("{name} {}\n", bytes.len()));
            hash.update(bytes);
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The files of a folder, all the way down, sorted; or the one file that it is.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(files(&entry?.path())?);
    }
    found.sort();
    Ok(found)
}

/// An error with its causes and what to do about it.
#[must_use]
pub fn explain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text.push_str(&format!("\nhint: {}", error.hint()));
    text
}

/// The guide: every block of code in it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/writing-guests.md")]
pub struct Guide;

/// The guide to HTTP: the same.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/http.md")]
pub struct HttpGuide;

/// The guides that are typed along: what is put into files compiles, too.
#[cfg(doctest)]
#[allow(rustdoc::invalid_codeblock_attributes, reason = "other words are for who types them along")]
#[doc = include_str!("../../../docs/guides/first-workflow.md")]
#[doc = include_str!("../../../docs/guides/signals.md")]
#[doc = include_str!("../../../docs/guides/sagas.md")]
#[doc = include_str!("../../../docs/guides/effects.md")]
#[doc = include_str!("../../../docs/guides/testing-functions.md")]
pub struct TypedGuides;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo builds the project.
#[must_use]
pub fn target_folder() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder,
        _ => root().join("target"),
    }
}
