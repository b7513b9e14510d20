//! `Remote`: a peer in another process, asked over HTTP.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::ledger::PATIENCE;
use crate::text::percent_encoded;
use crate::{Arrival, Hold, control, wire};

/// A peer in another process. If it was [spawned](Self::spawn), it is killed when this is dropped.
#[derive(Debug)]
pub struct Remote {
    address: SocketAddr,
    process: Option<Child>,
}

impl Remote {
    /// The peer that listens here.
    pub fn at(address: SocketAddr) -> Self {
        Self { address, process: None }
    }

    /// Starts a program that is a peer: it says its address in the first line of its output, as the
    /// example `peer` does. Its standard input stays open until this is dropped or our process
    /// ends, so a program that ends with its input is never left over.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        let read = BufReader::new(output).read_line(&mut line);
        let address = read.and_then(|_| line.trim().parse().map_err(|_| unexpected(&line)));
        match address {
            Ok(address) => Ok(Self { address, process: Some(process) }),
            Err(error) => {
                end(&mut process);
                Err(error)
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All arrivals, in the order in which they were complete.
    pub fn log(&self) -> io::Result<Vec<Arrival>> {
        let text = self.ask("GET", "log")?;
        text.lines().map(|line| wire::parse(line).ok_or_else(|| unexpected(line))).collect()
    }

    /// How often a key has arrived.
    pub fn arrivals(&self, key: &str) -> io::Result<usize> {
        self.number(&format!("count/{}", percent_encoded(key)), "arrivals")
    }

    /// How often a key was processed.
    pub fn processed(&self, key: &str) -> io::Result<usize> {
        self.number(&format!("count/{}", percent_encoded(key)), "processed")
    }

    /// How many requests to `/fast` were answered.
    pub fn fast(&self) -> io::Result<usize> {
        self.number("fast", "count")
    }

    /// Waits until a key has arrived at least `count` times. An error after a minute.
    pub fn wait_for_arrivals(&self, key: &str, count: usize) -> io::Result<()> {
        self.ask("GET", &format!("wait/arrivals/{count}/{}", percent_encoded(key))).map(drop)
    }

    /// Waits until a key was processed at least `count` times. An error after a minute.
    pub fn wait_for_processed(&self, key: &str, count: usize) -> io::Result<()> {
        self.ask("GET", &format!("wait/processed/{count}/{}", percent_encoded(key))).map(drop)
    }

    /// Waits until at least `count` arrivals are held. An error after a minute.
    pub fn wait_for_held(&self, count: usize) -> io::Result<()> {
        self.ask("GET", &format!("wait/held/{count}")).map(drop)
    }

    /// Holds every arrival at this point from now on, until [`release`](Self::release). Those that
    /// are held at the other point go on.
    pub fn hold(&self, hold: Hold) -> io::Result<()> {
        self.ask("POST", &format!("hold/{}", hold.name())).map(drop)
    }

    /// Releases all arrivals that are held, and holds no more.
    pub fn release(&self) -> io::Result<()> {
        self.ask("POST", "release").map(drop)
    }

    fn number(&self, path: &str, name: &str) -> io::Result<usize> {
        let text = self.ask("GET", path)?;
        let value: Value = serde_json::from_str(&text).map_err(|_| unexpected(&text))?;
        let number = value[name].as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| unexpected(&text))
    }

    /// The body of a 200.
    fn ask(&self, method: &str, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let prefix = control::PREFIX;
        let request = format!("{method} {prefix}{path} HTTP/1.1\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
            _ => Err(unexpected(&answer)),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            end(process);
        }
    }
}

/// Kills the process. An error means that it has ended already.
fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

fn unexpected(said: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not what a peer says: {said:?}"))
}
