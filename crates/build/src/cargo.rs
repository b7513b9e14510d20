//! Runs cargo and learns from its messages where the components are.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::toolchain::Toolchain;
use crate::{Error, LINKER, TARGET, run};

/// What to build.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The `Cargo.toml` of a package or a workspace: all its guests are built.
    pub manifest: &'a Path,
    /// Cargo's target folder, if not the default one.
    pub target_dir: Option<&'a Path>,
    /// Whether `Cargo.lock` must be up to date.
    pub locked: bool,
    /// Whether cargo is to say nothing but warnings and errors.
    pub quiet: bool,
}

/// A guest that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// The package's name, with `-` for `_`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

/// One of cargo's messages, one a line. Only artifacts have these fields.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Builds the guests, and returns them sorted by name.
pub(crate) fn build(request: &Request<'_>, toolchain: &Toolchain) -> Result<Vec<Component>, Error> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--target", TARGET]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    // In case the package's own configuration does not say so.
    cargo.arg("--config").arg(format!("target.{TARGET}.linker=\"{LINKER}\""));
    if request.locked {
        cargo.arg("--locked");
    }
    if request.quiet {
        cargo.arg("--quiet");
    }
    if let Some(folder) = request.target_dir {
        cargo.arg("--target-dir").arg(folder);
    }
    // Cargo looks for its configuration from the folder that it runs in.
    if let Some(folder) = request.manifest.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        cargo.current_dir(folder);
    }
    toolchain.apply(&mut cargo);
    cargo.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = cargo.spawn().map_err(|source| run::start(&cargo, source))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut components = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|source| run::start(&cargo, source))?;
        components.extend(artifact(&line)?);
    }
    let status = child.wait().map_err(|source| run::start(&cargo, source))?;
    if !status.success() {
        return Err(Error::Failed {
            command: run::name(&cargo),
            status: status.to_string(),
            said: String::new(),
        });
    }
    components.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(components)
}

/// The component that a message announces, if any.
fn artifact(line: &str) -> Result<Option<Component>, Error> {
    let message: Message = serde_json::from_str(line).map_err(Error::Messages)?;
    let Some(target) = message.target else { return Ok(None) };
    if !target.kind.iter().any(|kind| kind == "cdylib") {
        return Ok(None);
    }
    let wasm = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "wasm");
    let path = message.filenames.into_iter().find(wasm);
    Ok(path.map(|path| Component { name: target.name.replace('_', "-"), path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all that cargo tells, only guests are taken.
    #[test]
    fn artifacts() {
        let guest = r#"{"reason":"compiler-artifact","target":{"name":"order_saga","kind":
            ["cdylib"]},"filenames":["/t/order_saga.wasm"]}"#;
        let component = artifact(guest).unwrap().unwrap();
        assert_eq!(component.name, "order-saga");
        assert_eq!(component.path, Path::new("/t/order_saga.wasm"));
        for other in [
            r#"{"reason":"build-finished","success":true}"#,
            r#"{"target":{"name":"serde","kind":["lib"]},"filenames":["/t/libserde.rlib"]}"#,
            r#"{"target":{"name":"m","kind":["proc-macro"]},"filenames":["/t/libm.so"]}"#,
        ] {
            assert_eq!(artifact(other).unwrap(), None);
        }
        artifact("Compiling").unwrap_err();
    }
}
