//! `cargo xtask setup`: installs what tests need beside Rust and a C compiler. Tests install
//! nothing. If everything is there, it uses no network.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it installs programs")]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

/// A package of Debian, and the check whether its programs are there.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: [Package; 6] = [
    Package { name: "bash", is_there: || is_on_path("bash") },
    Package { name: "curl", is_there: || is_on_path("curl") },
    Package { name: "git", is_there: || is_on_path("git") },
    Package { name: "openssl", is_there: || is_on_path("openssl") },
    Package { name: "postgresql", is_there: indelible_postgres_fixture::is_installed },
    Package { name: "python3-venv", is_there: makes_environments },
];

/// The versions of schemathesis and everything that it needs.
const REQUIREMENTS: &str = "crates/cli/tests/it/schemathesis/requirements.txt";

/// Settings for the making of clusters, beside those that Debian ships.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// Installs what is missing, and says what was there.
pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    packages(err)?;
    schemathesis(root, err)?;
    guests(err)?;
    Ok(true)
}

fn packages(err: &mut dyn Write) -> anyhow::Result<()> {
    let missing = || -> Vec<&str> {
        PACKAGES.iter().filter(|it| !(it.is_there)()).map(|it| it.name).collect()
    };
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(writeln!(err, "setup: programs are there")?);
    }
    let names = wanted.join(" ");
    let by_hand = format!("tests need what Debian has in these packages: {names}");
    ensure!(is_on_path("apt-get"), "{by_hand}\nthere is no apt-get here: install them yourself");
    ensure!(is_root()?, "{by_hand}\nas root: apt-get install --no-install-recommends {names}");
    writeln!(err, "setup: apt-get install {names}")?;
    let _none = NoCluster::set()?;
    let install = [&["install", "--no-install-recommends"], &wanted[..]].concat();
    // The lists of packages are fetched only if they are missing or too old.
    if apt_get(&install).is_err() {
        apt_get(&["update"])?;
        apt_get(&install)?;
    }
    let left = missing().join(" ");
    ensure!(left.is_empty(), "what tests need is not in these packages: {left}");
    Ok(())
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-y", "-o", "DPkg::Lock::Timeout=600"]).args(arguments);
    run_it(command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C"))
}

/// While it lives, a PostgreSQL that is installed makes and starts no cluster of the system: tests
/// start their own. Other settings of the machine stay as they are.
struct NoCluster {
    file: PathBuf,
}

impl NoCluster {
    fn set() -> anyhow::Result<Self> {
        let file = Path::new(CLUSTER_SETTINGS).join("indelible-setup.conf");
        fs::create_dir_all(CLUSTER_SETTINGS)
            .and_then(|()| fs::write(&file, "create_main_cluster = false\n"))
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file })
    }
}

impl Drop for NoCluster {
    fn drop(&mut self) {
        // A file that is left behind does no harm, and lies where an administrator looks for such
        // settings.
        fs::remove_file(&self.file).ok();
    }
}

/// The program `schemathesis`, below `target`, in a virtual environment of its own. The test that runs
/// it looks for it there.
fn schemathesis(root: &Path, err: &mut dyn Write) -> anyhow::Result<()> {
    let requirements = fs::read_to_string(root.join(REQUIREMENTS))
        .with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let parent = indelible_guests::target_folder().join("tmp");
    fs::create_dir_all(&parent)?;
    let folder = parent.join("schemathesis");
    // One process installs it; others wait for the lock.
    let lock = parent.join("schemathesis.lock");
    let lock = OpenOptions::new().create(true).append(true).open(lock)?;
    lock.lock()?;
    // Written last: with this file, the installation is complete and of these versions.
    let whole = folder.join("installed.txt");
    if fs::read_to_string(&whole).is_ok_and(|installed| installed == requirements) {
        return Ok(writeln!(err, "setup: schemathesis is there")?);
    }
    writeln!(err, "setup: pip installs schemathesis into {}", folder.display())?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    run_it(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let wanted = folder.join("requirements.txt");
    fs::write(&wanted, &requirements)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    run_it(Command::new(folder.join("bin/python")).args(pip).arg(&wanted))?;
    fs::rename(&wanted, &whole)?;
    Ok(())
}

/// The compiler for guests, and the guests' dependencies: built once, so that tests find both.
fn guests(err: &mut dyn Write) -> anyhow::Result<()> {
    let mut told = Ok(());
    let built = indelible_guests::build(true, &mut |what| {
        told = writeln!(err, "setup: {what}");
    });
    told?;
    match built {
        Ok(_) => Ok(writeln!(err, "setup: guests are built")?),
        Err(error) => bail!("the guests cannot be built: {}", indelible_guests::explain(&error)),
    }
}

fn is_on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Python can make environments, and put `pip` into them.
fn makes_environments() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]);
    python.output().is_ok_and(|done| done.status.success())
}

fn is_root() -> anyhow::Result<bool> {
    let id = Command::new("id").arg("-u").output().context("cannot run id")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

/// Runs a command that has to succeed; its output is shown only if it fails.
fn run_it(command: &mut Command) -> anyhow::Result<()> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot run {command:?}"))?;
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(done.status.success(), "{command:?}: {}\n{}", done.status, said.trim_end());
    Ok(())
}
