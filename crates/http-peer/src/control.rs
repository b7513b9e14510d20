//! The peer's own paths, for a test in another process: `/control/…`. They do not count as
//! arrivals, and are never held.

use std::io;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::act::Next;
use crate::ledger::{Ledger, State};
use crate::reply::Reply;
use crate::request::Request;
use crate::text::percent_decoded;
use crate::{Hold, wire};

/// What all these paths begin with.
pub(crate) const PREFIX: &str = "/control/";

/// A request to the peer itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ControlRequest {
    /// `GET log`: all arrivals, a line of JSON each.
    Log,
    /// `GET count/<key>`: how often it arrived and was processed.
    Count(String),
    /// `GET fast`: how often `/fast` was answered.
    Fast,
    /// `GET wait/…`: answers when the condition holds.
    Wait(Until),
    /// `POST hold/…`, `POST release`.
    Hold(Option<Hold>),
    /// Something else.
    Unknown,
}

/// A condition to wait for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// `arrivals/<count>/<key>`: the key has arrived this often.
    Arrivals(usize, String),
    /// `processed/<count>/<key>`: the key was processed this often.
    Processed(usize, String),
    /// `held/<count>`: this many arrivals are held.
    Held(usize),
}

impl Until {
    /// Whether the condition holds.
    pub(crate) fn holds(&self, state: &State) -> bool {
        match self {
            Self::Arrivals(count, key) => state.tally(key).arrivals >= *count,
            Self::Processed(count, key) => state.tally(key).processed >= *count,
            Self::Held(count) => state.held >= *count,
        }
    }
}

/// The control request, if this is one.
pub(crate) fn asked(request: &Request) -> Option<ControlRequest> {
    let path = request.path.strip_prefix(PREFIX)?;
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let asked = match (request.method.as_str(), name) {
        ("GET", "log") => Some(ControlRequest::Log),
        ("GET", "count") => Some(ControlRequest::Count(percent_decoded(rest))),
        ("GET", "fast") => Some(ControlRequest::Fast),
        ("GET", "wait") => until(rest).map(ControlRequest::Wait),
        ("POST", "hold") => Hold::named(rest).map(|hold| ControlRequest::Hold(Some(hold))),
        ("POST", "release") => Some(ControlRequest::Hold(None)),
        _ => None,
    };
    Some(asked.unwrap_or(ControlRequest::Unknown))
}

fn until(text: &str) -> Option<Until> {
    let (name, rest) = text.split_once('/')?;
    if name == "held" {
        return rest.parse().ok().map(Until::Held);
    }
    let (count, key) = rest.split_once('/')?;
    let (count, key) = (count.parse().ok()?, percent_decoded(key));
    match name {
        "arrivals" => Some(Until::Arrivals(count, key)),
        "processed" => Some(Until::Processed(count, key)),
        _ => None,
    }
}

/// Answers a control request.
pub(crate) async fn answer(
    stream: &mut TcpStream,
    ledger: &Ledger,
    request: &Request,
    asked: ControlRequest,
) -> io::Result<Next> {
    let (status, body) = match asked {
        ControlRequest::Log => (200, ledger.look(log)),
        ControlRequest::Count(key) => {
            let tally = ledger.look(|state| state.tally(&key));
            let counts = json!({ "arrivals": tally.arrivals, "processed": tally.processed });
            (200, counts.to_string())
        }
        ControlRequest::Fast => (200, json!({ "count": ledger.fast() }).to_string()),
        ControlRequest::Wait(until) => {
            ledger.until(|state| until.holds(state)).await;
            (200, "{}".to_owned())
        }
        ControlRequest::Hold(hold) => {
            ledger.hold(hold);
            (200, "{}".to_owned())
        }
        ControlRequest::Unknown => {
            (404, json!({ "error": "there is no such control" }).to_string())
        }
    };
    let reply = Reply::new(status, &request.method, request.close).json(&body);
    stream.write_all(&reply).await?;
    Ok(if request.close { Next::Close } else { Next::KeepAlive })
}

fn log(state: &State) -> String {
    state.log.iter().map(|arrival| wire::line(arrival) + "\n").collect()
}
