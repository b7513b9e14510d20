//! From what the file, the environment and the flags say to what holds, and to whether that makes
//! sense together. Nothing here looks at the world.

use std::collections::BTreeMap;

use super::keys::Key;
use super::value::{Raw, Value};

/// Where a value is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// The file, as it was named.
    File(String),
    Environment,
    Flag,
}

impl Origin {
    /// Where a key was set, as a person would look for it.
    pub(crate) fn of(&self, key: Key) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File(file) => file.clone(),
            Self::Environment => key.variable().to_owned(),
            Self::Flag => key.flag().to_owned(),
        }
    }

    /// A key that was set there, to say something of it.
    fn names(&self, key: Key) -> String {
        match self {
            Self::File(file) => format!("{file}: {}", key.name()),
            _ => self.word(key).to_owned(),
        }
    }

    /// What a key is called there.
    fn word(&self, key: Key) -> &'static str {
        match self {
            Self::Default | Self::File(_) => key.name(),
            Self::Environment => key.variable(),
            Self::Flag => key.flag(),
        }
    }
}

/// What one source says.
pub(crate) type Layer = Vec<(Key, Raw)>;

/// A value that holds, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What holds for every key that is set.
pub(crate) type Holds = BTreeMap<Key, Given>;

/// Something that is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) hint: String,
    /// It is about a flag: then the arguments make no sense.
    pub(crate) of_flags: bool,
}

/// How a key is called where it is set; by its name in the file if it is not.
pub(crate) fn called(holds: &Holds, key: Key) -> String {
    holds.get(&key).map_or_else(|| key.name().to_owned(), |given| given.origin.names(key))
}

/// What holds when later layers go before earlier ones.
pub(super) fn settle(layers: Vec<(Origin, Layer)>) -> Result<Holds, Vec<Problem>> {
    let mut holds = Holds::new();
    let mut problems = Vec::new();
    for key in Key::ALL {
        if let Some(value) = key.default() {
            holds.insert(key, Given { value, origin: Origin::Default });
        }
    }
    for (origin, layer) in layers {
        for (key, raw) in layer {
            // Also what a later layer sets again: a mistake is one, whoever hides it.
            match key.kind().read(raw) {
                Ok(value) => {
                    holds.insert(key, Given { value, origin: origin.clone() });
                }
                Err(wrong) => problems.push(Problem {
                    what: format!("{}: {}", origin.names(key), wrong.what),
                    hint: wrong.hint,
                    of_flags: origin == Origin::Flag,
                }),
            }
        }
    }
    if problems.is_empty() {
        problems = contradictions(&holds);
    }
    // Without tokens nobody signs them in any way.
    if !holds.contains_key(&Key::SessionKey) {
        holds.remove(&Key::SessionAlgorithm);
    }
    if problems.is_empty() { Ok(holds) } else { Err(problems) }
}

/// What makes no sense together, whichever layers it is from.
fn contradictions(holds: &Holds) -> Vec<Problem> {
    const NEEDS: [(Key, Key); 7] = [
        (Key::TlsCert, Key::TlsKey),
        (Key::TlsKey, Key::TlsCert),
        (Key::SessionKey, Key::SessionAudience),
        (Key::SessionKey, Key::Keys),
        (Key::SessionAlgorithm, Key::SessionKey),
        (Key::SessionAudience, Key::SessionKey),
        (Key::SessionIssuer, Key::SessionKey),
    ];
    let mut problems = Vec::new();
    for (key, needs) in NEEDS {
        let Some(given) = holds.get(&key) else { continue };
        if given.origin == Origin::Default || is_on(holds, needs) {
            continue;
        }
        let (what, other) = (given.origin.names(key), holds.get(&needs));
        let needed = given.origin.word(needs);
        let because = match other.map(|other| &other.origin) {
            None => "which is not set".to_owned(),
            Some(Origin::Default) => "which is off".to_owned(),
            Some(origin) => format!("and {} is false", origin.names(needs)),
        };
        let on = if needs == Key::Keys { " = true" } else { " = …" };
        problems.push(Problem {
            what: format!("{what} needs {needed}, {because}"),
            hint: format!(
                "{} on the command line, {} in the environment, or {}{on} in the file",
                needs.flag(),
                needs.variable(),
                needs.name()
            ),
            of_flags: given.origin == Origin::Flag,
        });
    }
    if let (Some(proxy), Some(cert)) = (holds.get(&Key::BehindProxy), holds.get(&Key::TlsCert))
        && is_on(holds, Key::BehindProxy)
    {
        let (proxy_is, cert_is) =
            (proxy.origin.names(Key::BehindProxy), cert.origin.names(Key::TlsCert));
        problems.push(Problem {
            what: format!("{proxy_is} and {cert_is} contradict each other"),
            hint: "TLS is added by a proxy or by the server: take one of the two away".to_owned(),
            of_flags: proxy.origin == Origin::Flag || cert.origin == Origin::Flag,
        });
    }
    problems
}

