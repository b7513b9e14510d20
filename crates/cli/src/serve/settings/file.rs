//! The settings in a file. Pure: the text is passed in. Paths are relative to the file's folder.

use std::collections::BTreeMap;
use std::path::Path;

use indelible_http_client::SecretSource;
use serde::Deserialize;
use toml::{Table, Value as Toml};

use super::keys::{KEYS, TABLES};
use super::layers::{Layer, Problem};
use super::print::quoted;
use super::reach::{Component, Deliveries, Reach};
use super::value::{Kind, Value};
use crate::nearest::nearest;
use crate::run::egress::secret_source;

/// The file: two tables with free keys, and the rest, whose keys are checked one by one so that all
/// mistakes are reported at once.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    components: BTreeMap<String, Component>,
    #[serde(default)]
    deliveries: Deliveries,
    #[serde(default)]
    secrets: Table,
    #[serde(flatten)]
    keys: Table,
}

/// Takes a wrong key, the mistake, and a hint.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&str, &str, &str);

const ALL_KEYS: &str = "docs/guides/configuration.md lists all keys; --print-config shows them";

/// Reads the text of a file of this name.
pub(super) fn read(text: &str, name: &Path) -> Result<(Layer, Reach), Vec<Problem>> {
    let problem = |what, hint: &str| Problem { what, hint: hint.to_owned(), of_flags: false };
    let File { components, deliveries, secrets, keys } = toml::from_str(text).map_err(|error| {
        let what = format!("{}:{}", name.display(), crate::syntax::at(text, &error));
        vec![problem(what, &format!("the file is TOML: https://toml.io; {ALL_KEYS}"))]
    })?;
    let folder = name.parent().unwrap_or(Path::new(""));
    let mut problems = Vec::new();
    let mut tell = |key: &str, what: &str, hint: &str| {
        problems.push(problem(format!("{}: {key}: {what}", name.display()), hint));
    };
    let layer = layer(keys, folder, &mut tell);
    let reach = Reach { components, deliveries, secrets: sources(secrets, folder, &mut tell) };
    reach.check(&mut tell);
    if problems.is_empty() { Ok((layer, reach)) } else { Err(problems) }
}

fn layer(top: Table, folder: &Path, tell: Tell<'_>) -> Layer {
    let mut layer = Layer::new();
    let dotted = top.into_iter().flat_map(|(name, value)| match value {
        Toml::Table(table) if TABLES.contains(&name.as_str()) => table
            .into_iter()
            .map(|(own, value)| (format!("{name}.{}", quoted(&own)), value))
            .collect(),
        value => vec![(quoted(&name), value)],
    });
    for (name, value) in dotted {
        match (KEYS.iter().find(|key| key.name == name), value) {
            (Some(key), Toml::String(path)) if key.kind == Kind::Path && !path.is_empty() => {
                layer.push((key.name, Value::Text(folder.join(path).into())));
            }
            (Some(key), value) => layer.push((key.name, Value::Toml(value))),
            (None, _) if TABLES.contains(&name.as_str()) => {
                tell(&name, "it must be a table", &format!("write it as [{name}]"));
            }
            (None, _) => {
                let meant = meant(&name).map(|meant| format!("did you mean `{meant}`?"));
                tell(&name, "unknown key", meant.as_deref().unwrap_or(ALL_KEYS));
            }
        }
    }
    layer
}

/// The key that an unknown one may mean: one written without its table, or a similar one.
fn meant(name: &str) -> Option<&'static str> {
    let names = || KEYS.iter().map(|key| key.name);
    let without_table = names().find(|known| known.ends_with(&format!(".{name}")));
    let known = names().chain(TABLES).chain(["components", "deliveries", "secrets"]);
    without_table.or_else(|| nearest(name, known))
}

