//! What a key can be set to: what somebody wrote, and what that means.

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use indelible_journal::Micros;

/// What somebody wrote, before anybody has looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A text. Paths need not be UTF-8.
    Text(OsString),
    Switch(bool),
    List(Vec<String>),
    /// Something of the file that no key takes, by what it is: `an integer`.
    Other(&'static str),
}

/// What the value of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Address,
    Path,
    Switch,
    Names,
    Text,
    Algorithm,
    Window,
}

/// What a key is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Address(SocketAddr),
    Path(PathBuf),
    Switch(bool),
    Names(Vec<String>),
    Text(String),
    Algorithm(Algorithm),
    Window(Window),
}

/// How session tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    Hs256,
    Es256,
    Eddsa,
    Rs256,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Hs256, Self::Es256, Self::Eddsa, Self::Rs256];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "hs256",
            Self::Es256 => "es256",
            Self::Eddsa => "eddsa",
            Self::Rs256 => "rs256",
        }
    }
}

/// How long something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    Forever,
    For(Micros),
}

/// The units of a window, the longest first.
const UNITS: [(char, u64); 5] =
    [('w', 7 * 24 * 3600), ('d', 24 * 3600), ('h', 3600), ('m', 60), ('s', 1)];

/// The word for a window without an end.
const FOREVER: &str = "forever";

impl Window {
    /// None for ever.
    pub(crate) fn micros(self) -> Option<Micros> {
        match self {
            Self::Forever => None,
            Self::For(window) => Some(window),
        }
    }

    fn read(text: &str) -> Result<Self, Wrong> {
        if text == FOREVER {
            return Ok(Self::Forever);
        }
        let unit = text.chars().next_back().unwrap_or_default();
        let seconds = UNITS.iter().find(|(name, _)| *name == unit).and_then(|(_, seconds)| {
            let number = text.strip_suffix(unit)?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let number: u64 = digits.then(|| number.parse().ok())??;
            number.checked_mul(*seconds)
        });
        let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
        match micros {
            Some(0) => Err(wrong(
                format!("{text:?} would keep nothing"),
                "what is over has to be there for whoever asks how it ended: 1s is the shortest",
            )),
            Some(micros) => Ok(Self::For(Micros::new(micros))),
            None => Err(wrong(
                format!("{text:?} is no duration"),
                "a number and a unit, as 45s, 90m, 12h, 30d or 8w; or forever",
            )),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str(FOREVER),
            Self::For(window) => {
                let seconds = window.get() / 1_000_000;
                let exact = UNITS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
                let (name, unit) = exact.expect("every number is one of seconds");
                write!(f, "{}{name}", seconds / unit)
            }
        }
    }
}

/// What is wrong with a value, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) hint: String,
}

fn wrong(what: impl Into<String>, hint: impl Into<String>) -> Wrong {
    Wrong { what: what.into(), hint: hint.into() }
}

impl Kind {
    /// What a value means.
    pub(super) fn read(self, raw: Raw) -> Result<Value, Wrong> {
        match (self, raw) {
            (Self::Switch, Raw::Switch(on)) => Ok(Value::Switch(on)),
            (Self::Names, Raw::List(names)) => self.names(names),
            (Self::Path, Raw::Text(path)) if path.is_empty() => {
                Err(wrong("the path is empty", self.hint()))
            }
            (Self::Path, Raw::Text(path)) => Ok(Value::Path(path.into())),
            (_, Raw::Text(text)) => match text.into_string() {
                Ok(text) => self.read_text(text),
                Err(text) => Err(wrong(format!("{text:?} is not UTF-8"), self.hint())),
            },
            (_, Raw::Switch(on)) => Err(wrong(format!("{on} is no {}", self.noun()), self.hint())),
            (_, Raw::List(_)) => Err(wrong(format!("a list is no {}", self.noun()), self.hint())),
            (_, Raw::Other(what)) => {
                Err(wrong(format!("{what} is no {}", self.noun()), self.hint()))
            }
        }
    }

