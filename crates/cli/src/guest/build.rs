//! `indelible build`: compiles a project of guests, also where rustc lacks the target.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use indelible_build::{Component, Error, Request};
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

const HELP: &str = "\
Runs `cargo build --release` for wasm32-unknown-unknown and prints the paths of the components. If
your toolchain lacks that target, apt downloads Debian's compiler, once, into ~/.cache/indelible;
nothing is installed.";

/// Compile durable functions into components
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Build {
    /// The project's folder
    #[arg(value_name = "PATH", default_value = ".")]
    folder: PathBuf,
    /// Print a JSON object for each component
    #[arg(long)]
    json: bool,
}

/// What was made, for `--json`: a component, or a project.
#[derive(Serialize)]
pub(super) struct BuildReport<'a> {
    pub(super) name: &'a str,
    pub(super) path: Cow<'a, str>,
}

impl Build {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let components = components(&self.folder)?;
        for component in components {
            if self.json {
                let path = component.path.to_string_lossy();
                print::object(BuildReport { name: &component.name, path }, out)?;
            } else {
                print::text(&format!("{}\n", component.path.display()), out)?;
            }
        }
        Ok(())
    }
}

/// Builds a project: its components, at least one.
pub(crate) fn components(folder: &Path) -> Result<Vec<Component>, Failure> {
    let manifest = folder.join("Cargo.toml");
    if !manifest.is_file() {
        let error = format!("{} has no Cargo.toml", folder.display());
        return Err(Failure::new(error).hint("create a project with `indelible new NAME`"));
    }
    let request = Request { manifest: &manifest, target_dir: None, locked: false, quiet: false };
    let mut progress = |what: &str| _ = writeln!(io::stderr(), "{what}");
    let components =
        indelible_build::build(&request, &mut progress).map_err(|error| failure(&error))?;
    if components.is_empty() {
        let error = format!("{} builds no component", folder.display());
        return Err(Failure::new(error).hint(
            "set `crate-type = [\"cdylib\"]` under [lib] in its \
             Cargo.toml",
        ));
    }
    Ok(components)
}

fn failure(error: &Error) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Failure::new(text).hint(error.hint())
}
