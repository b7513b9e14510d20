//! The configuration of `indelible serve`, in rising precedence: built-in defaults, a file, the
//! environment, flags. Reading and rules are pure; only [`load`] does I/O.
//!
//! - `keys`: every key. `value`: the kinds of values. `layers`: which source goes before which, and
//!   which keys contradict each other.
//! - `file`, `environment`: the settings in these two. `reach`: what components may reach, which
//!   only the file sets.
//! - `print`: the configuration as it stands.
#![expect(clippy::disallowed_methods, reason = "it reads the file that was named")]

mod environment;
mod file;
mod keys;
mod layers;
pub(super) mod print;
mod reach;
mod value;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use indelible_runtime::Retention;
use serde::de::DeserializeOwned;

use self::environment::CONFIG;
pub(super) use self::layers::Layer;
use self::layers::{Holds, Origin, Problem};
use self::reach::Reach;
use self::value::Window;
pub(super) use self::value::{Algorithm, Value};
use crate::failure::{Exit, Failure};

/// The effective configuration. Keys are named as in the file.
#[derive(Debug)]
pub(super) struct Settings {
    holds: Holds,
    pub(super) reach: Reach,
    file: Option<String>,
}

/// Combines a file's name and text, the environment and the flags.
fn settings(
    file: Option<(PathBuf, String)>,
    environment: Layer,
    flags: Layer,
) -> Result<Settings, Vec<Problem>> {
    let (name, (of_file, reach)) = match file {
        Some((path, text)) => (Some(path.display().to_string()), file::read(&text, &path)?),
        None => (None, Default::default()),
    };
    let of_file = (Origin::File(name.clone().unwrap_or_default()), of_file);
    let holds =
        layers::settle([of_file, (Origin::Environment, environment), (Origin::Flag, flags)])?;
    Ok(Settings { holds, reach, file: name })
}

/// The error for a wrong configuration. A wrong flag has the exit code of clap's own refusals.
fn refused(problems: Vec<Problem>) -> Failure {
    let of_flags = problems.iter().any(|problem| problem.of_flags);
    let (mut errors, mut hints) = (Vec::new(), Vec::new());
    for Problem { what, hint, .. } in problems {
        errors.push(what);
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    let failure = Failure::many(errors).hint(hints.join("; "));
    if of_flags { failure.exit(Exit::Usage) } else { failure }
}

/// Reads the environment and the file, and combines everything. Also returns warnings.
pub(super) fn load(
    config: Option<&Path>,
    flags: Layer,
) -> Result<(Settings, Vec<String>), Failure> {
    let (environment, warnings) = environment::read(std::env::vars_os());
    let (path, named_by) = match config {
        Some(path) => (Some(path.into()), "--config"),
        None => (std::env::var_os(CONFIG).filter(|path| !path.is_empty()), CONFIG),
    };
    let read = |path: OsString| match fs::read_to_string(&path) {
        Ok(text) => Ok((path.into(), text)),
        Err(error) => {
            let what = format!("{named_by}: cannot read {}: {error}", path.display());
            let hint = "give the path of a configuration file in TOML".to_owned();
            Err(vec![Problem { what, hint, of_flags: config.is_some() }])
        }
    };
    let file = path.map(read).transpose().map_err(refused)?;
    Ok((settings(file, environment, flags).map_err(refused)?, warnings))
}

impl Settings {
    /// The value of a key that is no path.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        match &self.holds.get(key)?.value {
            Value::Toml(value) => value.clone().try_into().ok(),
            Value::Text(_) => None,
        }
    }

    pub(super) fn path(&self, key: &str) -> Option<&Path> {
        match &self.holds.get(key)?.value {
            Value::Text(path) => Some(Path::new(path)),
            Value::Toml(_) => None,
        }
    }

    pub(super) fn is_on(&self, key: &str) -> bool {
        self.get(key) == Some(true)
    }

    pub(super) fn data(&self) -> &Path {
        self.path("data").expect("it has a default")
    }

    pub(super) fn retention(&self) -> Retention {
        let [completed, failed, cancelled] =
            ["retention.completed", "retention.failed", "retention.cancelled"]
                .map(|key| self.get::<Window>(key).and_then(|window| window.0));
        Retention { completed, failed, cancelled }
    }

    /// The name of a key in messages, by where it was set. The key must be set.
    pub(super) fn called(&self, key: &str) -> &str {
        &self.holds[key].called
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::serve::settings::keys::{KEYS, TABLES};

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
        let known: BTreeSet<_> = KEYS
            .iter()
            .map(|key| {
                let default = match key.default {
                    None => "not set",
                    Some("") => "none",
                    Some(default) => default,
                };
                (key.name.to_owned(), key.variable.to_owned(), key.flag(), default.to_owned())
            })
            .collect();
        assert_eq!(listed, known);
        let tables = KEYS.iter().filter_map(|key| Some(key.name.split_once('.')?.0));
        assert_eq!(tables.collect::<BTreeSet<_>>(), TABLES.into());
    }

    /// The example file of the guide can be read, and has the values that the guide says.
    #[test]
    fn the_guides_file_is_one() {
        let guide = include_str!("../../../../../docs/guides/configuration.md");
        let (_, rest) = guide.split_once("```toml\n").unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        let file = ("/etc/indelible/indelible.toml".into(), text.to_owned());
        let read = settings(Some(file), Layer::new(), Layer::new()).unwrap();
        assert!(read.is_on("keys") && read.path("sessions.key").is_some());
        assert_eq!(read.get("sessions.algorithm"), Some(Algorithm::Es256));
        assert_eq!(read.path("tls.cert"), Some(Path::new("/etc/indelible/chain.pem")));
        assert!(read.retention().completed.is_some() && read.retention().failed.is_some());
        assert!(!read.reach.components.is_empty() && !read.reach.secrets.is_empty());
    }

    /// A mistake in a flag is told apart from other mistakes.
    #[test]
    fn whose_mistake_it_is() {
        let failure = |flags: Layer, environment: Layer| {
            refused(settings(None, environment, flags).unwrap_err())
        };
        let wrong = || vec![("listen", Value::Text("x".into()))];
        assert_eq!(failure(wrong(), vec![]).code(), 2);
        let of_others = failure(vec![], wrong());
        assert_eq!(of_others.code(), 1);
        assert_eq!(
            of_others.to_string(),
            "error: INDELIBLE_LISTEN: \"x\" is not a valid address\n\
             hint: an IP address and a port, as 127.0.0.1:7070 or [::1]:7070\n"
        );
        // Several mistakes are reported at once, with a hint for each kind.
        let wrong = |key| (key, Value::Text("x".into()));
        let flags = ["listen", "retention.failed", "retention.completed"].map(wrong).into();
        let told = failure(flags, vec![]).to_string();
        assert_eq!(told.matches("error: ").count(), 3, "{told}");
        assert_eq!(told.matches("[::1]:7070; a number and a unit").count(), 1, "{told}");
        assert_eq!(told.matches("30d").count(), 1, "{told}");
    }
}
