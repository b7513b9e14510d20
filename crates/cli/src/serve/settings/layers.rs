//! Combines what the file, the environment and the flags say, and checks that the result makes
//! sense. Pure.

use std::collections::BTreeMap;

use super::keys::{KEYS, Key};
use super::value::Value;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    /// The file, by the name that was given.
    File(String),
    Environment,
    Flag,
}

/// The values that one source sets, by the names of keys.
pub(crate) type Layer = Vec<(&'static str, Value)>;

/// The effective value of every key that is set, by the key's name.
pub(super) type Holds = BTreeMap<&'static str, Given>;

/// An effective value, and where it comes from.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) value: Value,
    origin: Origin,
    /// The source, in words by which a person finds it.
    pub(super) source: String,
    /// What the key is called in messages.
    pub(super) called: String,
}

/// A mistake, and a hint.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) what: String,
    pub(super) hint: String,
    /// The mistake is in a flag: the exit code is that of arguments that make no sense.
    pub(super) of_flags: bool,
}

impl Origin {
    fn source(&self, key: &Key) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(file) => file.clone(),
            Self::Environment => key.variable.to_owned(),
            Self::Flag => key.flag(),
        }
    }

    fn called(&self, key: &Key) -> String {
        match self {
            Self::File(file) => format!("{file}: {}", key.name),
            _ => self.source(key),
        }
    }
}

/// The effective values: a later layer goes before an earlier one.
pub(super) fn settle(layers: [(Origin, Layer); 3]) -> Result<Holds, Vec<Problem>> {
    let default = |key: &'static Key| Some((key.name, Value::Text(key.default?.into())));
    let defaults = (Origin::Default, KEYS.iter().filter_map(default).collect());
    let (mut holds, mut problems) = (Holds::new(), Vec::new());
    for (origin, layer) in [defaults].into_iter().chain(layers) {
        for (name, value) in layer {
            let key = Key::named(name);
            let (source, called) = (origin.source(key), origin.called(key));
            let (noun, hint) = key.kind.words();
            // Values that a later layer overrides are checked too: a hidden mistake is one.
            match key.kind.read(value) {
                Ok(value) => {
                    let origin = origin.clone();
                    holds.insert(name, Given { value, origin, source, called });
                }
                Err(written) => problems.push(Problem {
                    what: format!("{called}: {written} is not a valid {noun}"),
                    hint: hint.to_owned(),
                    of_flags: origin == Origin::Flag,
                }),
            }
        }
    }
    if problems.is_empty() {
        problems = contradictions(&holds);
    }
    // Without a session key no tokens are verified, so the algorithm means nothing.
    if !holds.contains_key("sessions.key") {
        holds.remove("sessions.algorithm");
    }
    if problems.is_empty() { Ok(holds) } else { Err(problems) }
}

/// Keys, and the key that each of them needs.
const NEEDS: [(&str, &str); 7] = [
    ("tls.cert", "tls.key"),
    ("tls.key", "tls.cert"),
    ("sessions.key", "sessions.audience"),
    ("sessions.key", "keys"),
    ("sessions.algorithm", "sessions.key"),
    ("sessions.audience", "sessions.key"),
    ("sessions.issuer", "sessions.key"),
];

