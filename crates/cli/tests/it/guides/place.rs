//! Where a guide is read: folders, an environment and ports of its own.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, FileTimes};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use indelible_build::Lock;

use crate::guides::page::Page;

/// The project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The folders of one guide, and what its text is changed in.
pub(crate) struct Place {
    /// Where the reader is: empty at first.
    pub(crate) work: PathBuf,
    /// What is typed, and what is printed.
    pub(crate) typed: PathBuf,
    home: PathBuf,
    cargo: PathBuf,
    /// A port of the guide, and the one that it stands for here.
    ports: BTreeMap<u16, u16>,
    _lock: Lock,
}

/// Where a server is that says nothing else.
const USUAL: u16 = 7070;

impl Place {
    /// Empties the folders of a guide. The same ones each time, so that what cargo compiled for it
    /// serves again.
    pub(crate) fn new(name: &str, page: &Page) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guides").join(name);
        let lock = Lock::wait(&folder.join("lock")).unwrap();
        let [work, typed, home] = ["work", "typed", "home"].map(|name| folder.join(name));
        for folder in [&work, &typed, &home] {
            remove(folder);
            fs::create_dir_all(folder).unwrap();
        }
        share_the_compiler(&home);
        // On a terminal it draws no progress either, where the answer is to be seen.
        fs::write(home.join(".curlrc"), "silent\nshow-error\n").unwrap();
        let numbers = page.blocks.iter().flat_map(|block| {
            let output = block.output.as_deref().unwrap_or_default();
            [ports(&block.text), ports(output)].into_iter().flatten()
        });
        let ports = [USUAL].into_iter().chain(numbers);
        let ports = ports.collect::<std::collections::BTreeSet<u16>>();
        let ports = ports.into_iter().map(|port| (port, free_port())).collect();
        Self { work, typed, home, cargo: folder.join("cargo"), ports, _lock: lock }
    }

    /// A text of the guide, with the ports that it has here.
    pub(crate) fn here(&self, text: &str) -> String {
        let mut changed = text.to_owned();
        for (port, here) in &self.ports {
            changed = replace_number(&changed, *port, *here);
        }
        changed
    }

    /// Keeps other guides from building until it is dropped, and makes this guide's sources newer than
    /// what they built. Several guides have a project of the same name, and to cargo, which compiles
    /// for all of them in one folder, these are one project: without this, cargo takes what another
    /// guide has built since the last change of a file here for what this guide's files give.
    pub(crate) fn build_alone(&self) -> Lock {
        let lock = Lock::wait(&self.cargo.parent().unwrap().with_file_name("build.lock")).unwrap();
        let now = FileTimes::new().set_modified(SystemTime::now());
        let projects = fs::read_dir(&self.work).unwrap().flatten();
        let folders = projects.filter_map(|project| fs::read_dir(project.path().join("src")).ok());
        for source in folders.flatten().flatten() {
            fs::File::options().append(true).open(source.path()).unwrap().set_times(now).unwrap();
        }
        lock
    }

    /// A shell without the settings of the user who runs the test, and with the tested binary first
    /// on its path.
    pub(crate) fn shell(&self) -> Command {
        let mut command = Command::new("bash");
        let binary = Path::new(env!("CARGO_BIN_EXE_indelible")).parent().unwrap();
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [binary.to_owned()].into_iter().chain(env::split_paths(&path));
        let port = self.ports[&USUAL];
        let own = |name: &str, folder: &str| {
            env::var_os(name).unwrap_or_else(|| real_home().join(folder).into())
        };
        command
            .arg("--noprofile")
            .arg("--norc")
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", env::join_paths(path).unwrap())
            .env("HOME", &self.home)
            .env("USER", "reader")
            .env("LANG", "C.UTF-8")
            .env("COLUMNS", "100")
            .env("CARGO_HOME", own("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"))
            .env("CARGO_TARGET_DIR", &self.cargo)
            // What guests need is compiled once for all guides.
            .env("CARGO_BUILD_BUILD_DIR", self.cargo.parent().unwrap().with_file_name("build"))
            // The project's own guests need the same crates, and were built before.
            .env("CARGO_NET_OFFLINE", "true")
            .env("INDELIBLE_URL", format!("http://127.0.0.1:{port}"))
            .env("INDELIBLE_LISTEN", format!("127.0.0.1:{port}"));
        // Where cargo runs the test with a toolchain of its own choice, so do the guides.
        if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        command
    }
}

/// Removes a folder, if it is there. What a run before started may be ending just now, and write a
/// last file into it: then it is tried again.
fn remove(folder: &Path) {
    const ATTEMPTS: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(50);
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => thread::sleep(PAUSE),
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            removed => return removed.unwrap(),
        }
    }
    panic!("cannot remove {}: somebody writes to it", folder.display());
}

fn real_home() -> PathBuf {
    PathBuf::from(env::var_os("HOME").expect("there is a home"))
}

/// Of all that the reader's home has not, only the compiler for guests is worth having: to fetch it
/// takes minutes.
fn share_the_compiler(home: &Path) {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| real_home().join(".cache")).join("indelible");
    fs::create_dir_all(&cache).unwrap();
    fs::create_dir_all(home.join(".cache")).unwrap();
    std::os::unix::fs::symlink(cache, home.join(".cache/indelible")).unwrap();
}

/// Ports of this machine that a text speaks of.
fn ports(text: &str) -> Vec<u16> {
    let places = ["127.0.0.1:", "localhost:"];
    let after = places.iter().flat_map(|place| text.split(place).skip(1));
    let number = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok().filter(|port| *port > 0)
    };
    after.filter_map(number).collect()
}

/// A port that no process listens on. Not one of those that the system hands out for connections:
/// another process could get such a port before the guide does.
fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const RANGES: u16 = 90;
    const PORTS: u16 = 200;
    // The test process that listens on the first port of a range has the range: others take others.
    static OWN: OnceLock<TcpListener> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let own = OWN.get_or_init(|| {
        let mut firsts = (0..RANGES).map(|range| FIRST + range * PORTS);
        let own = firsts.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        own.expect("a range of ports is free")
    });
    let first = own.local_addr().unwrap().port();
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(next < PORTS, "no port is free");
        if TcpListener::bind(("127.0.0.1", first + next)).is_ok() {
            return first + next;
        }
    }
}

/// A number replaced where it stands alone.
fn replace_number(text: &str, number: u16, by: u16) -> String {
    let number = number.to_string();
    let (mut changed, mut left) = (String::new(), text);
    while let Some(at) = left.find(&number) {
        let (before, after) = (&left[..at], &left[at + number.len()..]);
        let touches = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        changed.push_str(before);
        if touches(before.chars().next_back()) || touches(after.chars().next()) {
            changed.push_str(&number);
        } else {
            changed.push_str(&by.to_string());
        }
        left = after;
    }
    changed + left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which numbers are ports, and where they are replaced.
    #[test]
    fn ports_of_a_guide() {
        assert_eq!(ports("curl http://127.0.0.1:7070/v1 localhost:99 127.0.0.1:0"), [7070, 99]);
        assert_eq!(ports("bind(\"127.0.0.1\", 8090)"), [0_u16; 0]);
        assert_eq!(replace_number("a:7070/ 17070 7070x (7070)", 7070, 5), "a:5/ 17070 7070x (5)");
        assert_ne!(free_port(), free_port());
    }
}
