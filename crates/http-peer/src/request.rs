//! Reading requests out of the bytes of a connection.

use bytes::Bytes;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 128;
/// The longest body: far more than tests send, and few enough bytes that a wrong length does not
/// exhaust the memory.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest line before a chunk.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// The path whose requests are answered in the connection's own loop.
const FAST_PATH: &str = "/fast";

/// A complete request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: Option<String>,
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, Bytes)>,
    pub(crate) body: Bytes,
    /// Whether the client wants the connection closed afterwards.
    pub(crate) close: bool,
}

/// What the bytes at the front of a connection are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The beginning of a request, or nothing.
    Partial {
        /// Whether the client waits for `100 Continue` before it sends the body.
        expects_continue: bool,
    },
    /// A request for `/fast` of this many bytes. None of it is kept, so nothing is allocated.
    Fast {
        bytes: usize,
        /// Whether the client wants the connection closed afterwards.
        close: bool,
    },
    /// A request of this many bytes.
    Complete { request: Request, bytes: usize },
    /// No request: the status that says so.
    Refused(u16),
}

/// What stands at the front of `input`.
pub(crate) fn read(input: &[u8]) -> Read {
    let partial = Read::Partial { expects_continue: false };
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let head_bytes = match parsed.parse(input) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Read::Refused(431),
        Err(_) => return Read::Refused(400),
    };
    let head = match Head::of(&parsed) {
        Ok(head) => head,
        Err(status) => return Read::Refused(status),
    };
    let rest = &input[head_bytes..];
    let fast = parsed.path == Some(FAST_PATH);
    let (body, body_bytes) = match head.framing {
        Framing::Length(length) if rest.len() < length => {
            return Read::Partial { expects_continue: head.expects_continue };
        }
        // A fast request's body is not looked at.
        Framing::Length(length) if fast => (Bytes::new(), length),
        Framing::Length(length) => (Bytes::copy_from_slice(&rest[..length]), length),
        Framing::Chunked => match chunked(rest) {
            Ok(Some(complete)) => complete,
            Ok(None) => return Read::Partial { expects_continue: head.expects_continue },
            Err(status) => return Read::Refused(status),
        },
    };
    let bytes = head_bytes + body_bytes;
    if fast {
        return Read::Fast { bytes, close: head.close };
    }
    let header = |header: &httparse::Header<'_>| {
        (header.name.to_owned(), Bytes::copy_from_slice(header.value))
    };
    let request = Request {
        key: head.key.map(key),
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        headers: parsed.headers.iter().map(header).collect(),
        body,
        close: head.close,
    };
    Read::Complete { request, bytes }
}

enum Framing {
    Length(usize),
    Chunked,
}

/// What the headers mean for the connection.
struct Head<'a> {
    framing: Framing,
    close: bool,
    expects_continue: bool,
    key: Option<&'a [u8]>,
}

impl<'a> Head<'a> {
    /// `Err` is the status of the refusal.
    fn of(parsed: &httparse::Request<'_, 'a>) -> Result<Self, u16> {
        let mut length: Option<usize> = None;
        let mut chunked = false;
        // HTTP/1.0 closes the connection unless the client asks to keep it, which is not supported.
        let mut close = parsed.version == Some(0);
        let mut expects_continue = false;
        let mut key = None;
        for header in parsed.headers.iter() {
            let value = header.value.trim_ascii();
            if header.name.eq_ignore_ascii_case("content-length") {
                let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                let text = std::str::from_utf8(value).ok().filter(|_| digits).ok_or(400_u16)?;
                let own = text.parse().map_err(|_| 413_u16)?;
                if length.is_some_and(|other| other != own) {
                    return Err(400);
                }
                if own > BODY_BYTES_MAX {
                    return Err(413);
                }
                length = Some(own);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(501);
                }
                chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                close |= value
                    .split(|byte| *byte == b',')
                    .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
            } else if header.name.eq_ignore_ascii_case("expect") {
                expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            } else if header.name.eq_ignore_ascii_case("idempotency-key") && key.is_none() {
                key = Some(value);
            }
        }
        let framing = match (chunked, length) {
            // With both, two readers could disagree about where the request ends, and see different
            // requests.
            (true, Some(_)) => return Err(400),
            (true, None) => Framing::Chunked,
            (false, length) => Framing::Length(length.unwrap_or(0)),
        };
        Ok(Self { framing, close, expects_continue, key })
    }
}

/// A key as text. The quotes that a structured header has are not part of it.
fn key(value: &[u8]) -> String {
    let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    String::from_utf8_lossy(inner.unwrap_or(value)).into_owned()
}

