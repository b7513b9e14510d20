//! What `indelible serve` is told, in rising precedence: built-in defaults, a file, the environment,
//! flags. The reading and the rules are pure; [`load`] is the one place that looks at the world.
//!
//! - `keys`: every key there is. `value`: what one can be set to. `layers`: which source goes before
//!   which, and what makes no sense together.
//! - `file`, `environment`: what these two say. `reach`: what components may reach, which only the
//!   file says.
//! - `print`: the configuration as it stands.
#![expect(clippy::disallowed_methods, reason = "it reads the file that was named")]

mod environment;
mod file;
mod keys;
mod layers;
mod print;
mod reach;
mod value;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use indelible_runtime::Retention;

pub(super) use self::keys::Key;
use self::layers::{Holds, Problem};
pub(super) use self::layers::{Layer, Origin};
pub(super) use self::reach::Reach;
pub(super) use self::value::{Algorithm, Raw};
use self::value::{Value, Window};
use crate::failure::{Exit, Failure};

/// What the sources say.
#[derive(Debug, Default)]
struct Said {
    /// The name of the file, and its text.
    file: Option<(PathBuf, String)>,
    environment: Layer,
    flags: Layer,
}

/// What holds.
#[derive(Debug)]
pub(super) struct Effective {
    holds: Holds,
    pub(super) reach: Reach,
    /// The file that was read.
    file: Option<String>,
}

/// What the sources come to.
fn effective(said: Said) -> Result<Effective, Vec<Problem>> {
    let Said { file, environment, flags } = said;
    let (mut layers, mut reach, mut name) = (Vec::new(), Reach::default(), None);
    if let Some((path, text)) = file {
        let read = file::read(&text, &path)?;
        let path = path.display().to_string();
        layers.push((Origin::File(path.clone()), read.layer));
        (reach, name) = (read.reach, Some(path));
    }
    layers.push((Origin::Environment, environment));
    layers.push((Origin::Flag, flags));
    Ok(Effective { holds: layers::settle(layers)?, reach, file: name })
}

/// Why there is no configuration. What the arguments say wrong ends as clap's own refusals do.
fn refused(problems: Vec<Problem>) -> Failure {
    let of_flags = problems.iter().any(|problem| problem.of_flags);
    let mut hints: Vec<&str> = Vec::new();
    for problem in &problems {
        if !hints.contains(&problem.hint.as_str()) {
            hints.push(&problem.hint);
        }
    }
    let hint = hints.join("; ");
    let errors = problems.into_iter().map(|problem| problem.what).collect();
    let failure = Failure::many(errors).hint(hint);
    if of_flags { failure.exit(Exit::Usage) } else { failure }
}

/// Reads the environment and the file, and puts everything together. With it, what is odd and no
/// mistake.
pub(super) fn load(
    config: Option<&Path>,
    flags: Layer,
) -> Result<(Effective, Vec<String>), Failure> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let variables = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let environment::Environment { config: named, layer, warnings } = environment::read(variables);
    let (path, named_by) = match (config, named) {
        (Some(path), _) => (Some(path.to_owned()), "--config"),
        (None, named) => (named.map(PathBuf::from), environment::CONFIG),
    };
    let file = match path {
        None => None,
        Some(path) => match fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) => {
                let what = format!("{named_by}: cannot read {}: {error}", path.display());
                let hint = "it names the configuration file, which is TOML".to_owned();
                let of_flags = config.is_some();
                return Err(refused(vec![Problem { what, hint, of_flags }]));
            }
        },
    };
    let said = Said { file, environment: layer, flags };
    effective(said).map(|settings| (settings, warnings)).map_err(refused)
}

/// A certificate and its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct TlsFiles<'a> {
    pub(super) cert: &'a Path,
    pub(super) key: &'a Path,
}

/// How session tokens are verified.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sessions<'a> {
    pub(super) key: &'a Path,
    pub(super) algorithm: Algorithm,
    pub(super) audience: &'a str,
    pub(super) issuer: Option<&'a str>,
}

impl Effective {
    fn value(&self, key: Key) -> Option<&Value> {
        self.holds.get(&key).map(|given| &given.value)
    }

    fn path(&self, key: Key) -> Option<&Path> {
        match self.value(key) {
            Some(Value::Path(path)) => Some(path),
            _ => None,
        }
    }

    fn text(&self, key: Key) -> Option<&str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn is_on(&self, key: Key) -> bool {
        self.value(key) == Some(&Value::Switch(true))
    }

    pub(super) fn listen(&self) -> SocketAddr {
        match self.value(Key::Listen) {
            Some(Value::Address(address)) => *address,
            other => unreachable!("it is an address, and has a default: {other:?}"),
        }
    }

    pub(super) fn data(&self) -> &Path {
        self.path(Key::Data).expect("it has a default")
    }

    pub(super) fn keys(&self) -> bool {
        self.is_on(Key::Keys)
    }

    pub(super) fn behind_proxy(&self) -> bool {
        self.is_on(Key::BehindProxy)
    }

    pub(super) fn proxy_from_environment(&self) -> bool {
        self.is_on(Key::ProxyFromEnvironment)
    }

