//! The bytes of answers.
#![expect(clippy::disallowed_methods, reason = "a date to wait for depends on today's")]

use std::time::{Duration, SystemTime};

/// What `/fast` answers.
pub(crate) const FAST: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";

/// Tells a client that waits for it to send its body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Bytes that are not HTTP.
pub(crate) const GARBAGE: &[u8] = b"\x00\xffHTPT/9.9 OK two hundred\n\n\x01\x02\r\r\n";

/// An answer that is being made.
pub(crate) struct Reply {
    head: String,
    status: u16,
    /// Whether the answer is to a `HEAD`: then it states the body's length, and has no body.
    head_only: bool,
    /// Whether it announces that the connection is closed.
    close: bool,
}

impl Reply {
    /// An answer of this status to a request of this method.
    pub(crate) fn new(status: u16, method: &str, close: bool) -> Self {
        let head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        Self { head, status, head_only: method == "HEAD", close }
    }

    /// With this header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// The head alone, of an answer whose body has this many bytes.
    pub(crate) fn head(self, body_bytes: u64) -> Vec<u8> {
        let with_length = match self.status {
            // These statuses have no body, and no length either.
            204 | 304 => self,
            _ => self.header("content-length", &body_bytes.to_string()),
        };
        with_length.end()
    }

    /// The head alone, of an answer whose body comes in chunks.
    pub(crate) fn chunked(self) -> Vec<u8> {
        self.header("transfer-encoding", "chunked").end()
    }

    /// The whole answer.
    pub(crate) fn json(self, body: &str) -> Vec<u8> {
        let bodiless = self.bodiless();
        let typed = if bodiless { self } else { self.header("content-type", "application/json") };
        let mut bytes = typed.head(u64::try_from(body.len()).expect("it fits in memory"));
        if !bodiless {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }

    /// Whether the answer has no body, whatever is asked for.
    pub(crate) fn bodiless(&self) -> bool {
        self.head_only || matches!(self.status, 204 | 304)
    }

    fn end(self) -> Vec<u8> {
        let closes = if self.close { "connection: close\r\n" } else { "" };
        format!("{}{closes}\r\n", self.head).into_bytes()
    }
}

/// A date this many seconds from now, as headers have it.
pub(crate) fn date_in(seconds: i64) -> String {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let date = if seconds < 0 { now.checked_sub(distance) } else { now.checked_add(distance) };
    // A header can hold the years 1970 to 9999: other dates are cut to these.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let date = date.unwrap_or(if seconds < 0 { SystemTime::UNIX_EPOCH } else { last });
    httpdate::fmt_http_date(date.clamp(SystemTime::UNIX_EPOCH, last))
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_long_it_is() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(Reply::new(503, "GET", true).header("a", "b").json("{}")),
            "HTTP/1.1 503 Service Unavailable\r\na: b\r\ncontent-type: application/json\r\n\
             content-length: 2\r\nconnection: close\r\n\r\n{}"
        );
        assert_eq!(
            text(Reply::new(200, "HEAD", false).json("{}")),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
        );
        assert_eq!(
            text(Reply::new(204, "GET", false).json("{}")),
            "HTTP/1.1 204 No Content\r\n\r\n"
        );
        let body = FAST.len() - FAST.iter().rposition(|byte| *byte == b'\n').unwrap() - 1;
        assert_eq!(body, 11);
    }

    #[test]
    fn every_distance_has_a_date() {
        assert_eq!(date_in(i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date_in(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
