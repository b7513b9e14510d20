//! `indelible new`: a project of durable functions that builds as it is.
#![expect(clippy::disallowed_methods, reason = "it writes a new folder")]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::print;

use super::build::BuildReport;
use super::files::{self, File};

/// Longer names are of no use.
const NAME_BYTES_MAX: usize = 64;

/// Names that cargo or rustc would refuse, or take for something else.
const TAKEN: [&str; 14] = [
    "alloc",
    "core",
    "indelible-sdk",
    "indelible-sdk-macros",
    "proc-macro",
    "proc-macro2",
    "quote",
    "schemars",
    "sdk",
    "serde",
    "serde-json",
    "std",
    "syn",
    "test",
];

/// Keywords of Rust that consist of small letters.
const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else \
    enum extern false final fn for gen if impl in let loop macro match mod move mut override priv \
    pub ref return self static struct super trait true try type typeof unsafe unsized use virtual \
    where while yield ";

/// Make a project of durable functions in Rust
#[derive(Args)]
pub(crate) struct New {
    /// The folder to make; its last part is the project's name
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl New {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let name = self.folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
        check(name)?;
        if fs::symlink_metadata(&self.folder).is_ok() {
            let error = format!("{} already exists", self.folder.display());
            return Err(Failure::new(error).hint("choose another name; nothing was changed"));
        }
        make(&self.folder, name).map_err(|error| {
            Failure::new(format!("cannot create {}: {error}", self.folder.display()))
                .hint("check the folder's permissions and free space; nothing was changed")
        })?;
        if self.json {
            return print::object(BuildReport { name, path: self.folder.to_string_lossy() }, out);
        }
        print::text(&format!("{}\n", self.folder.display()), out)?;
        print::tell(&format!(
            "hint: `indelible deploy {}` builds it and deploys it to a server",
            self.folder.display()
        ));
        Ok(())
    }
}

/// Whether the name is valid for a package of cargo and for a component.
fn check(name: &str) -> Result<(), Failure> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(allowed)
        && !name.ends_with('-')
        && name.len() <= NAME_BYTES_MAX;
    let why = if !well_formed {
        "use lower-case letters, digits and `-`, beginning with a letter"
    } else if TAKEN.contains(&name) {
        "the name is already taken by a crate or folder of the project"
    } else if KEYWORDS.contains(&format!(" {name} ")) {
        "it is a keyword of Rust"
    } else {
        return Ok(());
    };
    let error = format!("invalid project name `{name}`: {why}");
    Err(Failure::new(error).hint("`indelible new order-saga`, for example; nothing was changed"))
}

/// Writes the project aside and renames it, so that it is there as a whole or not at all.
fn make(folder: &Path, name: &str) -> io::Result<()> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let aside = parent.join(format!(".{name}.{}", std::process::id()));
    let made = fill(&aside, name).and_then(|()| fs::rename(&aside, folder));
    if made.is_err() {
        // The first error is the one to report.
        _ = fs::remove_dir_all(&aside);
    }
    made
}

fn fill(folder: &Path, name: &str) -> io::Result<()> {
    fs::create_dir(folder)?;
    write(folder, files::all(name))
}

/// Writes files into a folder.
pub(super) fn write(folder: &Path, files: impl Iterator<Item = File>) -> io::Result<()> {
    for File { path, text } in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "order-saga", "x2"] {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "2x", "-a", "a-", "A", "a_b", "a b", "a/b", "ä", "fn", "test", &long] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
