//! `Cluster`: one server, its address and its databases.
#![expect(clippy::disallowed_methods, reason = "it writes the server's configuration")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::account::Account;
use crate::error::{Error, tail};
use crate::options::Options;
use crate::port;
use crate::programs::Programs;
use crate::psql;
use crate::supervisor::Supervisor;

/// Each attempt takes another port, so that the second nearly always succeeds.
const ATTEMPTS_MAX: u32 = 20;
/// PostgreSQL cuts longer names off.
const NAME_BYTES_MAX: usize = 63;

/// A private PostgreSQL server. Dropping it stops the server and removes its files.
#[derive(Debug)]
pub struct Cluster {
    supervisor: Mutex<Supervisor>,
    programs: Programs,
    /// Where its files, its log and its socket are.
    folder: PathBuf,
    port: u16,
    password: String,
    /// How many databases were made.
    databases: AtomicU64,
}

impl Cluster {
    /// Makes a cluster and starts its server. It takes connections when this returns.
    pub fn start(options: Options) -> Result<Self, Error> {
        Self::start_on(options, port::free)
    }

    /// Starts the server on a port that `port_of` gives for the folder and the number of the
    /// attempt. A port that was free can be taken when the server wants it: then it gets another.
    fn start_on(
        options: Options,
        port_of: impl Fn(&Path, u32) -> std::io::Result<u16>,
    ) -> Result<Self, Error> {
        // Installing comes first: it makes the account.
        let programs = Programs::find()?;
        let mut supervisor = Supervisor::start(&programs, Account::find()?)?;
        let folder = supervisor.folder().to_owned();
        supervisor.make()?;
        fs::OpenOptions::new()
            .append(true)
            .open(folder.join("data/postgresql.conf"))
            .and_then(|mut file| file.write_all(options.configuration(&folder).as_bytes()))
            .map_err(Error::io("configure the server"))?;
        let mut attempt = 0;
        let port = loop {
            let port = port_of(&folder, attempt).map_err(Error::io("find a free port"))?;
            attempt += 1;
            match supervisor.start_server(port) {
                Ok(()) => break port,
                Err(Error::Start { log })
                    if log.contains("Address already in use") && attempt < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
        };
        let password = fs::read_to_string(folder.join("password"));
        let password = password.map_err(Error::io("read the password"))?;
        let supervisor = Mutex::new(supervisor);
        let databases = AtomicU64::new(0);
        Ok(Self { supervisor, programs, folder, port, password, databases })
    }

    /// Where clients find a database. Its name is taken as it is: plain, as those of
    /// [`create_database`](Self::create_database) are.
    pub fn url(&self, database: &str) -> String {
        let Self { port, password, .. } = self;
        format!("postgres://postgres:{password}@{}:{port}/{database}", self.host())
    }

    /// The password of the superuser `postgres`. Connections to the port need it.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The address that the server listens on.
    pub fn host(&self) -> &'static str {
        port::HOST
    }

    /// The port of the address and of the socket. It stays the same when the server starts again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the unix socket: what clients take as `host`. For root alone if we are root.
    pub fn socket_dir(&self) -> &Path {
        &self.folder
    }

    /// Makes an empty database, and gives its name: the prefix, as far as it is plain, and a number
    /// that no other database of the server has.
    ///
    /// # Panics
    ///
    /// If the server refuses, or is not there. The message ends with what the server logged: a
    /// server that ran out of disk says so only there.
    pub fn create_database(&self, prefix: &str) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        let name = database_name(prefix, number);
        // The server lets no client connect to template0, so that it can always be copied.
        self.sql("postgres", &format!("CREATE DATABASE \"{name}\" TEMPLATE template0"))
            .unwrap_or_else(|error| {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("no database {name}: {error}\nthe server's log ends:\n{}", tail(&log))
            });
        name
    }

    /// Runs statements one after the other, as the superuser, up to the first that fails: each a
    /// transaction of its own, unless they say otherwise. Gives their rows, a line each, with
    /// values separated by `|` and without the last line's end.
    pub fn sql(&self, database: &str, text: &str) -> Result<String, Error> {
        psql::run(&self.programs, &self.folder, self.port, database, text)
    }

    /// Ends the server at once, as if it had crashed: connections break, transactions are lost. The
    /// server has ended when this returns. Does nothing if it is down.
    pub fn crash(&self) -> Result<(), Error> {
        self.supervisor().crash_server()
    }

    /// Starts the server again, on the same port; it recovers what was committed. Does nothing if
    /// it runs.
    pub fn start_again(&self) -> Result<(), Error> {
        self.supervisor().start_server(self.port)
    }

    /// A crash and a new start, in the middle of whatever clients are doing.
    pub fn restart_in_the_middle(&self) -> Result<(), Error> {
        let mut supervisor = self.supervisor();
        supervisor.crash_server()?;
        supervisor.start_server(self.port)
    }

    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        // A panic leaves nothing half done in it.
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that needs no quotes, and no escapes in a URL.
fn database_name(prefix: &str, number: u64) -> String {
    let number = format!("_{number}");
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let prefix = prefix.chars().map(|char| plain(char.to_ascii_lowercase()));
    prefix.take(NAME_BYTES_MAX - number.len()).collect::<String>() + &number
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server whose port another process takes first gets another port.
    #[test]
    fn a_taken_port_is_not_the_end() {
        let taken = TcpListener::bind((port::HOST, 0)).unwrap();
        let port_taken = taken.local_addr().unwrap().port();
        let choose = |folder: &Path, attempt| match attempt {
            0 | 1 => Ok(port_taken),
            _ => port::free(folder, attempt),
        };
        let cluster = Cluster::start_on(Options::default(), choose).unwrap();
        assert_ne!(cluster.port(), port_taken);
        assert_eq!(cluster.sql("postgres", "SELECT 1").unwrap(), "1");

        // A port that stays taken is an error, not an endless search.
        let error = Cluster::start_on(Options::default(), |_, _| Ok(port_taken)).unwrap_err();
        assert!(matches!(&error, Error::Start { log } if log.contains("in use")), "{error}");
    }

    /// Names of databases are plain, and differ however long or odd the prefix is.
    #[test]
    fn names_of_databases_are_plain() {
        assert_eq!(database_name("orders", 7), "orders_7");
        assert_eq!(database_name("Über-Test \"x\"", 1), "_ber_test__x__1");
        assert_eq!(database_name("", 12), "_12");
        let long = "x".repeat(100);
        assert_eq!(database_name(&long, 123).len(), NAME_BYTES_MAX);
        assert_ne!(database_name(&long, 1), database_name(&long, 2));
    }
}
