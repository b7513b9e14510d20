//! Installing Debian's package, where there is no PostgreSQL and we are root.
#![expect(clippy::disallowed_methods, reason = "it takes a lock and tells the package what to do")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, tail};

/// Settings for the making of clusters, beside those that Debian ships.
const CLUSTER_SETTINGS: &str = "/etc/postgresql-common/createcluster.d";

/// Installs the package `postgresql`. Of several processes that want to, one does; `done` says to
/// the others that nothing is left to do.
pub(crate) fn install(done: impl Fn() -> bool) -> Result<(), Error> {
    let lock = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(std::env::temp_dir().join("indelible-postgres-install.lock"))
        .map_err(Error::io("open the lock for installing PostgreSQL"))?;
    lock.lock().map_err(Error::io("take the lock for installing PostgreSQL"))?;
    if done() {
        return Ok(());
    }
    let _quiet = NoCluster::set()?;
    // The lists of packages are fetched only if they are missing or too old.
    if apt_get(&["install", "--no-install-recommends", "postgresql"]).is_ok() {
        return Ok(());
    }
    apt_get(&["update"])?;
    apt_get(&["install", "--no-install-recommends", "postgresql"])
}

fn apt_get(arguments: &[&str]) -> Result<(), Error> {
    let output = Command::new("apt-get")
        .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=600"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        // Not Debian, nor like it.
        .map_err(|_| Error::Missing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::Install { said: tail(&String::from_utf8_lossy(&said)) })
}

/// While it lives, a server package that is installed makes and starts no cluster of the system:
/// nobody asked for one. What else is set on the machine stays as it is, before and after.
struct NoCluster {
    file: std::path::PathBuf,
}

impl NoCluster {
    fn set() -> Result<Self, Error> {
        let doing = "tell the package to make no cluster";
        let folder = Path::new(CLUSTER_SETTINGS);
        fs::create_dir_all(folder).map_err(Error::io(doing))?;
        let file = folder.join("indelible-fixture.conf");
        fs::write(&file, "create_main_cluster = false\n").map_err(Error::io(doing))?;
        Ok(Self { file })
    }
}

impl Drop for NoCluster {
    fn drop(&mut self) {
        // One that stays does no harm: it can be found where such settings are looked for.
        fs::remove_file(&self.file).ok();
    }
}
