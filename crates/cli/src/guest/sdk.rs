//! `indelible sdk`: gives a project the SDK of this version.
#![expect(clippy::disallowed_methods, reason = "it replaces a folder")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

use super::files::File;
use super::{new, sources};

const HELP: &str = "\
Replaces the project's folder `sdk`, which `indelible new` made, as a whole; nothing else is changed.
Functions that wait are not touched: each goes on with the component that it began with.";

/// Give a project the SDK of this version
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Sdk {
    /// The project's folder
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What was written, for `--json`.
#[derive(Serialize)]
struct SdkReport<'a> {
    version: &'a str,
    path: &'a str,
}

impl Sdk {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let sdk = self.folder.join("sdk");
        if !is_sdk(&sdk) {
            let error = format!("{} has no SDK in `sdk`", self.folder.display());
            return Err(Failure::new(error).hint(
                "give the folder of a project that `indelible new` made; nothing was changed",
            ));
        }
        replace(&self.folder, &sdk).map_err(|error| {
            Failure::new(format!("cannot replace {}: {error}", sdk.display()))
                .hint("check the folder's permissions and free space")
        })?;
        let path = sdk.to_string_lossy();
        if self.json {
            let version = env!("CARGO_PKG_VERSION");
            return print::object(SdkReport { version, path: &path }, out);
        }
        print::text(&format!("{path}\n"), out)?;
        print::tell("hint: `cargo test` in the project shows whether its functions work as before");
        Ok(())
    }
}

/// Whether a folder holds the SDK.
fn is_sdk(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let manifest = manifest.parse::<toml::Table>().unwrap_or_default();
    let name = manifest.get("package").and_then(|package| package.get("name"));
    name.and_then(toml::Value::as_str) == Some("indelible-sdk")
}

/// Writes the new folder aside first, so that there is always a whole one.
fn replace(project: &Path, sdk: &Path) -> io::Result<()> {
    let aside = project.join(format!(".sdk.{}", std::process::id()));
    let old = project.join(format!(".sdk.{}.old", std::process::id()));
    let within = |file: File| File { path: file.path.replacen("sdk/", "", 1), ..file };
    let written = fs::create_dir(&aside)
        .and_then(|()| new::write(&aside, sources::all().map(within)))
        .and_then(|()| fs::rename(sdk, &old));
    if let Err(error) = written {
        // The first error is the one to report.
        _ = fs::remove_dir_all(&aside);
        return Err(error);
    }
    fs::rename(&aside, sdk).inspect_err(|_| _ = fs::rename(&old, sdk))?;
    fs::remove_dir_all(&old)
}
