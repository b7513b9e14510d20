//! Reads a `text/event-stream`, in chunks that may end anywhere. Pure, and bounded.

use std::collections::VecDeque;
use std::mem;

/// One event of a stream, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawEvent {
    /// The last id in the stream up to this event.
    pub(crate) id: Option<String>,
    /// The event's name; `message` if the stream gives none.
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Why a stream is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("an event is larger than {0} bytes")]
    TooLarge(usize),
    #[error("an event is not UTF-8")]
    NotUtf8,
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// A stream that is being read.
#[derive(Debug)]
pub(crate) struct Parser {
    /// The most bytes of one event, its unfinished line included: bounds what a peer can make us
    /// hold.
    bytes_max: usize,
    line: Vec<u8>,
    /// The last chunk ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    id: Option<String>,
    name: String,
    data: String,
    has_data: bool,
    ready: VecDeque<RawEvent>,
}

impl Parser {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            id: None,
            name: String::new(),
            data: String::new(),
            has_data: false,
            ready: VecDeque::new(),
        }
    }

    /// The next event that is complete.
    pub(crate) fn next(&mut self) -> Option<RawEvent> {
        self.ready.pop_front()
    }

    /// Takes the next bytes. After an error, nothing more may be read.
    pub(crate) fn push(&mut self, mut chunk: &[u8]) -> Result<(), SseError> {
        if mem::take(&mut self.after_cr) && chunk.first() == Some(&b'\n') {
            chunk = &chunk[1..];
        }
        while let Some(end) = chunk.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.grow(&chunk[..end])?;
            let is_cr = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            if is_cr {
                match chunk.first() {
                    Some(b'\n') => chunk = &chunk[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.end_line()?;
        }
        self.grow(chunk)
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        let held = self.line.len() + self.data.len() + self.name.len();
        if held + bytes.len() > self.bytes_max {
            return Err(SseError::TooLarge(self.bytes_max));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SseError> {
        let line = mem::take(&mut self.line);
        let mut text = line.as_slice();
        if mem::take(&mut self.first_line) {
            text = text.strip_prefix(BOM).unwrap_or(text);
        }
        if text.is_empty() {
            self.dispatch();
            return Ok(());
        }
        let text = str::from_utf8(text).map_err(|_| SseError::NotUtf8)?;
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // An empty id takes back the last one.
            "id" if !value.contains('\0') => {
                self.id = (!value.is_empty()).then(|| value.to_owned());
            }
            // A comment has no field. `retry` is ignored: the caller decides how long to wait.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) {
        let name = mem::take(&mut self.name);
        let data = mem::take(&mut self.data);
        if mem::take(&mut self.has_data) {
            let name = if name.is_empty() { "message".to_owned() } else { name };
            self.ready.push_back(RawEvent { id: self.id.clone(), name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 64;

    fn event(id: Option<&str>, name: &str, data: &str) -> RawEvent {
        RawEvent { id: id.map(Into::into), name: name.into(), data: data.into() }
    }

    /// What a stream has, read in chunks of this size.
    fn read(stream: &[u8], chunk: usize) -> Result<Vec<RawEvent>, SseError> {
        let mut parser = Parser::new(BYTES_MAX);
        let mut events = Vec::new();
        for chunk in stream.chunks(chunk) {
            parser.push(chunk)?;
            events.extend(std::iter::from_fn(|| parser.next()));
        }
        Ok(events)
    }

    /// Wherever chunks end, the events are the same.
    #[track_caller]
    fn check(stream: &str, expected: &[RawEvent]) {
        for chunk in 1..=stream.len() {
            assert_eq!(read(stream.as_bytes(), chunk).unwrap(), expected, "chunks of {chunk}");
        }
    }

    /// Fields, comments, and data of several lines.
    #[test]
    fn events_in_chunks() {
        let stream = ": hello\n\nid: 1:0\nevent: started\ndata: {\"a\":1}\n\n\
                      data:one\ndata:  two\ndata\n\nretry: 5\nunknown: x\n\n";
        let expected = [
            event(Some("1:0"), "started", "{\"a\":1}"),
            event(Some("1:0"), "message", "one\n two\n"),
        ];
        check(stream, &expected);
    }

    /// Lines end in LF, CR or CRLF, also mixed.
    #[test]
    fn ends_of_lines() {
        let expected = [event(Some("é"), "e", "1"), event(None, "message", "2")];
        for end in ["\n", "\r", "\r\n"] {
            let lines = ["\u{feff}id: é", "event: e", "data: 1", "", "id", "data: 2", "", ""];
            check(&lines.join(end), &expected);
        }
        check(
            "data: 1\r\n\rdata: 2\n\r\n",
            &[event(None, "message", "1"), event(None, "message", "2")],
        );
    }

    /// An event that is cut off by the stream's end is dropped.
    #[test]
    fn a_broken_event_is_none() {
        check("data: 1\n\nid: 2\ndata: 2\n", &[event(None, "message", "1")]);
    }

    /// A name or an id without data is no event, and the id counts for the next.
    #[test]
    fn no_data_is_no_event() {
        check("event: e\nid: 7\n\ndata: x\n\n", &[event(Some("7"), "message", "x")]);
    }

    /// A peer cannot make us hold more than the bound: in one line, in many, or in a name.
    #[test]
    fn the_bound() {
        let fits = format!("data:{}\n\n", "x".repeat(BYTES_MAX - 5));
        assert_eq!(read(fits.as_bytes(), 7).unwrap().len(), 1);
        for stream in [
            format!("data:{}", "x".repeat(BYTES_MAX)),
            "data:xxxxxxxx\n".repeat(10),
            format!(":{}", " ".repeat(BYTES_MAX)),
            format!("event:{}\ndata:{}\n", "e".repeat(40), "x".repeat(40)),
        ] {
            for chunk in [1, 7, stream.len()] {
                let error = read(stream.as_bytes(), chunk).unwrap_err();
                assert_eq!(error, SseError::TooLarge(BYTES_MAX), "{stream}");
            }
        }
    }

    /// What is not text is refused, not mended.
    #[test]
    fn not_utf8() {
        assert_eq!(read(b"data: \xff\n\n", 3).unwrap_err(), SseError::NotUtf8);
    }
}
