//! What the file says. Its text is given: nothing here looks at the world. Paths are counted from the
//! folder that the file is in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use indelible_http_client::SecretSource;
use toml::{Table, Value};

use super::keys::Key;
use super::layers::{Layer, Problem};
use super::reach::{Component, Reach};
use super::value::{Kind, Raw};
use crate::nearest::nearest;
use crate::run::egress::{networks, secret_source};

/// What the file says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) layer: Layer,
    pub(super) reach: Reach,
}

/// The tables whose names the file chooses itself.
const COMPONENTS: &str = "components";
const SECRETS: &str = "secrets";

/// The keys of `[components.NAME]`.
const OF_COMPONENTS: [&str; 4] = ["hosts", "networks", "plain_http", "secrets"];

/// Reads a file of this name.
pub(super) fn read(text: &str, name: &Path) -> Result<File, Vec<Problem>> {
    let table = text.parse::<Table>().map_err(|error| vec![syntax(text, name, &error)])?;
    let mut reading = Reading {
        name: name.display().to_string(),
        folder: name.parent().unwrap_or(Path::new("")).to_owned(),
        file: File::default(),
        problems: Vec::new(),
    };
    reading.top(table);
    reading.check_secrets();
    if reading.problems.is_empty() { Ok(reading.file) } else { Err(reading.problems) }
}

/// Where it stops being TOML.
fn syntax(text: &str, name: &Path, error: &toml::de::Error) -> Problem {
    Problem {
        what: format!("{}:{}", name.display(), crate::syntax::at(text, error)),
        hint: "the file is TOML: https://toml.io".to_owned(),
        of_flags: false,
    }
}

struct Reading {
    name: String,
    folder: PathBuf,
    file: File,
    problems: Vec<Problem>,
}

impl Reading {
    fn problem(&mut self, key: &str, what: &str, hint: impl Into<String>) {
        let what = format!("{}: {key}: {what}", self.name);
        self.problems.push(Problem { what, hint: hint.into(), of_flags: false });
    }

