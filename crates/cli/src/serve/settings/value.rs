//! The kinds of values that a key can have, and how each is read. A value stays TOML in its normal
//! form; the settings deserialize it when a key is read.

use std::ffi::OsString;
use std::net::SocketAddr;

use indelible_journal::Micros;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Value as Toml;

use super::print::written;
use crate::log::{Filter, Format};

/// A value: as it was written, or after [`Kind::read`] in its normal form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Written in the environment or by a flag; in normal form a path, which need not be UTF-8.
    Text(OsString),
    /// Written in the file; in normal form everything but paths.
    Toml(Toml),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Address,
    Path,
    Switch,
    Names,
    Text,
    Algorithm,
    Window,
    Filter,
    Format,
}

impl Kind {
    /// The normal form of a value, or what was written if it is not of this kind.
    pub(super) fn read(self, value: Value) -> Result<Value, String> {
        let toml = match (self, value) {
            (Self::Path, Value::Text(path)) if !path.is_empty() => return Ok(Value::Text(path)),
            (_, Value::Toml(toml)) => toml,
            (_, Value::Text(text)) => {
                self.text_as_toml(text.into_string().map_err(|text| format!("{text:?}"))?)
            }
        };
        let is_full = |toml: &Toml| toml.as_str() != Some("");
        let full = toml.as_array().map_or(is_full(&toml), |list| list.iter().all(is_full));
        let normal = match self {
            Self::Path => None,
            Self::Address => normal::<SocketAddr>(&toml),
            Self::Switch => normal::<bool>(&toml),
            Self::Names => normal::<Vec<String>>(&toml),
            Self::Text => normal::<String>(&toml),
            Self::Algorithm => normal::<Algorithm>(&toml),
            Self::Window => normal::<Window>(&toml),
            Self::Filter => normal::<Filter>(&toml),
            Self::Format => normal::<Format>(&toml),
        };
        normal.filter(|_| full).map(Value::Toml).ok_or_else(|| written(&toml))
    }

    /// The TOML that the file would have: the environment and flags have no switches and no lists.
    fn text_as_toml(self, text: String) -> Toml {
        match self {
            Self::Switch => text.parse().map_or(Toml::String(text), Toml::Boolean),
            Self::Names if text.is_empty() => Toml::Array(Vec::new()),
            Self::Names => text.split(',').map(str::trim).collect::<Vec<_>>().into(),
            _ => Toml::String(text),
        }
    }

    /// The noun for such a value, and what to write.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => {
                ("address", "an IP address and a port, as 127.0.0.1:7070 or [::1]:7070")
            }
            Self::Path => ("path", "the path of a file or folder; in the file in quotes"),
            Self::Switch => ("switch", "true or false, without quotes"),
            Self::Names => ("list of names", "in the file [\"a\", \"b\"], in the environment a,b"),
            Self::Text => ("text", "a text, in the file in quotes"),
            Self::Algorithm => ("algorithm", "one of hs256, es256, eddsa, rs256"),
            Self::Window => (
                "duration",
                "a number and a unit, as 45s, 90m, 12h, 30d or 8w; or forever; 1s is the \
                 shortest; in the file in quotes",
            ),
            Self::Filter => (
                "log filter",
                "off, error, warn, info, debug or trace, and the same for targets, as \
                 info,indelible_store=debug",
            ),
            Self::Format => ("log format", "one of text, json"),
        }
    }
}

fn normal<T: DeserializeOwned + Serialize>(toml: &Toml) -> Option<Toml> {
    Toml::try_from(toml.clone().try_into::<T>().ok()?).ok()
}

/// How session tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    Hs256,
    Es256,
    Eddsa,
    Rs256,
}

/// How long something is kept; `None`: forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Window(pub(super) Option<Micros>);

const FOREVER: &str = "forever";

/// The units of a window in seconds, the longest first.
const UNITS: [(char, u64); 5] =
    [('w', 7 * 24 * 3600), ('d', 24 * 3600), ('h', 3600), ('m', 60), ('s', 1)];

