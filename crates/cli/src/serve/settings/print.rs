//! The configuration as it stands, for people and for programs: as a file that says the same, and as
//! JSON. Secrets are shown by where they are, never by what they are.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use indelible_http_client::SecretSource;
use serde_json::{Map, json};

use super::Effective;
use super::file::quoted;
use super::keys::Key;
use super::value::Value;

/// As TOML: read as a file, wherever that is, it says the same.
pub(super) fn toml(effective: &Effective, absolute: &dyn Fn(&Path) -> PathBuf) -> String {
    let mut out = String::new();
    let mut table = None;
    for key in Key::ALL {
        let (own, name) = key.place();
        if own != table {
            let _ = write!(out, "\n[{}]\n", own.unwrap_or_default());
            table = own;
        }
        let _ = match effective.holds.get(&key) {
            None => writeln!(out, "# {name} is not set"),
            Some(given) => {
                let value = written(&given.value, absolute);
                writeln!(out, "{name} = {value} # {}", comment(&given.origin.of(key)))
            }
        };
    }
    let from = comment(&effective.file.clone().unwrap_or_default());
    for (name, component) in &effective.reach.components {
        let _ = write!(out, "\n[components.{}]\n", quoted(name));
        for (key, values) in [
            ("hosts", &component.hosts),
            ("networks", &component.networks),
            ("secrets", &component.secrets),
        ] {
            let _ = writeln!(out, "{key} = {} # {from}", list(values));
        }
        let _ = writeln!(out, "plain_http = {} # {from}", component.plain_http);
    }
    if !effective.reach.secrets.is_empty() {
        out.push_str("\n[secrets]\n");
    }
    for (name, source) in &effective.reach.secrets {
        let _ = writeln!(out, "{} = {} # {from}", quoted(name), text(&place(source, absolute)));
    }
    out
}

/// As JSON: the values as the file has them, and where each is from.
pub(super) fn json(effective: &Effective, absolute: &dyn Fn(&Path) -> PathBuf) -> String {
    let (mut config, mut sources) = (Map::new(), Map::new());
    for key in Key::ALL {
        let given = effective.holds.get(&key);
        let value = given.map_or(serde_json::Value::Null, |given| shown(&given.value, absolute));
        match key.place() {
            (None, name) => {
                config.insert(name.to_owned(), value);
            }
            (Some(table), name) => {
                config.entry(table).or_insert_with(|| json!({}))[name] = value;
            }
        }
        if let Some(given) = given {
            sources.insert(key.name().to_owned(), given.origin.of(key).into());
        }
    }
    let mut components = Map::new();
    for (name, component) in &effective.reach.components {
        let shown = json!({
            "hosts": component.hosts,
            "networks": component.networks,
            "plain_http": component.plain_http,
            "secrets": component.secrets,
        });
        components.insert(name.clone(), shown);
    }
    let secrets = effective.reach.secrets.iter();
    let secrets: Map<_, _> =
        secrets.map(|(name, source)| (name.clone(), place(source, absolute).into())).collect();
    config.insert("components".to_owned(), components.into());
    config.insert("secrets".to_owned(), secrets.into());
    let all = json!({ "v": 1, "file": effective.file, "config": config, "sources": sources });
    format!("{all:#}\n")
}

/// Where a secret is.
fn place(source: &SecretSource, absolute: &dyn Fn(&Path) -> PathBuf) -> String {
    match source {
        SecretSource::Environment(variable) => format!("env:{variable}"),
        SecretSource::File(path) => format!("file:{}", absolute(path).display()),
        // No file says this, and nothing shows it.
        SecretSource::Value(_) => "env:".to_owned(),
    }
}

fn written(value: &Value, absolute: &dyn Fn(&Path) -> PathBuf) -> String {
    match value {
        Value::Address(address) => text(&address.to_string()),
        Value::Path(path) => text(&absolute(path).display().to_string()),
        Value::Switch(on) => on.to_string(),
        Value::Names(names) => list(names),
        Value::Text(own) => text(own),
        Value::Algorithm(algorithm) => text(algorithm.name()),
        Value::Window(window) => text(&window.to_string()),
    }
}

fn shown(value: &Value, absolute: &dyn Fn(&Path) -> PathBuf) -> serde_json::Value {
    match value {
        Value::Address(address) => address.to_string().into(),
        Value::Path(path) => absolute(path).display().to_string().into(),
        Value::Switch(on) => (*on).into(),
        Value::Names(names) => names.clone().into(),
        Value::Text(own) => own.clone().into(),
        Value::Algorithm(algorithm) => algorithm.name().into(),
        Value::Window(window) => window.to_string().into(),
    }
}

fn list(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|own| text(own)).collect();
    format!("[{}]", texts.join(", "))
}

/// A text as TOML writes it.
pub(super) fn text(own: &str) -> String {
    let mut out = String::from("\"");
    for letter in own.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// What stands in a comment does not end it.
fn comment(own: &str) -> String {
    own.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::settings::{Said, effective};

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

    fn absolute(path: &Path) -> PathBuf {
        Path::new("/here").join(path)
    }

    fn of(file: &str, name: &str) -> Effective {
        let said = Said { file: Some((name.into(), file.to_owned())), ..Said::default() };
        effective(said).unwrap()
    }

    fn values(effective: &Effective) -> serde_json::Value {
        let text = json(effective, &absolute);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["config"].take()
    }

    /// What is printed, read as a file that is elsewhere, gives the same, to the last path.
    #[test]
    fn what_is_printed_reads_back() {
        for file in [FILE, "", "[secrets]\nA = \"\"\n"] {
            let first = of(file, "conf/indelible.toml");
            let printed = toml(&first, &absolute);
            let second = of(&printed, "/elsewhere/printed.toml");
            assert_eq!(values(&second), values(&first), "{printed}");
            let again = toml(&second, &absolute);
            let uncommented = |text: &str| {
                let line =
                    |line: &str| line.rsplit_once(" # ").map_or(line, |(own, _)| own).to_owned();
                text.lines().map(line).collect::<Vec<_>>()
            };
            assert_eq!(uncommented(&again), uncommented(&printed));
        }
    }

    /// Each value says where it is from, and secrets where they are.
    #[test]
    fn where_each_value_is_from() {
        let printed = toml(&of(FILE, "conf/indelible.toml"), &absolute);
        for line in [
            "listen = \"127.0.0.1:7070\" # default",
            "data = \"/here/conf/da\\\"ta\\\\ \\u007F\\t\" # conf/indelible.toml",
            "cert = \"/here/conf/chain.pem\" # conf/indelible.toml",
            "# issuer is not set",
            "completed = \"30d\" # conf/indelible.toml",
            "cancelled = \"forever\" # default",
            "[components.\"with space\"]",
            "API_KEY = \"env:SHOP_API_KEY\" # conf/indelible.toml",
            "\"a b\" = \"file:/here/conf/run/other\" # conf/indelible.toml",
        ] {
            assert!(printed.lines().any(|own| own == line), "{line} is not in\n{printed}");
        }
    }

    /// A comment is one line, whatever the file is called.
    #[test]
    fn a_name_does_not_end_its_comment() {
        let printed = toml(&of("keys = true\n", "a\nb = 1"), &absolute);
        assert!(printed.contains("keys = true # a?b = 1\n"), "{printed}");
    }
}
