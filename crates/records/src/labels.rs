//! Labels: what callers and functions call an execution, so that people find it (C-79). They are in
//! the row of their execution and, for roots, in an index; no event has them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::BufMut;

use crate::codec::{Malformed, Reader, put_text};

/// The most labels that an execution has, those of its start and its function's own together: each
/// is an entry of an index.
pub const LABELS_MAX: usize = 16;
/// The longest name.
pub const LABEL_NAME_BYTES_MAX: usize = 64;
/// The longest value. Name and value are in the key of an index.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;

/// A name and a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    name: Arc<str>,
    value: Arc<str>,
}

/// Why something is not a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The text has no `=`.
    #[error("a label is NAME=VALUE, such as order=123")]
    NoValue,
    /// The name is empty, too long, or has another character.
    #[error(
        "the name of a label has 1 to {LABEL_NAME_BYTES_MAX} of the characters a-z, A-Z, 0-9, '.', \
         '_' and '-'"
    )]
    Name,
    /// The value is too long.
    #[error("the value of a label has at most {LABEL_VALUE_BYTES_MAX} bytes")]
    LongValue,
    /// The value has a control character.
    #[error("the value of a label has no control characters")]
    Control,
}

/// An execution would have more than [`LABELS_MAX`] labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an execution has at most {LABELS_MAX} labels")]
pub struct TooManyLabels;

/// Why texts are not the labels of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelsError {
    /// One of them is not a label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] TooManyLabels),
    /// A name is there twice.
    #[error("a label is given twice")]
    Twice,
}

impl Label {
    /// Checks both parts.
    pub fn new(name: &str, value: &str) -> Result<Self, LabelError> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !(1..=LABEL_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(LabelError::Name);
        }
        if value.len() > LABEL_VALUE_BYTES_MAX {
            return Err(LabelError::LongValue);
        }
        if value.chars().any(char::is_control) {
            return Err(LabelError::Control);
        }
        Ok(Self { name: name.into(), value: value.into() })
    }

    /// The name. It has no zero byte.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value. It has no zero byte.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for Label {
    type Err = LabelError;

    /// `NAME=VALUE`; the value may have further `=`.
    fn from_str(text: &str) -> Result<Self, LabelError> {
        let (name, value) = text.split_once('=').ok_or(LabelError::NoValue)?;
        Self::new(name, value)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Label({self})")
    }
}

/// The labels of an execution, by name. Clones share them: every commit of an execution has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Arc<[Label]>);

impl Labels {
    /// Those of a start, each name once.
    pub fn of_start(labels: impl IntoIterator<Item = Label>) -> Result<Self, LabelsError> {
        let mut all = Self::default();
        for label in labels {
            if all.get(label.name()).is_some() {
                return Err(LabelsError::Twice);
            }
            all.set(label)?;
        }
        Ok(all)
    }

    /// Adds a label, or gives the one of this name another value. False: it was there already.
    pub fn set(&mut self, label: Label) -> Result<bool, TooManyLabels> {
        let mut all = self.0.to_vec();
        match self.0.binary_search_by(|known| known.name.cmp(&label.name)) {
            Ok(at) if self.0[at] == label => return Ok(false),
            Ok(at) => all[at] = label,
            Err(_) if all.len() == LABELS_MAX => return Err(TooManyLabels),
            Err(at) => all.insert(at, label),
        }
        self.0 = all.into();
        Ok(true)
    }

    /// The value of the label with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|label| label.name() == name).map(Label::value)
    }

    /// Whether this very label is there.
    pub fn has(&self, label: &Label) -> bool {
        self.0.binary_search(label).is_ok()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Label> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes their names and values have.
    pub fn bytes(&self) -> usize {
        self.iter().map(|label| label.name.len() + label.value.len()).sum()
    }

    /// Their number (1), then name and value of each, by name.
    pub(crate) fn put(&self, out: &mut impl BufMut) {
        out.put_u8(u8::try_from(self.0.len()).expect("there are few labels"));
        for label in self.iter() {
            put_text(out, label.name());
            put_text(out, label.value());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = reader.u8()?;
        let label = |_| {
            let (name, value) = (reader.text()?, reader.text()?);
            Label::new(name, value).map_err(|_| Malformed("a label is invalid"))
        };
        let all: Arc<[Label]> = (0..count).map(label).collect::<Result<_, _>>()?;
        let rises = all.windows(2).all(|pair| pair[0].name < pair[1].name);
        if !rises || all.len() > LABELS_MAX {
            return Err(Malformed("its labels are out of order, or too many"));
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        text.parse().unwrap()
    }

    /// Names are plain and short; values are one line of any text, and may be empty.
    #[test]
    fn what_a_label_may_be() {
        let (name, value) = ("n".repeat(LABEL_NAME_BYTES_MAX), "v".repeat(LABEL_VALUE_BYTES_MAX));
        for good in ["order=123", "a.B_c-9=", "x=a=b", "size=größe ✓"] {
            assert_eq!(label(good).to_string(), good);
        }
        assert!(Label::new(&name, &value).is_ok());
        for (bad, why) in [
            ("order", LabelError::NoValue),
            ("=123", LabelError::Name),
            ("größe=1", LabelError::Name),
            ("a b=1", LabelError::Name),
            ("a\0=1", LabelError::Name),
            ("a=1\0", LabelError::Control),
            ("a=1\n2", LabelError::Control),
            ("a=\u{85}", LabelError::Control),
        ] {
            assert_eq!(bad.parse::<Label>(), Err(why), "{bad:?}");
        }
        assert_eq!(Label::new(&format!("{name}n"), ""), Err(LabelError::Name));
        assert_eq!(Label::new("n", &format!("{value}v")), Err(LabelError::LongValue));
    }

    /// C-79: the last value of a name counts, and there are at most so many names.
    #[test]
    fn the_last_value_counts() {
        let mut labels = Labels::of_start([label("b=1"), label("a=1")]).unwrap();
        assert_eq!(labels.set(label("b=1")), Ok(false));
        assert_eq!(labels.set(label("b=2")), Ok(true));
        assert_eq!(labels.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert!(labels.has(&label("b=2")) && !labels.has(&label("b=1")));
        let twice = Labels::of_start([label("a=1"), label("a=1")]);
        assert_eq!(twice, Err(LabelsError::Twice));
        for number in 2..LABELS_MAX {
            assert_eq!(labels.set(label(&format!("n{number}=x"))), Ok(true));
        }
        assert_eq!(labels.set(label("more=x")), Err(TooManyLabels));
        assert_eq!(labels.set(label("a=still")), Ok(true));
        assert_eq!(labels.get("a"), Some("still"));
    }

    /// The stored form, byte by byte; anything else is refused.
    #[test]
    fn the_stored_form() {
        let labels = Labels::of_start([label("b=2"), label("a=")]).unwrap();
        let bytes = b"\x02\0\x01a\0\0\0\x01b\0\x012";
        let mut out = Vec::new();
        labels.put(&mut out);
        assert_eq!(out, bytes);
        assert_eq!(Labels::read(&mut Reader(bytes)), Ok(labels));
        for cut in 0..bytes.len() {
            assert!(Labels::read(&mut Reader(&bytes[..cut])).is_err(), "{cut}");
        }
        for bad in
            [&b"\x02\0\x01b\0\0\0\x01a\0\0"[..], b"\x02\0\x01a\0\0\0\x01a\0\0", b"\x01\0\0\0\0"]
        {
            assert!(Labels::read(&mut Reader(bad)).is_err(), "{bad:?}");
        }
    }
}
