//! The effective configuration, for people and for programs: as an equivalent file, and as JSON.
//! For a secret, only its place is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, absolute};

use indelible_http_client::SecretSource;
use serde_json::json;
use toml::Value as Toml;
use toml_writer::{ToTomlKey as _, ToTomlValue as _, TomlKeyBuilder, TomlStringBuilder};

use super::Settings;
use super::keys::KEYS;
use super::value::Value;

/// A line of the file: its tables and its key, the value unless it is not set, and the value's
/// source.
type Line<'a> = (Vec<&'a str>, Option<Toml>, String);

/// Paths are absolute, so that they mean the same elsewhere.
fn lines(settings: &Settings) -> Vec<Line<'_>> {
    let shown = |path: &Path| absolute(path).unwrap_or_else(|_| path.into()).display().to_string();
    let mut lines = Vec::new();
    for key in &KEYS {
        let given = settings.holds.get(key.name);
        let value = given.map(|given| match &given.value {
            Value::Text(path) => shown(Path::new(path)).into(),
            Value::Toml(value) => value.clone(),
        });
        let source = given.map(|given| given.source.clone()).unwrap_or_default();
        lines.push((key.name.split('.').collect(), value, source));
    }
    let mut add = |path: Vec<_>, value: Toml| {
        lines.push((path, Some(value), settings.file.clone().unwrap_or_default()));
    };
    let deliveries = &settings.reach.deliveries;
    add(vec!["deliveries", "networks"], deliveries.networks.clone().into());
    add(vec!["deliveries", "plain_http"], deliveries.plain_http.into());
    for (name, component) in &settings.reach.components {
        add(vec!["components", name, "hosts"], component.hosts.clone().into());
        add(vec!["components", name, "networks"], component.networks.clone().into());
        add(vec!["components", name, "secrets"], component.secrets.clone().into());
        add(vec!["components", name, "plain_http"], component.plain_http.into());
    }
    for (name, source) in &settings.reach.secrets {
        let place = match source {
            SecretSource::Environment(variable) => format!("env:{variable}"),
            SecretSource::File(path) => format!("file:{}", shown(path)),
            // No file can set this, and the value is not shown.
            SecretSource::Value(_) => "env:".to_owned(),
        };
        add(vec!["secrets", name], place.into());
    }
    lines
}

/// As TOML: an equivalent file, wherever it is saved.
pub(in crate::serve) fn toml(settings: &Settings) -> String {
    let (mut out, mut open) = (String::new(), Vec::new());
    for (mut path, value, source) in lines(settings) {
        let name = path.pop().expect("a line has a name");
        if path != open {
            let table: Vec<_> = path.iter().map(|name| quoted(name)).collect();
            let _ = write!(out, "\n[{}]\n", table.join("."));
            open = path;
        }
        // A control character in the source could end the comment.
        let source = source.replace(char::is_control, "?");
        let _ = match value {
            None => writeln!(out, "# {name} is not set"),
            Some(value) => writeln!(out, "{} = {} # {source}", quoted(name), written(&value)),
        };
    }
    out
}

/// As JSON: the values as in the file, and the source of each.
pub(in crate::serve) fn json(settings: &Settings) -> String {
    let mut config = json!({ "components": {}, "secrets": {} });
    for (path, value, _) in lines(settings) {
        *path.iter().fold(&mut config, |table, name| &mut table[name]) = json!(value);
    }
    let sources = settings.holds.iter().map(|(name, given)| (*name, &given.source));
    let sources = sources.collect::<BTreeMap<_, _>>();
    let all = json!({ "v": 1, "file": settings.file, "config": config, "sources": sources });
    format!("{all:#}\n")
}

/// A value as TOML writes it on one line.
pub(super) fn written(value: &Toml) -> String {
    match value {
        Toml::String(text) => TomlStringBuilder::new(text).as_basic().to_toml_value(),
        Toml::Array(list) => {
            format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A name as TOML writes it in a key.
pub(super) fn quoted(name: &str) -> String {
    let key = TomlKeyBuilder::new(name);
    key.as_unquoted().unwrap_or_else(|| key.as_basic()).to_toml_key()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::settings::{Layer, settings};

    const FILE: &str = "\
data = \"da\\\"ta\\\\ \\u007f\\t\"
keys = true
host_names = [\"a.example.com\", \"b.example.com:7443\"]
traces = \"http://127.0.0.1:4318/v1/traces\"
[tls]
cert = \"chain.pem\"
key = \"/etc/key.pem\"
[sessions]
key = \"public.pem\"
algorithm = \"es256\"
audience = \"in # delible\"
[retention]
completed = \"720h\"
failed = \"90s\"
[components.shop]
hosts = [\"api.example.com\"]
secrets = [\"API_KEY\", \"a b\"]
[components.\"with space\"]
networks = [\"private\", \"10.0.0.0/8\"]
plain_http = true
[secrets]
API_KEY = \"env:SHOP_API_KEY\"
\"a b\" = \"file:run/other\"
";

    fn of(file: &str, name: &str) -> Settings {
        settings(Some((name.into(), file.to_owned())), Layer::new(), Layer::new()).unwrap()
    }

    fn values(settings: &Settings) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&json(settings)).unwrap()["config"].take()
    }

    /// The printed file, read from another folder, gives the same values and paths.
    #[test]
    fn what_is_printed_reads_back() {
        for file in [FILE, "", "[secrets]\nA = \"\"\n"] {
            let first = of(file, "/here/conf/indelible.toml");
            let printed = toml(&first);
            let second = of(&printed, "/elsewhere/printed.toml");
            assert_eq!(values(&second), values(&first), "{printed}");
            let again = toml(&second);
            let uncommented = |text: &str| {
                let line =
                    |line: &str| line.rsplit_once(" # ").map_or(line, |(own, _)| own).to_owned();
                text.lines().map(line).collect::<Vec<_>>()
            };
            assert_eq!(uncommented(&again), uncommented(&printed));
        }
    }

    /// Each value shows its source, and each secret its place.
    #[test]
    fn where_each_value_is_from() {
        let printed = toml(&of(FILE, "/here/conf/indelible.toml"));
        for line in [
            "listen = \"127.0.0.1:7070\" # default",
            "data = \"/here/conf/da\\\"ta\\\\ \\u007F\\t\" # /here/conf/indelible.toml",
            "cert = \"/here/conf/chain.pem\" # /here/conf/indelible.toml",
            "# issuer is not set",
            "completed = \"30d\" # /here/conf/indelible.toml",
            "cancelled = \"forever\" # default",
            "[components.\"with space\"]",
            "API_KEY = \"env:SHOP_API_KEY\" # /here/conf/indelible.toml",
            "\"a b\" = \"file:/here/conf/run/other\" # /here/conf/indelible.toml",
        ] {
            assert!(printed.lines().any(|own| own == line), "{line} is not in\n{printed}");
        }
    }

    /// A comment is one line, whatever the file is called.
    #[test]
    fn a_name_does_not_end_its_comment() {
        let printed = toml(&of("keys = true\n", "a\nb = 1"));
        assert!(printed.contains("keys = true # a?b = 1\n"), "{printed}");
    }
}