/// Whether a key is set, and not to false.
fn is_on(holds: &Holds, key: Key) -> bool {
    holds.get(&key).is_some_and(|given| given.value != Value::Switch(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::settings::value::Window;

    fn text(text: &str) -> Raw {
        Raw::Text(text.into())
    }

    fn file() -> Origin {
        Origin::File("indelible.toml".to_owned())
    }

    fn settled(file_says: Layer, environment: Layer, flags: Layer) -> Result<Holds, Vec<String>> {
        let layers =
            vec![(file(), file_says), (Origin::Environment, environment), (Origin::Flag, flags)];
        settle(layers).map_err(|problems| problems.into_iter().map(|p| p.what).collect())
    }

    fn refused(file_says: Layer, environment: Layer, flags: Layer) -> Vec<String> {
        settled(file_says, environment, flags).unwrap_err()
    }

    /// Flags before the environment, that before the file, and the defaults last; a list is replaced,
    /// not added to.
    #[test]
    fn later_layers_go_first() {
        let listen = |port: u16| (Key::Listen, text(&format!("127.0.0.1:{port}")));
        let names = |name: &str| (Key::HostNames, Raw::List(vec![name.to_owned()]));
        let holds = settled(
            vec![
                listen(1),
                (Key::Data, text("of-file")),
                names("a"),
                (Key::Keys, Raw::Switch(true)),
            ],
            vec![listen(2), (Key::Data, text("of-environment")), (Key::Keys, text("true"))],
            vec![listen(3), names("b"), (Key::Keys, Raw::Switch(false))],
        )
        .unwrap();
        let of = |key: Key| (holds[&key].value.clone(), holds[&key].origin.of(key));
        assert_eq!(
            of(Key::Listen),
            (Value::Address(([127, 0, 0, 1], 3).into()), "--listen".into())
        );
        assert_eq!(of(Key::Data), (Value::Path("of-environment".into()), "INDELIBLE_DATA".into()));
        assert_eq!(of(Key::HostNames), (Value::Names(vec!["b".into()]), "--host-name".into()));
        assert_eq!(of(Key::Keys), (Value::Switch(false), "--keys".into()));
        let kept = (Value::Window(Window::Forever), "default".to_owned());
        assert_eq!(of(Key::RetentionFailed), kept);
        assert!(!holds.contains_key(&Key::TlsCert));
        let holds = settled(vec![listen(1)], vec![], vec![]).unwrap();
        assert_eq!(holds[&Key::Listen].origin.of(Key::Listen), "indelible.toml");
    }

    /// A mistake is told with its key and where it was made, all of them at once, also where a later
    /// layer hides it.
    #[test]
    fn mistakes_are_told_where_they_are() {
        let said = refused(
            vec![(Key::RetentionCompleted, text("30 parsecs")), (Key::Listen, text("here"))],
            vec![(Key::Listen, text("there"))],
            vec![(Key::Listen, text("everywhere")), (Key::RetentionCompleted, text("1d"))],
        );
        assert_eq!(
            said,
            [
                "indelible.toml: retention.completed: \"30 parsecs\" is no duration",
                "indelible.toml: listen: \"here\" is no address",
                "INDELIBLE_LISTEN: \"there\" is no address",
                "--listen: \"everywhere\" is no address",
            ]
        );
    }

    /// What needs something else, or excludes it, does so over all layers, and is told in the words
    /// of where it was said.
    #[test]
    fn rules_hold_over_all_layers() {
        let one = |key: Key, value: &str| vec![(key, text(value))];
        assert_eq!(
            refused(one(Key::TlsCert, "c"), vec![], vec![]),
            ["indelible.toml: tls.cert needs tls.key, which is not set"]
        );
        assert_eq!(
            refused(vec![], one(Key::TlsKey, "k"), vec![]),
            ["INDELIBLE_TLS_KEY needs INDELIBLE_TLS_CERT, which is not set"]
        );
        assert!(settled(one(Key::TlsCert, "c"), vec![], one(Key::TlsKey, "k")).is_ok());
        assert_eq!(
            refused(one(Key::TlsCert, "c"), one(Key::BehindProxy, "true"), one(Key::TlsKey, "k")),
            ["INDELIBLE_BEHIND_PROXY and indelible.toml: tls.cert contradict each other"]
        );
        let session = |keys: Option<bool>| {
            let file_says = keys.map(|on| (Key::Keys, Raw::Switch(on))).into_iter().collect();
            settled(file_says, one(Key::SessionAudience, "us"), one(Key::SessionKey, "key"))
        };
        assert!(session(Some(true)).is_ok());
        assert_eq!(
            session(Some(false)).unwrap_err(),
            ["--session-key needs --keys, and indelible.toml: keys is false"]
        );
        assert_eq!(session(None).unwrap_err(), ["--session-key needs --keys, which is off"]);
        assert_eq!(
            refused(vec![(Key::Keys, Raw::Switch(true))], vec![], one(Key::SessionKey, "key")),
            ["--session-key needs --session-audience, which is not set"]
        );
        for key in [Key::SessionAlgorithm, Key::SessionAudience, Key::SessionIssuer] {
            assert_eq!(
                refused(vec![], vec![], one(key, "hs256")),
                [format!("{} needs --session-key, which is not set", key.flag())]
            );
        }
        // A switch that was turned off again excludes nothing.
        let both = vec![(Key::TlsCert, text("c")), (Key::TlsKey, text("k"))];
        let off = vec![(Key::BehindProxy, Raw::Switch(false))];
        assert!(settled(vec![(Key::BehindProxy, Raw::Switch(true))], both, off).is_ok());
    }
}
