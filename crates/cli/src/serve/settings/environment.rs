//! What the environment says. It is given: nothing here looks at the process.

use std::ffi::OsString;

use super::keys::{KEYS, PREFIX};
use super::layers::Layer;
use super::value::Value;
use crate::nearest::nearest;

/// Names the file.
pub(super) const CONFIG: &str = "INDELIBLE_CONFIG";

/// Variables of commands that speak to a server.
const OF_CLIENTS: [&str; 4] =
    ["INDELIBLE_URL", "INDELIBLE_TOKEN", "INDELIBLE_CONTEXT", "INDELIBLE_NAMESPACE"];

/// What variables say, and warnings of those that are nearly right. An empty one is as good as none.
pub(super) fn read(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Layer, Vec<String>) {
    let (mut layer, mut warnings) = (Layer::new(), Vec::new());
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|_| !value.is_empty()) else { continue };
        match KEYS.iter().find(|key| key.variable == name) {
            Some(key) => layer.push((key.name, Value::Text(value))),
            None => warnings.extend(warning(name)),
        }
    }
    (layer, warnings)
}

/// Only of a name that is nearly right: other programs may use the prefix as they like.
fn warning(name: &str) -> Option<String> {
    if name == CONFIG || OF_CLIENTS.contains(&name) {
        return None;
    }
    let known = KEYS.iter().map(|key| key.variable).chain([CONFIG]);
    let known = known.filter_map(|known| known.strip_prefix(PREFIX));
    let meant = nearest(name.strip_prefix(PREFIX)?, known)?;
    Some(format!("{name} is set, and means nothing; did you mean {PREFIX}{meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> (Layer, Vec<String>) {
        read(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    /// What is known is taken, what is empty or somebody else's is not looked at.
    #[test]
    fn variables_are_read() {
        let (layer, warnings) = of(&[
            ("INDELIBLE_LISTEN", "127.0.0.1:1"),
            ("INDELIBLE_DATA", ""),
            ("INDELIBLE_CONFIG", "a.toml"),
            ("PATH", "/bin"),
            ("LISTEN", "x"),
        ]);
        assert_eq!(layer, [("listen", Value::Text("127.0.0.1:1".into()))]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    /// A name that is nearly right is told, with what may be meant; names of clients, of tests and of
    /// others are no mistakes.
    #[test]
    fn names_that_are_nearly_right_are_told() {
        let warnings = |name: &str| of(&[(name, "x")]).1;
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