/// Keys that contradict each other, in whichever layers they are set.
fn contradictions(holds: &Holds) -> Vec<Problem> {
    let off = Value::Toml(false.into());
    let set = |name: &str| holds.get(name).filter(|given| given.origin != Origin::Default);
    let is_on = |name: &str| holds.get(name).is_some_and(|given| given.value != off);
    let mut problems = Vec::new();
    for (name, needs) in NEEDS {
        let Some(given) = set(name).filter(|_| !is_on(needs)) else { continue };
        let needed = Key::named(needs);
        let needed_is = match given.origin {
            Origin::File(_) => needs.to_owned(),
            _ => given.origin.source(needed),
        };
        let because = match set(needs) {
            Some(other) => format!("and {} is false", other.called),
            None if needed.default.is_some() => "which is off".to_owned(),
            None => "which is not set".to_owned(),
        };
        problems.push(Problem {
            what: format!("{} needs {needed_is}, {because}", given.called),
            hint: format!(
                "set {} on the command line, {} in the environment, or {needs} = {} in the file",
                needed.flag(),
                needed.variable,
                if needs == "keys" { "true" } else { "…" },
            ),
            of_flags: given.origin == Origin::Flag,
        });
    }
    if let (Some(proxy), Some(cert), true) =
        (set("behind_proxy"), set("tls.cert"), is_on("behind_proxy"))
    {
        problems.push(Problem {
            what: format!("{} and {} contradict each other", proxy.called, cert.called),
            hint: "either a proxy or the server adds TLS: remove one of the two".to_owned(),
            of_flags: [proxy, cert].iter().any(|given| given.origin == Origin::Flag),
        });
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn toml(toml: impl Into<toml::Value>) -> Value {
        Value::Toml(toml.into())
    }

    fn file() -> Origin {
        Origin::File("indelible.toml".to_owned())
    }

    fn settled(file_says: Layer, environment: Layer, flags: Layer) -> Result<Holds, Vec<String>> {
        let layers =
            [(file(), file_says), (Origin::Environment, environment), (Origin::Flag, flags)];
        settle(layers).map_err(|problems| problems.into_iter().map(|p| p.what).collect())
    }

    fn refused(file_says: Layer, environment: Layer, flags: Layer) -> Vec<String> {
        settled(file_says, environment, flags).unwrap_err()
    }

    /// Flags go before the environment, the environment before the file, defaults last; a list is
    /// replaced, not added to.
    #[test]
    fn later_layers_go_first() {
        let listen = |port: u16| ("listen", text(&format!("127.0.0.1:{port}")));
        let names = |name: &str| ("host_names", toml(vec![name]));
        let holds = settled(
            vec![listen(1), ("data", text("of-file")), names("a"), ("keys", toml(true))],
            vec![listen(2), ("data", text("of-environment")), ("keys", text("true"))],
            vec![listen(3), names("b"), ("keys", toml(false))],
        )
        .unwrap();
        let of = |key: &str| (holds[key].value.clone(), holds[key].source.as_str());
        assert_eq!(of("listen"), (toml("127.0.0.1:3"), "--listen"));
        assert_eq!(of("data"), (text("of-environment"), "INDELIBLE_DATA"));
        assert_eq!(of("host_names"), (toml(vec!["b"]), "--host-name"));
        assert_eq!(of("keys"), (toml(false), "--keys"));
        let kept = (toml("forever"), "default");
        assert_eq!(of("retention.failed"), kept);
        assert!(!holds.contains_key("tls.cert"));
        let holds = settled(vec![listen(1)], vec![], vec![]).unwrap();
        assert_eq!(holds["listen"].source, "indelible.toml");
    }

    /// All mistakes are reported at once, each with its key and source, also where a later layer
    /// hides it.
    #[test]
    fn mistakes_are_told_where_they_are() {
        let said = refused(
            vec![("retention.completed", text("30 parsecs")), ("listen", text("here"))],
            vec![("listen", text("there"))],
            vec![("listen", text("everywhere")), ("retention.completed", text("1d"))],
        );
        assert_eq!(
            said,
            [
                "indelible.toml: retention.completed: \"30 parsecs\" is not a valid duration",
                "indelible.toml: listen: \"here\" is not a valid address",
                "INDELIBLE_LISTEN: \"there\" is not a valid address",
                "--listen: \"everywhere\" is not a valid address",
            ]
        );
    }

    /// Rules between keys hold over all layers, and a message names each key as its source does.
    #[test]
    fn rules_hold_over_all_layers() {
        let one = |key: &'static str, value: &str| vec![(key, text(value))];
        assert_eq!(
            refused(one("tls.cert", "c"), vec![], vec![]),
            ["indelible.toml: tls.cert needs tls.key, which is not set"]
        );
        assert_eq!(
            refused(vec![], one("tls.key", "k"), vec![]),
            ["INDELIBLE_TLS_KEY needs INDELIBLE_TLS_CERT, which is not set"]
        );
        assert!(settled(one("tls.cert", "c"), vec![], one("tls.key", "k")).is_ok());
        assert_eq!(
            refused(one("tls.cert", "c"), one("behind_proxy", "true"), one("tls.key", "k")),
            ["INDELIBLE_BEHIND_PROXY and indelible.toml: tls.cert contradict each other"]
        );
        let session = |keys: Option<bool>| {
            let file_says = keys.map(|on| ("keys", toml(on))).into_iter().collect();
            settled(file_says, one("sessions.audience", "us"), one("sessions.key", "key"))
        };
        assert!(session(Some(true)).is_ok());
        assert_eq!(
            session(Some(false)).unwrap_err(),
            ["--session-key needs --keys, and indelible.toml: keys is false"]
        );
        assert_eq!(session(None).unwrap_err(), ["--session-key needs --keys, which is off"]);
        assert_eq!(
            refused(vec![("keys", toml(true))], vec![], one("sessions.key", "key")),
            ["--session-key needs --session-audience, which is not set"]
        );
        for key in ["sessions.algorithm", "sessions.audience", "sessions.issuer"] {
            assert_eq!(
                refused(vec![], vec![], one(key, "hs256")),
                [format!("{} needs --session-key, which is not set", Key::named(key).flag())]
            );
        }
        // A switch that was turned off again excludes nothing.
        let both = vec![("tls.cert", text("c")), ("tls.key", text("k"))];
        let off = vec![("behind_proxy", toml(false))];
        assert!(settled(vec![("behind_proxy", toml(true))], both, off).is_ok());
    }
}