impl TryFrom<String> for Window {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text == FOREVER {
            return Ok(Self(None));
        }
        let micros = UNITS.iter().find_map(|(unit, seconds)| {
            // `parse` would take a sign.
            let number = text.strip_suffix(*unit).filter(|number| !number.starts_with('+'))?;
            number.parse::<u64>().ok()?.checked_mul(*seconds)?.checked_mul(1_000_000)
        });
        // Zero is refused: callers must be able to ask for a while how an execution ended.
        let micros = micros.filter(|micros| *micros > 0).ok_or("it is not a duration")?;
        Ok(Self(Some(Micros::new(micros))))
    }
}

/// Uses the largest unit that is exact.
impl From<Window> for String {
    fn from(window: Window) -> Self {
        let Some(micros) = window.0 else { return FOREVER.to_owned() };
        let seconds = micros.get() / 1_000_000;
        let exact = UNITS.iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
        let (name, unit) = exact.expect("every number is one of seconds");
        format!("{}{name}", seconds / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> Result<Window, &'static str> {
        text.to_owned().try_into()
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
            let read = window(written).unwrap();
            assert_eq!(read, Window(Some(Micros::from_secs(seconds))), "{written}");
            assert_eq!(String::from(read), printed);
            assert_eq!(window(printed).unwrap(), read);
        }
        assert_eq!(window("forever").unwrap(), Window(None));
        assert_eq!(String::from(Window(None)), "forever");
        for none in
            ["", "d", "30", "30 d", "30 parsecs", "-1d", "+1d", "1.5h", "1d12h", "30D", "Forever"]
        {
            assert!(window(none).is_err(), "{none}");
        }
        assert!(window("0d").is_err(), "it would keep nothing");
        assert!(window("99999999999999999999d").is_err());
        assert!(window("300000000000w").is_err(), "it does not fit");
    }

    /// A value that is not of its kind is reported as it was written; texts of the environment are
    /// read as the file would have them.
    #[test]
    fn values_are_of_their_kind() {
        let text = |kind: Kind, text: &str| kind.read(Value::Text(text.into()));
        let toml = |kind: Kind, toml: Toml| kind.read(Value::Toml(toml));
        let no = |written: &str| Err(written.to_owned());
        assert_eq!(text(Kind::Address, "localhost:80"), no("\"localhost:80\""));
        assert_eq!(text(Kind::Address, "a\nb"), no("\"a\\nb\""));
        assert_eq!(text(Kind::Switch, "yes"), no("\"yes\""));
        assert_eq!(toml(Kind::Switch, "true".into()), no("\"true\""));
        assert_eq!(text(Kind::Names, "a,,b"), no("[\"a\", \"\", \"b\"]"));
        assert_eq!(toml(Kind::Names, "a".into()), no("\"a\""));
        assert_eq!(toml(Kind::Names, vec![1].into()), no("[1]"));
        assert_eq!(text(Kind::Algorithm, "none"), no("\"none\""));
        assert_eq!(text(Kind::Filter, "inof"), no("\"inof\""));
        assert_eq!(text(Kind::Format, "xml"), no("\"xml\""));
        assert_eq!(text(Kind::Path, ""), no("\"\""));
        assert_eq!(text(Kind::Text, ""), no("\"\""));
        assert_eq!(toml(Kind::Window, 7.into()), no("7"));
        assert_eq!(toml(Kind::Path, true.into()), no("true"));
        assert_eq!(toml(Kind::Text, Toml::Array(Vec::new())), no("[]"));
        assert_eq!(text(Kind::Names, "a, b"), Ok(Value::Toml(vec!["a", "b"].into())));
        assert_eq!(text(Kind::Switch, "true"), Ok(Value::Toml(true.into())));
        assert_eq!(text(Kind::Window, "720h"), Ok(Value::Toml("30d".into())));
        let address = Value::Toml("[::1]:80".into());
        assert_eq!(text(Kind::Address, "[0:0::1]:80"), Ok(address));
    }
}
