//! Lists the sources that a new project is given: those of the SDK, and of the crates that its test
//! host is made of. `src/guest/files.rs` includes the list.
#![expect(clippy::disallowed_methods, reason = "it lists the sources")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Folders of `crates`. Each depends only on others of the list.
const CRATES: [&str; 11] = [
    "execution",
    "http",
    "idempotency",
    "journal",
    "machine",
    "operations",
    "records",
    "sdk",
    "sdk-macros",
    "slots",
    "store",
];

/// What is compiled only with features that the test host does not use.
const SKIPPED: [&str; 6] = [
    "idempotency/src/layer",
    "idempotency/src/store/postgres",
    "idempotency/src/store/sqlite",
    "records/src/ledger",
    "store/src/embedded",
    "store/src/pipeline",
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = here.join("..");
    let mut list = String::from("&[\n");
    for name in CRATES {
        let folder = crates.join(name);
        println!("cargo::rerun-if-changed={}", folder.join("src").display());
        let mut found = vec![folder.join("Cargo.toml")];
        sources(&folder.join("src"), &mut found)?;
        for file in found {
            let path = file.strip_prefix(&crates).map_err(io::Error::other)?;
            let path = path.to_string_lossy().replace('\\', "/");
            if SKIPPED.iter().any(|skipped| Path::new(&path).starts_with(skipped)) {
                continue;
            }
            writeln!(list, "({path:?}, include_str!({:?})),", file.display().to_string())
                .map_err(io::Error::other)?;
        }
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("sources.rs"), list)
}

/// The sources in a folder, without tests, which a dependency does not compile.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if ["tests", "strategies", "fuzz.rs"].contains(&name.as_str()) || name.ends_with("tests.rs")
        {
            continue;
        }
        if entry.file_type()?.is_dir() {
            sources(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}
