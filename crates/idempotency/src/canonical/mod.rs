//! One form for all texts of the same JSON value (I-7), which is what hashes are made of.
//!
//! - **Members** of an object are sorted by Unicode code point, at every level. (RFC 8785 sorts by
//!   UTF-16 units, which puts U+1F600 before U+FB33; code points do not.) A member twice is refused.
//! - **Arrays** keep their order. There is no white space.
//! - **Strings** are literal UTF-8, with only `"`, `\` and characters below U+0020 escaped: `\b`,
//!   `\t`, `\n`, `\f`, `\r`, or `\u00xx` in lower case. Unicode is not normalised: what looks the
//!   same and is not, stays different.
//! - **Numbers** are compared by their exact decimal value, with all their digits: `1`, `1.0` and
//!   `10e-1` are one number, and no two numbers are taken for one because a float cannot tell them
//!   apart. See [`number`].

mod number;

use std::mem;

use json_event_parser::{JsonEvent, LowLevelJsonParser, LowLevelJsonParserResult};

use crate::json::{Json, JsonError, Limits};

/// The canonical form, as UTF-8.
pub fn canonical_utf8(json: &Json) -> Vec<u8> {
    canonicalize(json.as_str(), &Limits::NONE).expect("it was checked when it was made")
}

/// The canonical form of a text, if it is JSON and within its limits.
pub fn canonicalize(text: &str, limits: &Limits) -> Result<Vec<u8>, JsonError> {
    if text.len() > limits.bytes_max {
        return Err(JsonError::TooLarge { bytes: text.len(), max: limits.bytes_max });
    }
    // The parser would drop a byte order mark, which RFC 8259 does not allow.
    if text.starts_with('\u{feff}') {
        return Err(JsonError::Syntax { offset: 0, why: "a byte order mark".to_owned() });
    }
    let mut parser = LowLevelJsonParser::new();
    let mut writer = Writer::new(text.len());
    let mut offset = 0;
    loop {
        let LowLevelJsonParserResult { event, consumed_bytes } =
            parser.parse_next(&text.as_bytes()[offset..], true);
        offset += consumed_bytes;
        match event {
            None => {}
            Some(Ok(JsonEvent::Eof)) => return Ok(writer.out),
            Some(Ok(event)) => writer.event(event, offset, limits)?,
            Some(Err(why)) => {
                let offset = why.location().start.offset;
                return Err(JsonError::Syntax { offset, why: why.message().to_owned() });
            }
        }
    }
}

/// What is open: an array, or an object with its members so far.
enum Frame {
    Array { empty: bool },
    Object { start: usize, members: Vec<Member> },
}

/// A member as it stands in the output, without a comma.
struct Member {
    name: String,
    start: usize,
    end: usize,
}

/// Writes values as they come, and puts an object in order when it ends.
struct Writer {
    out: Vec<u8>,
    frames: Vec<Frame>,
}

impl Writer {
    fn new(capacity: usize) -> Self {
        Self { out: Vec::with_capacity(capacity), frames: Vec::new() }
    }

    fn event(
        &mut self,
        event: JsonEvent<'_>,
        offset: usize,
        limits: &Limits,
    ) -> Result<(), JsonError> {
        match event {
            JsonEvent::ObjectKey(name) => self.member(name.into_owned()),
            JsonEvent::EndArray => {
                self.frames.pop();
                self.out.push(b']');
            }
            JsonEvent::EndObject => self.end_object(offset)?,
            JsonEvent::StartArray | JsonEvent::StartObject
                if self.frames.len() == limits.depth_max =>
            {
                return Err(JsonError::TooDeep { offset, max: limits.depth_max });
            }
            JsonEvent::StartArray => {
                self.before_value();
                self.out.push(b'[');
                self.frames.push(Frame::Array { empty: true });
            }
            JsonEvent::StartObject => {
                self.before_value();
                self.out.push(b'{');
                let start = self.out.len();
                self.frames.push(Frame::Object { start, members: Vec::new() });
            }
            JsonEvent::String(string) => {
                self.before_value();
                self.string(&string);
            }
            JsonEvent::Number(literal) => {
                self.before_value();
                number::write(&literal, &mut self.out)
                    .map_err(|number::ExponentOutOfRange| JsonError::Exponent { offset })?;
            }
            JsonEvent::Boolean(value) => {
                self.before_value();
                self.out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            JsonEvent::Null => {
                self.before_value();
                self.out.extend_from_slice(b"null");
            }
            JsonEvent::Eof => {}
        }
        Ok(())
    }

    /// A comma, where the value is not the first of an array.
    fn before_value(&mut self) {
        if let Some(Frame::Array { empty }) = self.frames.last_mut()
            && !mem::replace(empty, false)
        {
            self.out.push(b',');
        }
    }

    fn member(&mut self, name: String) {
        let Some(Frame::Object { members, .. }) = self.frames.last_mut() else {
            unreachable!("a name outside an object is no JSON");
        };
        if let Some(before) = members.last_mut() {
            before.end = self.out.len();
            self.out.push(b',');
        }
        let start = self.out.len();
        // The member's end is set when the next member, or the object's end, comes.
        members.push(Member { name: String::new(), start, end: start });
        self.string(&name);
        self.out.push(b':');
        let Some(Frame::Object { members, .. }) = self.frames.last_mut() else {
            unreachable!("the object is still open");
        };
        members.last_mut().expect("pushed above").name = name;
    }

    fn end_object(&mut self, offset: usize) -> Result<(), JsonError> {
        let Some(Frame::Object { start, mut members }) = self.frames.pop() else {
            unreachable!("an object that is not open does not end");
        };
        if let Some(last) = members.last_mut() {
            last.end = self.out.len();
        }
        // By code point: the order of UTF-8's bytes, which is how `String` compares.
        if !members.is_sorted_by(|one, other| one.name < other.name) {
            members.sort_by(|one, other| one.name.cmp(&other.name));
            if let Some(twice) = members.windows(2).find(|two| two[0].name == two[1].name) {
                let name = twice[0].name.clone();
                return Err(JsonError::DuplicateMember { name, offset });
            }
            let mut sorted = Vec::with_capacity(self.out.len() - start);
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    sorted.push(b',');
                }
                sorted.extend_from_slice(&self.out[member.start..member.end]);
            }
            self.out.truncate(start);
            self.out.append(&mut sorted);
        }
        self.out.push(b'}');
        Ok(())
    }

    fn string(&mut self, string: &str) {
        // Escapes exactly what the canonical form escapes.
        serde_json::to_writer(&mut self.out, string).expect("a string into memory");
    }
}

#[cfg(test)]
mod tests;