    /// A key that there is not.
    fn unknown(&mut self, key: &str, meant: Option<String>) {
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "docs/guides/configuration.md lists all keys; --print-config shows them".into(),
        };
        self.problem(key, "there is no such key", hint);
    }

    fn top(&mut self, table: Table) {
        for (name, value) in table {
            let key = Key::ALL.into_iter().find(|key| key.place() == (None, &name));
            let is_table = Key::ALL.iter().any(|key| key.place().0 == Some(&name));
            match (key, value) {
                (Some(key), value) => self.set(key, value),
                (None, Value::Table(table)) if name == COMPONENTS => self.components(table),
                (None, Value::Table(table)) if name == SECRETS => self.secrets(table),
                (None, Value::Table(table)) if is_table => self.group(&name, table),
                (None, _) if is_table || name == COMPONENTS || name == SECRETS => {
                    self.problem(&name, "it is a table", format!("write it as [{name}]"));
                }
                (None, _) => {
                    let meant = meant_at_the_top(&name);
                    self.unknown(&name, meant);
                }
            }
        }
    }

    /// A table of keys that are known.
    fn group(&mut self, group: &str, table: Table) {
        let of = |key: &Key| key.place().0 == Some(group);
        for (name, value) in table {
            let mut known = Key::ALL.into_iter().filter(of);
            match known.find(|key| key.place().1 == name) {
                Some(key) => self.set(key, value),
                None => {
                    let names = Key::ALL.into_iter().filter(of).map(|key| key.place().1);
                    let meant = nearest(&name, names).map(|meant| format!("{group}.{meant}"));
                    self.unknown(&format!("{group}.{name}"), meant);
                }
            }
        }
    }

    fn set(&mut self, key: Key, value: Value) {
        let raw = match value {
            Value::String(text) if key.kind() == Kind::Path && !text.is_empty() => {
                Raw::Text(OsString::from(self.folder.join(text)))
            }
            Value::String(text) => Raw::Text(text.into()),
            Value::Boolean(on) => Raw::Switch(on),
            Value::Array(list) => match texts(list) {
                Some(list) => Raw::List(list),
                None => Raw::Other("a list of other things than texts"),
            },
            other => Raw::Other(described(&other)),
        };
        // A list in a text is for the environment, which has no other.
        if let (Kind::Names, Raw::Text(_)) = (key.kind(), &raw) {
            let hint = "a list in brackets, as [\"a.example.com\"]";
            return self.problem(key.name(), "a text is no list of names", hint);
        }
        if let (Kind::Switch, Raw::Text(_)) = (key.kind(), &raw) {
            let what = "a text is no switch";
            return self.problem(key.name(), what, "true or false, without quotes");
        }
        self.file.layer.push((key, raw));
    }

    fn components(&mut self, table: Table) {
        for (name, value) in table {
            let at = format!("{COMPONENTS}.{}", quoted(&name));
            let Value::Table(table) = value else {
                self.problem(&at, "it is a table", format!("write it as [{at}]"));
                continue;
            };
            let component = self.component(&at, table);
            self.file.reach.components.insert(name, component);
        }
    }

    fn component(&mut self, at: &str, table: Table) -> Component {
        let mut component = Component::default();
        for (name, value) in table {
            let key = format!("{at}.{name}");
            match (name.as_str(), value) {
                ("hosts", Value::Array(list)) => component.hosts = self.list(&key, list),
                ("networks", Value::Array(list)) => component.networks = self.list(&key, list),
                ("secrets", Value::Array(list)) => component.secrets = self.list(&key, list),
                ("plain_http", Value::Boolean(on)) => component.plain_http = on,
                ("hosts" | "networks" | "secrets", other) => {
                    let what = format!("{} is no list", described(&other));
                    self.problem(&key, &what, "a list in brackets, as [\"…\"]");
                }
                ("plain_http", other) => {
                    let what = format!("{} is no switch", described(&other));
                    self.problem(&key, &what, "true or false, without quotes");
                }
                (name, _) => {
                    let meant = nearest(name, OF_COMPONENTS).map(|meant| format!("{at}.{meant}"));
                    self.unknown(&key, meant);
                }
            }
        }
        for host in &component.hosts {
            if let Err(error) = host.parse::<indelible_http_client::HostPattern>() {
                let hint = "as api.example.com, *.example.com or 10.0.0.1:8080";
                self.problem(&format!("{at}.hosts"), &error.to_string(), hint);
            }
        }
        for network in &component.networks {
            if let Err(why) = networks(network) {
                let hint = "as 10.1.0.0/16, or the word loopback or private";
                self.problem(&format!("{at}.networks"), &why, hint);
            }
        }
        component
    }

    fn list(&mut self, key: &str, list: Vec<Value>) -> Vec<String> {
        texts(list).unwrap_or_else(|| {
            self.problem(key, "it has other things than texts", "texts in quotes");
            Vec::new()
        })
    }

    fn secrets(&mut self, table: Table) {
        for (name, value) in table {
            let key = format!("{SECRETS}.{}", quoted(&name));
            // What was given may be the secret itself: it is not shown.
            let source = match &value {
                Value::String(source) => secret_source(&name, source).ok(),
                _ => None,
            };
            match source {
                Some(SecretSource::File(path)) => {
                    let source = SecretSource::File(self.folder.join(path));
                    self.file.reach.secrets.insert(name, source);
                }
                Some(source) => {
                    self.file.reach.secrets.insert(name, source);
                }
                None => self.problem(
                    &key,
                    "it does not say where the secret is",
                    "\"env:VARIABLE\" or \"file:PATH\"; the secret itself cannot stand here",
                ),
            }
        }
    }

    /// Secrets that components may send have to be somewhere.
    fn check_secrets(&mut self) {
        let Reach { components, secrets } = &self.file.reach;
        let missing: Vec<_> = components
            .iter()
            .flat_map(|(name, component)| component.secrets.iter().map(move |own| (name, own)))
            .filter(|(_, own)| !secrets.contains_key(*own))
            .map(|(name, own)| (format!("{COMPONENTS}.{}.secrets", quoted(name)), own.clone()))
            .collect();
        for (key, secret) in missing {
            let hint = format!("under [secrets]: {} = \"env:VARIABLE\"", quoted(&secret));
            self.problem(&key, &format!("{secret} is not under [secrets]"), hint);
        }
    }
}

/// What may be meant by a name at the top: one that is near, or one of a table, written without it.
fn meant_at_the_top(name: &str) -> Option<String> {
    let of_a_table = Key::ALL.into_iter().find(|key| key.place().1 == name);
    if let Some(key) = of_a_table {
        return Some(key.name().to_owned());
    }
    let mut known = vec![COMPONENTS, SECRETS];
    known.extend(Key::ALL.map(|key| key.place().0.unwrap_or(key.name())));
    nearest(name, known).map(str::to_owned)
}

fn texts(list: Vec<Value>) -> Option<Vec<String>> {
    let text = |value| if let Value::String(text) = value { Some(text) } else { None };
    list.into_iter().map(text).collect()
}

