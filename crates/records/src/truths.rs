//! Versions of what is true of the whole server: the names of components, and the API keys (D13).
//! Each process has all of both in memory, at one version. A commit that changes one raises its
//! version and expects the version that its writer has read: of two writers that do not know of
//! each other, the store refuses one, which reads again. A process that learns of a higher version
//! reads again, too.
//!
//! ```text
//! setting `changes/KIND`:   {"version":1,"count":…}
//! ```

use bytes::Bytes;
use indelible_store::{Batch, Expect, Read, ReadError, SubmitError};
use serde::{Deserialize, Serialize};

use super::{SETTINGS, codec, settings};

pub(crate) const PREFIX: &str = "changes/";

/// What a version is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// The names of components, and their versions.
    Components,
    /// The API keys.
    Tokens,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u8,
    count: u64,
}

impl Truth {
    fn setting(self) -> &'static str {
        match self {
            Self::Components => "changes/components",
            Self::Tokens => "changes/tokens",
        }
    }

    /// Its version: how many times it has changed.
    pub fn version(self, read: &impl Read) -> Result<u64, ReadError> {
        let seen = settings::read(read, self.setting(), |body| decode(self.setting(), body))?;
        Ok(seen.value.unwrap_or(0))
    }

    /// Adds to a batch: it changes from this version. Returns the next version.
    pub fn raise(self, batch: &mut Batch, version: u64) -> u64 {
        let expected = match version {
            0 => Expect::Absent,
            count => Expect::Equal(settings::sealed(self.setting(), &encode(count))),
        };
        batch.expect(SETTINGS, self.setting(), expected);
        settings::put(batch, self.setting(), &encode(version + 1));
        version + 1
    }

    /// Whether the store refused a batch because it has changed since it was read.
    pub fn is_behind(self, error: &SubmitError) -> bool {
        let key = Bytes::from_static(self.setting().as_bytes());
        matches!(error, SubmitError::Refused(refusal) if refusal.condition.key == key)
    }
}

fn encode(count: u64) -> Vec<u8> {
    codec::write_json(&Stored { version: codec::JSON_VERSION, count })
}

pub(crate) fn decode(name: &str, body: &[u8]) -> Result<u64, String> {
    if ![Truth::Components, Truth::Tokens].iter().any(|truth| truth.setting() == name) {
        return Err("its version is unknown".to_owned());
    }
    Ok(codec::read_json::<Stored>(body)?.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form must still be readable. Anything else is refused.
    #[test]
    fn the_stored_form() {
        let text = r#"{"version":1,"count":7}"#;
        assert_eq!((encode(7), decode("changes/tokens", text.as_bytes())), (text.into(), Ok(7)));
        for (name, from, to) in [
            ("tokens", "n\":1", "n\":2"),
            ("tokens", "7", "-7"),
            ("components", "count", "counts"),
            ("others", "7", "7"),
        ] {
            let body = text.replacen(from, to, 1);
            assert!(decode(&format!("{PREFIX}{name}"), body.as_bytes()).is_err(), "{name} {body}");
        }
    }
}
