//! What a function or a signal is given: JSON on the command line, in a file, or on stdin.
#![expect(clippy::disallowed_methods, reason = "it reads the file that was named")]

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::failure::{Exit, Failure};

/// The largest input of a function or a signal: what servers accept, unless the program that embeds
/// a server sets another bound. Checking here avoids an upload that the server would refuse.
const INPUT_BYTES_MAX: usize = 4 << 20;

/// Where the JSON comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Text(String),
    File(PathBuf),
    Stdin,
}

/// For clap. Parsing never fails: [`Input::read`] explains an error better than clap does.
impl FromStr for Input {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.strip_prefix('@') {
            Some(file) => Self::File(PathBuf::from(file)),
            None if text == "-" => Self::Stdin,
            None => Self::Text(text.to_owned()),
        })
    }
}

/// For a function that refuses an input which is no array.
pub(crate) const ARRAY_HINT: &str = "several arguments are one JSON array, as in '[\"card 1\", 500]'; \
     `indelible functions` shows what it takes; nothing was started";

impl Input {
    /// The JSON, as it was given; `more` is what followed it on the command line, which is a mistake.
    pub(crate) fn read_alone(&self, more: &[String]) -> Result<Box<RawValue>, Failure> {
        if more.is_empty() {
            return self.read();
        }
        let failure = Failure::new("the input is one JSON value, and several were given");
        let one = |text: &String| match serde_json::from_str::<&RawValue>(text) {
            Ok(json) => json.get().to_owned(),
            Err(_) => serde_json::Value::from(text.as_str()).to_string(),
        };
        let failure = match self {
            Self::Text(first) => {
                let all: Vec<String> = [first].into_iter().chain(more).map(one).collect();
                let all = all.join(", ");
                failure.hint(format!("several arguments are an array: '[{all}]'; nothing was sent"))
            }
            Self::File(_) | Self::Stdin => failure.hint("nothing was sent"),
        };
        Err(failure.exit(Exit::Usage))
    }

    /// The JSON, as it was given.
    pub(crate) fn read(&self) -> Result<Box<RawValue>, Failure> {
        let (what, bytes) = self.bytes()?;
        json(&what, bytes)
    }

    /// The bytes, as they were given, and where they came from.
    pub(crate) fn bytes(&self) -> Result<(String, Vec<u8>), Failure> {
        let unreadable = |what: &str, error: io::Error| {
            Failure::new(format!("cannot read {what}: {error}")).hint(
                "give JSON, @FILE for a file with JSON, or - for standard input; nothing was \
                     sent",
            )
        };
        Ok(match self {
            Self::Text(text) => ("the input".to_owned(), text.clone().into_bytes()),
            Self::File(path) => {
                let what = path.display().to_string();
                let read = File::open(path).and_then(bounded);
                (what.clone(), read.map_err(|error| unreadable(&what, error))?)
            }
            Self::Stdin => {
                let read = bounded(io::stdin().lock());
                let what = "standard input";
                (what.to_owned(), read.map_err(|error| unreadable(what, error))?)
            }
        })
    }
}

/// Reads one byte more than the bound at most, which is enough to see that the input is too large.
fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(INPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn json(what: &str, bytes: Vec<u8>) -> Result<Box<RawValue>, Failure> {
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(Failure::new(format!("{what} is larger than {} MiB", INPUT_BYTES_MAX >> 20))
            .hint("store large data elsewhere and pass its address; nothing was sent"));
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string());
    let value = text.and_then(|text| {
        // A line end at the end of a file is not part of the JSON.
        RawValue::from_string(text.trim().to_owned()).map_err(|error| error.to_string())
    });
    value.map_err(|why| {
        Failure::new(format!("{what} is not JSON: {why}"))
            .hint("quote it for the shell: '{\"id\": 1}', or '\"text\"'; nothing was sent")
            .exit(Exit::Usage)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is() {
        let parse = |text: &str| text.parse::<Input>().unwrap();
        assert_eq!(parse("-"), Input::Stdin);
        assert_eq!(parse("@a b.json"), Input::File("a b.json".into()));
        assert_eq!(parse("-1"), Input::Text("-1".to_owned()));
    }

    /// Who takes arguments for words is shown the array.
    #[test]
    fn words_are_refused() {
        let more = ["500".to_owned(), "a b".to_owned()];
        let refused = |input: &str, more: &[String]| {
            let read = input.parse::<Input>().unwrap().read_alone(more);
            read.map_err(|failure| failure.to_string()).map(|json| json.get().to_owned())
        };
        assert_eq!(refused("500", &[]).unwrap(), "500");
        assert!(refused("card", &more).unwrap_err().contains(r#"'["card", 500, "a b"]'"#));
        assert!(refused("@file", &more).unwrap_err().contains("several were given"));
    }

    #[test]
    fn json_is_passed_on_as_it_is() {
        let read = |text: &str| json("it", text.into()).map(|json| json.get().to_owned());
        assert_eq!(read(" {\"a\": 1.50} \n").unwrap(), "{\"a\": 1.50}");
        for (bad, code) in [("", 2), ("{", 2), ("id", 2), ("1 2", 2)] {
            assert_eq!(read(bad).unwrap_err().code(), code, "{bad:?}");
        }
        let large = format!("\"{}\"", "x".repeat(INPUT_BYTES_MAX));
        assert_eq!(read(&large).unwrap_err().code(), 1);
        assert!(read(&large[2..]).is_err());
        assert!(json("it", vec![b'"', 0xff, b'"']).is_err());
    }
}