    fn read_text(self, text: String) -> Result<Value, Wrong> {
        let no = |kind: Self| wrong(format!("{text:?} is no {}", kind.noun()), kind.hint());
        match self {
            Self::Address => text.parse().map(Value::Address).map_err(|_| no(self)),
            Self::Switch => match text.as_str() {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err(no(self)),
            },
            // As the environment has it.
            Self::Names => self.names(text.split(',').map(|name| name.trim().to_owned()).collect()),
            Self::Algorithm => {
                let found = Algorithm::ALL.into_iter().find(|known| known.name() == text);
                found.map(Value::Algorithm).ok_or_else(|| no(self))
            }
            Self::Window => Window::read(&text).map(Value::Window),
            Self::Text if text.is_empty() => Err(wrong("the text is empty", self.hint())),
            Self::Text => Ok(Value::Text(text)),
            Self::Path => Ok(Value::Path(text.into())),
        }
    }

    fn names(self, names: Vec<String>) -> Result<Value, Wrong> {
        if names.iter().any(String::is_empty) {
            return Err(wrong("a name is empty", self.hint()));
        }
        Ok(Value::Names(names))
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Path => "path",
            Self::Switch => "switch",
            Self::Names => "list of names",
            Self::Text => "text",
            Self::Algorithm => "algorithm",
            Self::Window => "duration",
        }
    }

    const fn hint(self) -> &'static str {
        match self {
            Self::Address => "an IP address and a port, as 127.0.0.1:7070 or [::1]:7070",
            Self::Path => "the path of a file or folder",
            Self::Switch => "true or false",
            Self::Names => {
                "in the file [\"a.example.com\", \"b.example.com\"], in the environment \
                 a.example.com,b.example.com"
            }
            Self::Text => "a text in quotes",
            Self::Algorithm => "one of hs256, es256, eddsa, rs256",
            Self::Window => {
                "a number and a unit, as \"45s\", \"90m\", \"12h\", \"30d\" or \"8w\"; or \"forever\""
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, text: &str) -> Result<Value, Wrong> {
        kind.read(Raw::Text(text.into()))
    }

    /// Windows read, print in their largest unit, and read back as the same.
    #[test]
    fn windows_read_and_print() {
        for (written, seconds, printed) in [
            ("1s", 1, "1s"),
            ("90s", 90, "90s"),
            ("120s", 120, "2m"),
            ("36h", 36 * 3600, "36h"),
            ("30d", 30 * 86_400, "30d"),
            ("14d", 14 * 86_400, "2w"),
            ("007d", 7 * 86_400, "1w"),
        ] {
            let window = Window::read(written).unwrap();
            assert_eq!(window, Window::For(Micros::from_secs(seconds)), "{written}");
            assert_eq!(window.to_string(), printed);
            assert_eq!(Window::read(printed).unwrap(), window);
        }
        assert_eq!(Window::read("forever").unwrap().to_string(), "forever");
        for none in
            ["", "d", "30", "30 d", "30 parsecs", "-1d", "+1d", "1.5h", "1d12h", "30D", "Forever"]
        {
            let wrong = Window::read(none).unwrap_err();
            assert!(wrong.what.ends_with("is no duration"), "{}", wrong.what);
        }
        assert!(Window::read("0d").unwrap_err().what.contains("nothing"));
        assert!(Window::read("99999999999999999999d").is_err());
        assert!(Window::read("300000000000w").is_err(), "it does not fit");
    }

    /// What is of the wrong type or makes no sense is told by what it is, with what to write.
    #[test]
    fn what_is_wrong_is_told() {
        let said = |result: Result<Value, Wrong>| {
            let wrong = result.unwrap_err();
            assert!(!wrong.hint.is_empty());
            wrong.what
        };
        assert_eq!(said(text(Kind::Address, "localhost:80")), "\"localhost:80\" is no address");
        assert_eq!(said(text(Kind::Switch, "yes")), "\"yes\" is no switch");
        assert_eq!(said(text(Kind::Names, "a,,b")), "a name is empty");
        assert_eq!(said(text(Kind::Algorithm, "none")), "\"none\" is no algorithm");
        assert_eq!(said(text(Kind::Path, "")), "the path is empty");
        assert_eq!(said(Kind::Window.read(Raw::Other("an integer"))), "an integer is no duration");
        assert_eq!(said(Kind::Path.read(Raw::Switch(true))), "true is no path");
        assert_eq!(said(Kind::Text.read(Raw::List(vec![]))), "a list is no text");
        let names = text(Kind::Names, "a, b").unwrap();
        assert_eq!(names, Value::Names(vec!["a".to_owned(), "b".to_owned()]));
    }
}
