//! Which compiler to use: the user's own if it has the target, Debian's otherwise.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, LINKER, TARGET, debian, run};

/// A compiler that has the target, and a linker for it.
#[derive(Debug, Default)]
pub(crate) struct Toolchain {
    /// The compiler, unless it is the one that cargo would use anyway.
    rustc: Option<PathBuf>,
    /// A folder of tools for `PATH`.
    tools: Option<PathBuf>,
}

impl Toolchain {
    /// Makes a call of cargo use this toolchain.
    pub(crate) fn apply(&self, cargo: &mut Command) {
        // This may run inside another build, whose settings are not meant for guests.
        for name in [
            "CARGO_BUILD_TARGET",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTFLAGS",
        ] {
            cargo.env_remove(name);
        }
        if let Some(rustc) = &self.rustc {
            cargo.env("RUSTC", rustc);
        }
        if let Some(tools) = &self.tools {
            cargo.env("PATH", with_folder(tools));
        }
    }
}

/// The toolchain for a package in this folder, for which rustup may have an override.
pub(crate) fn find(folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<Toolchain, Error> {
    let own = |what: &[&str]| {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        run::output(Command::new(rustc).args(what).current_dir(folder))
    };
    // One call for both: starting rustc through rustup takes most of the time here.
    let printed = own(&["--target", TARGET, "--print", "target-libdir", "--print", "sysroot"])?;
    let mut lines = printed.lines().map(PathBuf::from);
    let (libraries, sysroot) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if has_std(&libraries) {
        return Ok(Toolchain::default());
    }
    let host = own(&["--print", "host-tuple"])?;
    let tools = sysroot.join("lib/rustlib").join(host.trim()).join("bin");
    if !tools.join(LINKER).is_file() && !on_path(LINKER) {
        return Err(Error::NoLinker { tools });
    }
    let rustc = debian::compiler(&tools, progress)?;
    Ok(Toolchain { rustc: Some(rustc), tools: Some(tools) })
}

/// Whether a folder of libraries holds std.
pub(crate) fn has_std(libraries: &Path) -> bool {
    libraries.read_dir().is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                name.starts_with("libstd-") && name.ends_with(".rlib")
            })
        })
    })
}

/// `PATH` with a folder in front.
pub(crate) fn with_folder(folder: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
