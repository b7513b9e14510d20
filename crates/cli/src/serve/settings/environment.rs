//! What the environment says. It is given: nothing here looks at the process.

use std::ffi::{OsStr, OsString};

use super::keys::Key;
use super::layers::Layer;
use super::value::Raw;
use crate::nearest::nearest;

/// Names the file.
pub(super) const CONFIG: &str = "INDELIBLE_CONFIG";

/// What all of them begin with.
const PREFIX: &str = "INDELIBLE_";

/// Those of commands that speak to a server.
const OF_CLIENTS: [&str; 4] =
    ["INDELIBLE_URL", "INDELIBLE_TOKEN", "INDELIBLE_CONTEXT", "INDELIBLE_NAMESPACE"];

/// What the environment says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Which file.
    pub(super) config: Option<OsString>,
    pub(super) layer: Layer,
    /// Names that are unknown, and near to one that is not.
    pub(super) warnings: Vec<String>,
}

/// Reads variables. An empty one says nothing, as if it were not there.
pub(super) fn read<'a>(variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        if value.is_empty() {
            continue;
        }
        if name == CONFIG {
            environment.config = Some(value.to_owned());
        } else if let Some(key) = Key::ALL.into_iter().find(|key| key.variable() == name) {
            environment.layer.push((key, Raw::Text(value.to_owned())));
        } else if !OF_CLIENTS.contains(&name) {
            environment.warnings.extend(warning(name));
        }
    }
    environment
}

/// Only of what is nearly right: others may use the prefix as they like.
fn warning(name: &str) -> Option<String> {
    let known = Key::ALL.map(Key::variable).into_iter().chain([CONFIG]);
    let known = known.filter_map(|name| name.strip_prefix(PREFIX));
    let meant = nearest(name.strip_prefix(PREFIX)?, known)?;
    Some(format!("{name} is set, and means nothing; did you mean {PREFIX}{meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        read(variables.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value))))
    }

    /// What is known is taken, what is empty or somebody else's is not looked at.
    #[test]
    fn variables_are_read() {
        let environment = of(&[
            ("INDELIBLE_LISTEN", "127.0.0.1:1"),
            ("INDELIBLE_DATA", ""),
            ("INDELIBLE_CONFIG", "a.toml"),
            ("PATH", "/bin"),
            ("LISTEN", "x"),
        ]);
        assert_eq!(environment.layer, [(Key::Listen, Raw::Text("127.0.0.1:1".into()))]);
        assert_eq!(environment.config.as_deref(), Some(OsStr::new("a.toml")));
        assert!(environment.warnings.is_empty(), "{:?}", environment.warnings);
    }

    /// A name that is nearly right is told, with what may be meant; names of clients, of tests and of
    /// others are no mistakes.
    #[test]
    fn names_that_are_nearly_right_are_told() {
        let warnings = |name: &str| of(&[(name, "x")]).warnings;
        assert_eq!(
            warnings("INDELIBLE_LISTN"),
            ["INDELIBLE_LISTN is set, and means nothing; did you mean INDELIBLE_LISTEN?"]
        );
        for (name, meant) in [
            ("INDELIBLE_HOSTNAMES", "INDELIBLE_HOST_NAMES"),
            ("INDELIBLE_HOST_NAME", "INDELIBLE_HOST_NAMES"),
            ("INDELIBLE_TLS_CERTS", "INDELIBLE_TLS_CERT"),
            ("INDELIBLE_RETENTION_COMPLETE", "INDELIBLE_RETENTION_COMPLETED"),
            ("INDELIBLE_CONFG", "INDELIBLE_CONFIG"),
            ("INDELIBLE_DATTA", "INDELIBLE_DATA"),
        ] {
            assert!(warnings(name)[0].contains(meant), "{name}: {:?}", warnings(name));
        }
        for name in [
            "INDELIBLE_URL",
            "INDELIBLE_TOKEN",
            "INDELIBLE_CONTEXT",
            "INDELIBLE_NAMESPACE",
            "INDELIBLE_SEED",
            "INDELIBLE_SEEDS",
            "INDELIBLE_REWRITE",
            "INDELIBLE_CRASH_CYCLES",
            "INDELIBLE_FLIPS",
            "INDELIBLE_TEST_TOKEN",
            "INDELIBLE_",
            "INDELIBLE_BACKUP_BUCKET",
        ] {
            assert_eq!(warnings(name), [""; 0], "{name}");
        }
    }
}
