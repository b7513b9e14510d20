//! The settings in environment variables. Pure: the variables are passed in.

use std::ffi::OsString;

use super::keys::{KEYS, PREFIX};
use super::layers::Layer;
use super::value::Value;
use crate::nearest::nearest;

/// The variable that names the configuration file.
pub(super) const CONFIG: &str = "INDELIBLE_CONFIG";

/// Variables for the commands that talk to a server.
const OF_CLIENTS: [&str; 4] =
    ["INDELIBLE_URL", "INDELIBLE_TOKEN", "INDELIBLE_CONTEXT", "INDELIBLE_NAMESPACE"];

/// The settings in these variables, and warnings about misspelt names. Empty means not set.
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

/// Warns only if the name is nearly one of ours: other programs may use the prefix.
fn warning(name: &str) -> Option<String> {
    if name == CONFIG || OF_CLIENTS.contains(&name) {
        return None;
    }
    let known = KEYS.iter().map(|key| key.variable).chain([CONFIG]);
    let known = known.filter_map(|known| known.strip_prefix(PREFIX));
    let meant = nearest(name.strip_prefix(PREFIX)?, known)?;
    Some(format!("{name} is set but unknown; did you mean {PREFIX}{meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> (Layer, Vec<String>) {
        read(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())))
    }

    /// Known variables are read; empty ones and those of other programs are ignored.
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

    /// A misspelt name gives a warning with the right one; names of clients, of tests and of other
    /// programs give none.
    #[test]
    fn names_that_are_nearly_right_are_told() {
        let warnings = |name: &str| of(&[(name, "x")]).1;
        assert_eq!(
            warnings("INDELIBLE_LISTN"),
            ["INDELIBLE_LISTN is set but unknown; did you mean INDELIBLE_LISTEN?"]
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
