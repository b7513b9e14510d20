//! Debian's compiler, for machines whose own compiler lacks the target. It is fetched with apt and
//! unpacked into a cache folder, but not installed; std for guests is compiled into it, once.
//!
//! This needs neither root nor apt's own state: the lists of packages are fetched into the cache
//! too, because the system's may be missing, or so old that the packages in them are gone.

mod apt;
mod std_lib;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Lock, TARGET, run, toolchain};

/// The version of the folder's layout, which is a part of the folder's name.
const LAYOUT: u32 = 1;

/// The packages to unpack; their dependencies come with them.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// The oldest compiler that can compile the SDK.
const VERSION_MIN: (u32, u32) = (1, 95);

/// A script that starts the compiler with its own libraries. An `LD_LIBRARY_PATH` set for cargo
/// would also apply to the programs that cargo starts. Paths are relative to the script: the
/// folder is renamed when it is complete.
const START: &str = "#!/bin/sh
here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd)
libraries=$(dirname -- \"$(ls \"$here\"/usr/lib/*/librustc_driver-*.so)\")
LD_LIBRARY_PATH=\"$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"
export LD_LIBRARY_PATH
exec \"$here/usr/bin/rustc\" \"$@\"
";

/// The compiler, from the cache if it is there. `tools` holds the linkers.
pub(crate) fn compiler(tools: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
    let cache = cache_folder()?;
    let home = cache.join(format!("compiler-{LAYOUT}"));
    let rustc = home.join("rustc");
    if rustc.is_file() {
        return Ok(rustc);
    }
    let lock = Lock::wait(&cache.join("compiler.lock"))?;
    if !rustc.is_file() {
        // Only one process at a time gets here, so an existing staging folder is from one that
        // died.
        let staging = cache.join("compiler-staging");
        remove(&staging)?;
        let made = make(&staging, tools, progress);
        if made.is_ok() {
            fs::rename(&staging, &home).map_err(Error::file("rename", &staging))?;
        } else {
            // The error of `make` is the one to report, not one of its cleanup.
            _ = remove(&staging);
        }
        made?;
    }
    drop(lock);
    Ok(rustc)
}

/// Fetches and unpacks everything into `home`, and compiles std there.
fn make(home: &Path, tools: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
    progress("fetching Debian's compiler for guests (once, about 140 MB)");
    let packages = home.join("packages");
    fs::create_dir_all(&packages).map_err(Error::file("create", &packages))?;
    for package in apt::download(&PACKAGES, &packages)? {
        run::output(Command::new("dpkg").arg("-x").arg(package).arg(home))?;
    }
    remove(&packages)?;
    let rustc = home.join("rustc");
    fs::write(&rustc, START).map_err(Error::file("write", &rustc))?;
    executable(&rustc)?;
    check_version(&rustc)?;
    progress("compiling std for guests (once, about a minute)");
    let libraries = home.join("usr/lib/rustlib").join(TARGET).join("lib");
    std_lib::compile(home, &rustc, tools, &libraries)?;
    if !toolchain::has_std(&libraries) {
        return Err(unable("Debian's compiler could not compile std for guests".to_owned()));
    }
    // These folders take half of the space and are never needed again.
    for folder in ["usr/src", "usr/lib/rustlib/src", "usr/share"] {
        remove(&home.join(folder))?;
    }
    Ok(())
}

fn check_version(rustc: &Path) -> Result<(), Error> {
    let text = run::output(Command::new(rustc).arg("--version"))?;
    let version = version(&text);
    if version.is_none_or(|version| version < VERSION_MIN) {
        let (major, minor) = VERSION_MIN;
        let text = text.trim();
        return Err(unable(format!(
            "Debian's compiler is {text}, but {major}.{minor} or newer is needed"
        )));
    }
    Ok(())
}

/// The version in a line such as `rustc 1.96.0 (ac68faa20 2026-05-25)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn unable(why: String) -> Error {
    Error::NoCompiler { why }
}

/// Where this user's cache of `indelible` is.
fn cache_folder() -> Result<PathBuf, Error> {
    let absolute =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|folder| folder.join("indelible"))
        .ok_or_else(|| {
            unable(
                "there is no cache folder to keep Debian's compiler in: set HOME or XDG_CACHE_HOME"
                    .to_owned(),
            )
        })
}

fn remove(folder: &Path) -> Result<(), Error> {
    // A symbolic link to a folder is removed itself, not followed.
    match fs::symlink_metadata(folder) {
        Ok(_) => fs::remove_dir_all(folder).map_err(Error::file("remove", folder)),
        Err(_) => Ok(()),
    }
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).map_err(Error::file("make executable", path))
}

#[cfg(not(unix))]
fn executable(_path: &Path) -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version is read from what `rustc --version` prints.
    #[test]
    fn versions() {
        assert_eq!(version("rustc 1.96.0 (ac68faa20 2026-05-25) (Debian)\n"), Some((1, 96)));
        assert_eq!(version("rustc 1.85.1\n"), Some((1, 85)));
        assert_eq!(version("not found"), None);
    }

    /// The folder becomes complete in one step, and leftovers are no obstacle.
    #[test]
    fn removes_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join("left");
        remove(&left).unwrap();
        fs::create_dir_all(left.join("deep")).unwrap();
        remove(&left).unwrap();
        assert!(!left.exists());
    }
}