/// Where secrets are.
fn sources(table: Table, folder: &Path, tell: Tell<'_>) -> BTreeMap<String, SecretSource> {
    let mut sources = BTreeMap::new();
    for (name, value) in table {
        let source = match value.as_str().and_then(|source| secret_source(&name, source).ok()) {
            Some(SecretSource::File(path)) => SecretSource::File(folder.join(path)),
            Some(source) => source,
            // The given text may be the secret itself, so it is not shown.
            None => {
                let what = "the source of the secret is missing";
                let hint = "use \"env:VARIABLE\" or \"file:PATH\"; the secret itself cannot be \
                     written here";
                tell(&format!("secrets.{}", quoted(&name)), what, hint);
                continue;
            }
        };
        sources.insert(name, source);
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
listen = \"0.0.0.0:7443\"
data = \"data\"
keys = true
host_names = [\"a.example.com\"]

[tls]
cert = \"chain.pem\"
key = \"/etc/key.pem\"

[retention]
completed = \"30d\"

[components.shop]
hosts = [\"api.example.com\"]
secrets = [\"API_KEY\"]
networks = [\"private\"]

[secrets]
API_KEY = \"env:SHOP_API_KEY\"
OTHER = \"file:run/other\"
";

    fn parsed(text: &str) -> Result<(Layer, Reach), Vec<Problem>> {
        read(text, Path::new("conf/indelible.toml"))
    }

    /// Relative paths are those of the file's folder; everything else is as written.
    #[test]
    fn a_file_is_read() {
        let (mut layer, reach) = parsed(GOOD).unwrap();
        let path = |path: &str| Value::Text(path.into());
        layer.sort_by_key(|(key, _)| KEYS.iter().position(|own| own.name == *key));
        assert_eq!(
            layer,
            [
                ("listen", Value::Toml("0.0.0.0:7443".into())),
                ("data", path("conf/data")),
                ("keys", Value::Toml(true.into())),
                ("host_names", Value::Toml(vec!["a.example.com"].into())),
                ("tls.cert", path("conf/chain.pem")),
                ("tls.key", path("/etc/key.pem")),
                ("retention.completed", Value::Toml("30d".into())),
            ]
        );
        assert_eq!(reach.components["shop"].hosts, ["api.example.com"]);
        let sources: Vec<_> = reach.secrets.values().map(|source| format!("{source:?}")).collect();
        assert!(sources[0].contains("SHOP_API_KEY"), "{sources:?}");
        assert!(sources[1].contains("conf/run/other"), "{sources:?}");
        let (here, _) = read("data = \"x\"", Path::new("indelible.toml")).unwrap();
        assert_eq!(here, [("data", path("x"))]);
        assert!(parsed("").unwrap().0.is_empty());
    }

    /// A mistake is reported with its key, a misspelt key with the right one, and no text that may
    /// be a secret is shown.
    #[test]
    fn a_file_is_read_strictly() {
        for (from, to, says, hint) in [
            ("listen", "listn", "listn: unknown key", "did you mean `listen`?"),
            ("[tls]\ncert", "[tls]\ncrt", "tls.crt: unknown key", "did you mean `tls.cert`?"),
            ("[retention]", "[retentions]", "retentions: unknown key", "did you mean `retention`?"),
            ("[tls]\n", "cert = \"x\"\n[tls]\n", "cert: unknown key", "did you mean `tls.cert`?"),
            ("keys", "colour", "colour: unknown key", "configuration.md"),
            ("keys", "\"tls.cert\"", "\"tls.cert\": unknown key", "did you mean `tls.cert`?"),
            ("[\"private\"]", "[\"moon\"]", "components.shop.networks: ", "loopback"),
            ("api.example.com", "http://x y", "components.shop.hosts: ", "api.example.com"),
            ("env:SHOP_API_KEY", "hunter2", "secrets.API_KEY: the source of the", "env:VARIABLE"),
            ("\"env:SHOP_API_KEY\"", "7", "secrets.API_KEY: the source of the", "env:VARIABLE"),
            ("API_KEY = ", "ELSE = ", "components.shop.secrets: API_KEY is not", "[secrets]"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let problems = parsed(&GOOD.replacen(from, to, 1)).unwrap_err();
            let told = &problems[0];
            let expected = format!("conf/indelible.toml: {says}");
            assert!(told.what.starts_with(&expected), "{} is not {expected}", told.what);
            assert!(told.hint.contains(hint), "{}", told.hint);
            assert!(!format!("{problems:?}").contains("hunter2"));
        }
        for (from, to, says) in [
            ("hosts = [", "host = [", "14:1: unknown field `host`, expected one of `hosts`"),
            ("[\"private\"]", "\"private\"", "16:12: expected a sequence"),
            ("networks = [\"private\"]", "plain_http = 1", "16:14: expected a boolean"),
            (
                "[components.shop]",
                "[components]\nx = 1\n[components.shop]",
                "14:5: expected a table",
            ),
            ("secrets = [\"API_KEY\"]", "secrets = \"hunter2\"", "15:11: expected a sequence"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let told = parsed(&GOOD.replacen(from, to, 1)).unwrap_err().remove(0).what;
            let expected = format!("conf/indelible.toml:{says}");
            assert!(told.starts_with(&expected), "{told} is not {expected}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        let problems = parsed("tls = 1\nretention = \"x\"\n").unwrap_err();
        let said: Vec<_> = problems.iter().map(|problem| problem.what.as_str()).collect();
        let table = |name| format!("conf/indelible.toml: {name}: it must be a table");
        assert_eq!(said, [table("retention"), table("tls")]);
    }

    /// A syntax error or a repeated key is reported with line and column, in characters.
    #[test]
    fn where_it_is_no_toml() {
        let at = |text: &str| parsed(text).unwrap_err().remove(0).what;
        assert!(at("keys = true\nlisten = \n").starts_with("conf/indelible.toml:2:10: "));
        assert!(
            at("data = \"é\" x").starts_with("conf/indelible.toml:1:12: "),
            "{}",
            at("data = \"é\" x")
        );
        assert!(at("keys = true\nkeys = true\n").starts_with("conf/indelible.toml:2:1: "));
        let secret = at("[secrets]\nA = hunter2\n");
        assert!(
            secret.starts_with("conf/indelible.toml:2:5: ") && !secret.contains("hunter2"),
            "{secret}"
        );
    }
}
