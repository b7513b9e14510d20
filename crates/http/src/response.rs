//! What came back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::bytes_format::{Malformed, Reader, Writer};

const VERSION: u8 = 1;

/// The longest wait that a `Retry-After` can ask for; longer ones are cut.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// In the order in which they came; names in small letters.
    pub headers: Vec<(String, Bytes)>,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Its bytes, as they are journaled.
    pub fn encode(&self) -> Bytes {
        let headers: usize = self.headers.iter().map(|(n, v)| n.len() + v.len() + 4).sum();
        let mut out = Writer::new(VERSION, 16 + headers + self.body.len());
        out.u16(self.status);
        out.count(self.headers.len());
        for (name, value) in &self.headers {
            out.bytes(name.as_bytes());
            out.bytes(value);
        }
        out.rest(&self.body);
        out.done()
    }

    /// The answer of these bytes.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(VERSION, bytes)?;
        let status = reader.u16()?;
        let mut headers = Vec::new();
        for _ in 0..reader.count()? {
            headers.push((reader.text()?, reader.bytes()?));
        }
        Ok(Self { status, headers, body: reader.rest() })
    }

    /// The first header of this name, in small letters.
    pub fn header(&self, name: &str) -> Option<&Bytes> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// How long the peer asks to wait, in seconds or until a date. `now`: microseconds since 1970.
    pub fn retry_after(&self, now: u64) -> Option<Duration> {
        let text = std::str::from_utf8(self.header("retry-after")?).ok()?.trim();
        let wait = match text.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let date: SystemTime = httpdate::parse_http_date(text).ok()?;
                let since = date.duration_since(UNIX_EPOCH).ok()?;
                since.saturating_sub(Duration::from_micros(now))
            }
        };
        Some(wait.min(RETRY_AFTER_MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn response(headers: &[(&str, &str)]) -> Response {
        let header = |(name, value): &(&str, &str)| {
            ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes()))
        };
        let headers = headers.iter().map(header).collect();
        Response { status: 429, headers, body: Bytes::from_static(b"later") }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            status in any::<u16>(),
            headers in prop::collection::vec(("[a-z-]{1,9}", prop::collection::vec(any::<u8>(), 0..9)), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
            let response = Response { status, headers, body: body.into() };
            prop_assert_eq!(Response::decode(&response.encode()), Ok(response));
        }
    }

    /// The bytes of version 1, as they are described: they must still read.
    #[test]
    fn version_1_reads() {
        let bytes = Bytes::from_static(b"\x01\x01\xad\x01\x01a\x01blater");
        assert_eq!(Response::decode(&bytes), Ok(response(&[("a", "b")])));
        assert_eq!(response(&[("a", "b")]).encode(), bytes);
        assert!(Response::decode(&bytes.slice(..6)).is_err());
        assert!(Response::decode(&Bytes::from_static(b"\x02")).is_err());
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date() {
        let wait = |value: &str, now| response(&[("retry-after", value)]).retry_after(now);
        assert_eq!(wait("7", 0), Some(Duration::from_secs(7)));
        assert_eq!(wait(" 7 ", 0), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999", 0), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("-1", 0), None);
        assert_eq!(wait("soon", 0), None);
        let date = "Thu, 01 Jan 1970 00:01:40 GMT";
        assert_eq!(wait(date, 40_000_000), Some(Duration::from_secs(60)));
        assert_eq!(wait(date, 400_000_000), Some(Duration::ZERO));
        assert_eq!(response(&[]).retry_after(0), None);
    }
}
