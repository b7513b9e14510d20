//! What cargo has built: test binaries and examples, and the folder of the crate that each is of.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::Value;

/// An executable that cargo has built.
#[derive(Deserialize)]
pub(crate) struct Executable {
    manifest_path: PathBuf,
    package_id: String,
    pub(crate) executable: PathBuf,
    profile: Profile,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Executable {
    /// Whether it runs tests. What tests start is built with them, and is none itself.
    pub(crate) fn is_test(&self) -> bool {
        self.profile.test
    }

    /// The folder of its crate.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    /// The name of its crate's folder.
    pub(crate) fn crate_name(&self) -> String {
        self.folder().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A run of it, as cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(self.folder()).env("CARGO_MANIFEST_DIR", self.folder());
        command.env("CARGO_PKG_NAME", self.package_name());
        command
    }

    /// The name of its package, in the form `path+file:///…/crates/x#name@version`, or without the name
    /// if that is the folder's.
    fn package_name(&self) -> String {
        let name = self.package_id.rsplit('#').next().and_then(|end| end.split_once('@'));
        name.map_or_else(|| self.crate_name(), |(name, _)| name.to_owned())
    }
}

/// Builds what `arguments` select of the whole workspace; the executables.
pub(crate) fn built(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<Executable>> {
    let mut command = Command::new("cargo");
    command.args(arguments).args(["--locked", "--workspace"]);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.current_dir(root).output()?;
    ensure!(output.status.success(), "the workspace does not build");
    // Other messages have no executable.
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    messages
        .filter_map(|message| message.map(|it| Executable::deserialize(it).ok()).transpose())
        .collect::<Result<_, _>>()
        .context("cargo says something else than JSON")
}