/// The body in chunks at the front of `input`, and how many bytes it takes there.
fn chunked(input: &[u8]) -> Result<Option<(Bytes, usize)>, u16> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let (line, size) = match httparse::parse_chunk_size(&input[at..]) {
            Ok(httparse::Status::Complete((line, size))) => (line, size),
            Ok(httparse::Status::Partial) if input.len() - at < CHUNK_LINE_BYTES_MAX => {
                return Ok(None);
            }
            Ok(httparse::Status::Partial) | Err(_) => return Err(400),
        };
        at += line;
        if size == 0 {
            return trailers(&input[at..]).map(|end| Some((body.into(), at + end?)));
        }
        let size = usize::try_from(size).map_err(|_| 413_u16)?;
        if size > BODY_BYTES_MAX - body.len() {
            return Err(413);
        }
        let Some(chunk) = input.get(at..at + size) else { return Ok(None) };
        body.extend_from_slice(chunk);
        at += size;
        match input.get(at..at + 2) {
            Some(b"\r\n") => at += 2,
            Some(_) => return Err(400),
            None => return Ok(None),
        }
    }
}

/// How many bytes the trailers after the last chunk take, with the empty line that ends them.
fn trailers(input: &[u8]) -> Result<Option<usize>, u16> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    match httparse::parse_headers(input, &mut headers) {
        Ok(httparse::Status::Complete((bytes, _))) => Ok(Some(bytes)),
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => Err(431),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(input: &[u8]) -> Request {
        match read(input) {
            Read::Complete { request, bytes } if bytes == input.len() => request,
            other => panic!("{other:?}"),
        }
    }

    /// A request is complete only with its last byte, wherever it is cut off.
    #[test]
    fn a_part_is_no_request() {
        let requests: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            b"POST /do/answer HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ];
        for request in requests {
            for end in 0..request.len() {
                let read = read(&request[..end]);
                assert!(matches!(read, Read::Partial { .. }), "{end} bytes: {read:?}");
            }
            complete(request);
            // Bytes that follow belong to the next request.
            let more = [request, b"GET / HT"].concat();
            assert!(
                matches!(read(&more), Read::Complete { bytes, .. } if bytes == request.len()),
                "{more:?}"
            );
        }
        assert_eq!(complete(requests[1]).body, "hello");
        assert_eq!(complete(requests[2]).body, "hello0123456789");
        assert_eq!(complete(requests[3]).body, "");
    }

    #[test]
    fn the_head_is_understood() {
        let request = complete(
            b"POST /a?b HTTP/1.1\r\nIDEMPOTENCY-KEY: \"k 1\"\r\nConnection: x, Close\r\n\r\n",
        );
        assert_eq!(request.key.as_deref(), Some("k 1"));
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/a?b"));
        assert!(request.close);
        assert_eq!(request.headers[0], ("IDEMPOTENCY-KEY".to_owned(), "\"k 1\"".into()));
        assert!(complete(b"GET / HTTP/1.0\r\n\r\n").close);
        assert!(!complete(b"GET / HTTP/1.1\r\n\r\n").close);
        let waits = read(b"PUT / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n");
        assert_eq!(waits, Read::Partial { expects_continue: true });
        let fast = b"POST /fast HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(read(fast), Read::Fast { bytes: fast.len(), close: false });
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let refused = |input: &[u8]| match read(input) {
            Read::Refused(status) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400);
        assert_eq!(refused(b"GET / HTTP/2.0\r\n\r\n"), 400);
        for length in ["-1", "+1", "1 1", "", "0x1"] {
            let head = format!("GET / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
            assert_eq!(refused(head.as_bytes()), 400, "{length}");
        }
        let two = b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(refused(two), 400);
        let both = b"GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(refused(both), 400);
        for length in [(BODY_BYTES_MAX + 1).to_string(), "9".repeat(40)] {
            let head = format!("GET / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
            assert_eq!(refused(head.as_bytes()), 413, "{length}");
        }
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(refused(format!("{chunked}zz\r\n").as_bytes()), 400);
        assert_eq!(refused(format!("{chunked}1\r\nabc").as_bytes()), 400);
        assert_eq!(refused(format!("{chunked}fffffffff\r\n").as_bytes()), 413);
        assert_eq!(refused(format!("GET /{} ", "x".repeat(HEAD_BYTES_MAX)).as_bytes()), 431);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(refused(many.as_bytes()), 431);
        let gzip = b"POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n";
        assert_eq!(refused(gzip), 501);
    }
}