    pub(super) fn host_names(&self) -> &[String] {
        match self.value(Key::HostNames) {
            Some(Value::Names(names)) => names,
            _ => &[],
        }
    }

    pub(super) fn traces(&self) -> Option<&str> {
        self.text(Key::Traces)
    }

    pub(super) fn tls(&self) -> Option<TlsFiles<'_>> {
        Some(TlsFiles { cert: self.path(Key::TlsCert)?, key: self.path(Key::TlsKey)? })
    }

    pub(super) fn sessions(&self) -> Option<Sessions<'_>> {
        let (key, audience) = (self.path(Key::SessionKey)?, self.text(Key::SessionAudience)?);
        let algorithm = match self.value(Key::SessionAlgorithm) {
            Some(Value::Algorithm(algorithm)) => *algorithm,
            other => unreachable!("it is an algorithm, and has a default: {other:?}"),
        };
        Some(Sessions { key, algorithm, audience, issuer: self.text(Key::SessionIssuer) })
    }

    pub(super) fn retention(&self) -> Retention {
        let window = |key: Key| match self.value(key) {
            Some(Value::Window(window)) => window.micros(),
            _ => Window::Forever.micros(),
        };
        Retention {
            completed: window(Key::RetentionCompleted),
            failed: window(Key::RetentionFailed),
            cancelled: window(Key::RetentionCancelled),
        }
    }

    /// How a key is called where it was set, to say something of it.
    pub(super) fn called(&self, key: Key) -> String {
        layers::called(&self.holds, key)
    }

    /// As TOML, or as JSON. Paths are written from the root on, so that it means the same elsewhere.
    pub(super) fn printed(&self, json: bool) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if json { print::json(self, &absolute) } else { print::toml(self, &absolute) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The guide has every key, with its variable, flag and default, and no other.
    #[test]
    fn the_guide_lists_every_key() {
        let guide = include_str!("../../../../../docs/guides/configuration.md");
        let mut listed = BTreeSet::new();
        for line in guide.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = line.split('|').map(|cell| cell.trim().replace('`', "")).collect();
            if cells.get(2).is_some_and(|cell| cell.starts_with("INDELIBLE_")) {
                let flag = cells[3].split(' ').next().unwrap_or_default().to_owned();
                let row = (cells[1].clone(), cells[2].clone(), flag, cells[4].clone());
                assert!(listed.insert(row), "{line}");
            }
        }
        let default = |key: Key| match key.default() {
            None => "not set".to_owned(),
            Some(Value::Address(address)) => address.to_string(),
            Some(Value::Path(path)) => path.display().to_string(),
            Some(Value::Switch(on)) => on.to_string(),
            Some(Value::Names(_)) => "none".to_owned(),
            Some(Value::Text(text)) => text,
            Some(Value::Algorithm(algorithm)) => algorithm.name().to_owned(),
            Some(Value::Window(window)) => window.to_string(),
        };
        let known: BTreeSet<_> = Key::ALL
            .into_iter()
            .map(|key| {
                let (name, variable, flag) = (key.name(), key.variable(), key.flag());
                (name.to_owned(), variable.to_owned(), flag.to_owned(), default(key))
            })
            .collect();
        assert_eq!(listed, known);
    }

    /// The file that the guide shows can be read, and says what the guide says.
    #[test]
    fn the_guides_file_is_one() {
        let guide = include_str!("../../../../../docs/guides/configuration.md");
        let (_, rest) = guide.split_once("```toml\n").unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        let said = Said {
            file: Some(("/etc/indelible/indelible.toml".into(), text.to_owned())),
            ..Said::default()
        };
        let read = effective(said).unwrap();
        assert!(read.keys() && read.tls().is_some() && read.sessions().is_some());
        assert_eq!(read.tls().unwrap().cert, Path::new("/etc/indelible/chain.pem"));
        assert!(read.retention().completed.is_some() && read.retention().failed.is_some());
        assert!(!read.reach.components.is_empty() && !read.reach.secrets.is_empty());
    }

    /// What the arguments say wrong is told apart from what others do.
    #[test]
    fn whose_mistake_it_is() {
        let failure = |flags: Layer, environment: Layer| {
            let said = Said { flags, environment, ..Said::default() };
            refused(effective(said).unwrap_err())
        };
        let wrong = || vec![(Key::Listen, Raw::Text("x".into()))];
        assert_eq!(failure(wrong(), vec![]).code(), 2);
        let of_others = failure(vec![], wrong());
        assert_eq!(of_others.code(), 1);
        assert_eq!(
            of_others.to_string(),
            "error: INDELIBLE_LISTEN: \"x\" is no address\n\
             hint: an IP address and a port, as 127.0.0.1:7070 or [::1]:7070\n"
        );
        // Several mistakes are told at once, and what to do about each kind of them.
        let wrong = |key| (key, Raw::Text("x".into()));
        let flags = [Key::Listen, Key::RetentionFailed, Key::RetentionCompleted].map(wrong).into();
        let told = failure(flags, vec![]).to_string();
        assert_eq!(told.matches("error: ").count(), 3, "{told}");
        assert_eq!(told.matches("[::1]:7070; a number and a unit").count(), 1, "{told}");
        assert_eq!(told.matches("30d").count(), 1, "{told}");
    }
}
