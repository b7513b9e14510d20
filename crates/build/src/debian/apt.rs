//! Fetches packages and what they need with apt, without root and without touching its state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, run};

use super::unable;

/// Packages of these names belong to the compiler: they are fetched even where the system has
/// them, because the compiler looks for them beside itself.
const OWN: [&str; 2] = ["rustc-web", "libstd-rust-web"];

/// Downloads packages, and those that they need and the system lacks, into a folder.
pub(super) fn download(packages: &[&str], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let apt = Apt::new(folder)?;
    // One unreachable source is no reason to stop: another may have the packages. If none does, the
    // download below fails.
    if let Err(Error::Start { source, .. }) = run::output(apt.get().arg("update")) {
        return Err(unable(match source.kind() {
            io::ErrorKind::NotFound => {
                "apt-get, which fetches Debian's compiler, is not installed".to_owned()
            }
            _ => format!("apt-get could not be started: {source}"),
        }));
    }
    let names = apt.closure(packages)?;
    let fetched = run::output(apt.get().arg("download").args(&names).current_dir(folder));
    fetched.map_err(|error| unable(format!("Debian's compiler could not be fetched: {error}")))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file("list", folder))? {
        let path = entry.map_err(Error::file("list", folder))?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    Ok(found)
}

/// apt with lists of its own.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(folder: &Path) -> Result<Self, Error> {
        let (lists, cache) = (folder.join("lists"), folder.join("cache"));
        for folder in [lists.join("partial"), cache.join("archives/partial")] {
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        }
        let options = vec![
            format!("-oDir::State::Lists={}", lists.display()),
            format!("-oDir::Cache={}", cache.display()),
            // As root, apt would fetch as a user that may not enter the cache folder.
            "-oAPT::Sandbox::User=root".to_owned(),
            "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "-oAcquire::Languages=none".to_owned(),
        ];
        Ok(Self { options })
    }

    fn get(&self) -> Command {
        self.command("apt-get")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options).env("LC_ALL", "C");
        command
    }

    /// The packages themselves, what belongs to the compiler, and what the system lacks.
    fn closure(&self, packages: &[&str]) -> Result<Vec<String>, Error> {
        let plan = run::output(
            self.get()
                .args(["--simulate", "--no-install-recommends", "--reinstall", "install"])
                .args(packages),
        )
        .map_err(|error| unable(format!("Debian's compiler is not in apt's sources: {error}")))?;
        let mut names: Vec<String> = packages.iter().copied().map(str::to_owned).collect();
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            let depends = run::output(self.command("apt-cache").args(["depends", &name]))?;
            for name in needed(&depends) {
                let own = OWN.iter().any(|prefix| name.starts_with(prefix));
                if own && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        for name in planned(&plan) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// The packages that a simulated installation would unpack.
fn planned(plan: &str) -> impl Iterator<Item = String> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next().map(str::to_owned))
}

/// What `apt-cache depends` says is needed.
fn needed(depends: &str) -> impl Iterator<Item = String> {
    depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// apt's output is parsed as apt writes it.
    #[test]
    fn reads_apt() {
        let plan = "Reading package lists...\nInst libllvm22 (1:22.1.8-1 Debian [amd64])\n\
                    Inst rustc-web [1.85.0] (1.96.0+dfsg1-1 Debian [amd64])\nConf libllvm22 (1)\n";
        assert_eq!(planned(plan).collect::<Vec<_>>(), ["libllvm22", "rustc-web"]);
        let depends = "rustc-web\n  Depends: libc6\n  Depends: libstd-rust-web-dev\n \
                       |Depends: gcc\n  Recommends: cargo-web\n  Suggests: lld\n";
        assert_eq!(needed(depends).collect::<Vec<_>>(), ["libc6", "libstd-rust-web-dev"]);
    }
}
