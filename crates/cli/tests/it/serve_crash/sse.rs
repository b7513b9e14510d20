//! Events of an execution as they come, over as many connections as it takes.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::kit::Place;

/// So often in a row a stream may say that it is alive, and nothing else: a test that fails ends.
const SILENCES_MAX: usize = 2;

/// What one client has seen of one execution.
pub struct Watcher {
    path: String,
    /// Of each event its id and itself.
    pub events: Vec<(String, Value)>,
    /// How many connections broke.
    pub broken: usize,
    silences: usize,
}

impl Watcher {
    pub fn new(execution: &str) -> Self {
        let path = format!("/v1/executions/{execution}/events");
        Self { path, events: Vec::new(), broken: 0, silences: 0 }
    }

    /// Watches to the end; a connection that breaks is resumed behind the last event.
    pub fn watch(&mut self, place: &Place) {
        loop {
            let (life, address) = place.now();
            match self.connected(&address) {
                Ok(true) => return,
                Ok(false) => panic!("the stream ended, and nothing was over"),
                Err(_) => {
                    self.broken += 1;
                    place.after(life);
                }
            }
        }
    }

    /// True: it is over. Err: the connection broke.
    fn connected(&mut self, address: &str) -> io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut head = format!("GET {} HTTP/1.1\r\nhost: {address}\r\n", self.path);
        if let Some((id, _)) = self.events.last() {
            head.push_str(&format!("last-event-id: {id}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        let mut stream = BufReader::new(stream);
        let status = line(&mut stream)?;
        while !line(&mut stream)?.is_empty() {}
        assert_eq!(status, "HTTP/1.1 200 OK", "what was shown is there");
        let mut text = String::new();
        loop {
            let size = line(&mut stream)?;
            let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk)?;
            if size == 0 {
                return Ok(false);
            }
            text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
            // What has not come whole has not come.
            while let Some((message, rest)) = text.split_once("\n\n") {
                let over = self.take(message);
                text = rest.to_owned();
                if over {
                    return Ok(true);
                }
            }
        }
    }

    fn take(&mut self, message: &str) -> bool {
        let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
        match (field("id: "), field("event: "), field("data: ")) {
            (_, Some("over"), _) => true,
            (Some(id), Some(name), Some(data)) => {
                let event: Value = serde_json::from_str(data).unwrap();
                assert_eq!(event["event"], name);
                self.events.push((id.to_owned(), event));
                self.silences = 0;
                false
            }
            _ => {
                assert!(message.starts_with(':'), "{message}");
                self.silences += 1;
                assert!(
                    self.silences < SILENCES_MAX,
                    "nothing comes behind {:?}",
                    self.events.last()
                );
                false
            }
        }
    }
}

fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let whole = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(whole.to_owned())
}