/// What a value is, without what it says.
fn described(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "a switch",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// A name as TOML writes it in a key.
pub(super) fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(plain) {
        name.to_owned()
    } else {
        super::print::text(name)
    }
}

/// What components may reach, by their names.
pub(super) type Components = BTreeMap<String, Component>;

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

    fn parsed(text: &str) -> Result<File, Vec<Problem>> {
        read(text, Path::new("conf/indelible.toml"))
    }

    /// Paths are counted from the folder of the file, unless they begin at the root; everything else
    /// is as it is written.
    #[test]
    fn a_file_is_read() {
        let file = parsed(GOOD).unwrap();
        let text = |text: &str| Raw::Text(text.into());
        let mut layer = file.layer;
        layer.sort_by_key(|(key, _)| *key);
        assert_eq!(
            layer,
            [
                (Key::Listen, text("0.0.0.0:7443")),
                (Key::Data, text("conf/data")),
                (Key::Keys, Raw::Switch(true)),
                (Key::HostNames, Raw::List(vec!["a.example.com".to_owned()])),
                (Key::TlsCert, text("conf/chain.pem")),
                (Key::TlsKey, text("/etc/key.pem")),
                (Key::RetentionCompleted, text("30d")),
            ]
        );
        assert_eq!(file.reach.components["shop"].hosts, ["api.example.com"]);
        let sources: Vec<_> =
            file.reach.secrets.values().map(|source| format!("{source:?}")).collect();
        assert!(sources[0].contains("SHOP_API_KEY"), "{sources:?}");
        assert!(sources[1].contains("conf/run/other"), "{sources:?}");
        let here = read("data = \"x\"", Path::new("indelible.toml")).unwrap();
        assert_eq!(here.layer, [(Key::Data, text("x"))]);
        assert!(parsed("").unwrap().layer.is_empty());
    }

    /// Whatever is wrong is told with its key, a nearly right name with the right one, and nothing of
    /// what may be a secret.
    #[test]
    fn a_file_is_read_strictly() {
        for (from, to, says, hint) in [
            ("listen", "listn", "listn: there is no such key", "did you mean `listen`?"),
            ("[tls]\ncert", "[tls]\ncrt", "tls.crt: there is no", "did you mean `tls.cert`?"),
            ("[retention]", "[retentions]", "retentions: there is no", "did you mean `retention`?"),
            ("[tls]\n", "cert = \"x\"\n[tls]\n", "cert: there is no", "did you mean `tls.cert`?"),
            ("keys", "colour", "colour: there is no", "configuration.md"),
            ("keys = true", "keys = \"true\"", "keys: a text is no switch", "without quotes"),
            ("[\"a.example.com\"]", "\"a\"", "host_names: a text is no list", "brackets"),
            (
                "hosts = [",
                "host = [",
                "components.shop.host: there",
                "did you mean `components.shop.hosts`?",
            ),
            ("[\"private\"]", "[\"moon\"]", "components.shop.networks: ", "loopback"),
            (
                "[\"private\"]",
                "\"private\"",
                "components.shop.networks: a text is no list",
                "brackets",
            ),
            ("api.example.com", "http://x y", "components.shop.hosts: ", "api.example.com"),
            ("env:SHOP_API_KEY", "hunter2", "secrets.API_KEY: it does not say", "env:VARIABLE"),
            ("\"env:SHOP_API_KEY\"", "7", "secrets.API_KEY: it does not say", "env:VARIABLE"),
            ("API_KEY = ", "ELSE = ", "components.shop.secrets: API_KEY is not", "[secrets]"),
            (
                "[components.shop]",
                "[components.\"a b\"]\nplain_http = 1\n[components.shop]",
                "components.\"a b\".plain_http: an integer is no switch",
                "true or false",
            ),
            (
                "[components.shop]",
                "[components]\nx = 1\n[components.shop]",
                "components.x: it is a table",
                "[components.x]",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let problems = parsed(&GOOD.replacen(from, to, 1)).unwrap_err();
            let told = &problems[0];
            let expected = format!("conf/indelible.toml: {says}");
            assert!(told.what.starts_with(&expected), "{} is not {expected}", told.what);
            assert!(told.hint.contains(hint), "{}", told.hint);
            assert!(!format!("{problems:?}").contains("hunter2"));
        }
        let problems = parsed("tls = 1\nretention = \"x\"\n").unwrap_err();
        let said: Vec<_> = problems.iter().map(|problem| problem.what.as_str()).collect();
        let table = |name| format!("conf/indelible.toml: {name}: it is a table");
        assert_eq!(said, [table("retention"), table("tls")]);
    }

    /// What is no TOML is told with line and column, in characters; a key that is there twice too.
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
