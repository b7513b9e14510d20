//! The file of known servers and their tokens: only its owner may read it.
#![expect(clippy::disallowed_methods, reason = "it reads and writes the user's own file")]

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::syntax;

/// A known server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// The certificates to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ca: Option<PathBuf>,
}

/// All known servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contexts {
    /// The context to use if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    contexts: BTreeMap<String, Context>,
}

impl Contexts {
    pub(super) fn get(&self, name: &str) -> Option<&Context> {
        self.contexts.get(name)
    }

    /// The context in use, unless it was removed.
    pub(super) fn current(&self) -> Option<(&str, &Context)> {
        let name = self.current.as_deref()?;
        Some((name, self.contexts.get(name)?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Context)> {
        self.contexts.iter().map(|(name, context)| (name.as_str(), context))
    }

    /// Adds or changes a context; the first one becomes the one in use.
    pub(super) fn insert(&mut self, name: &str, context: Context) {
        self.contexts.insert(name.to_owned(), context);
        if self.current().is_none() {
            self.current = Some(name.to_owned());
        }
    }

    /// Fails if there is no context of this name.
    pub(super) fn choose(&mut self, name: &str) -> Result<(), Failure> {
        if !self.contexts.contains_key(name) {
            return Err(self.unknown(name));
        }
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Fails if there is no context of this name.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        if self.contexts.remove(name).is_none() {
            return Err(self.unknown(name));
        }
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
        Ok(())
    }

    pub(super) fn unknown(&self, name: &str) -> Failure {
        let names: Vec<String> = self.contexts.keys().cloned().collect();
        let hint = "indelible context add NAME --url URL";
        Failure::new(format!("there is no context {name:?}")).list(names).hint(hint)
    }

    /// Fails with the place and kind of the mistake.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| syntax::at(text, &error))
    }

    /// The saved contexts; none if there is no file.
    pub(super) fn load() -> Result<Self, Failure> {
        match file() {
            Some(path) => Self::read(&path),
            None => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let unreadable = |error: io::Error| {
            Failure::new(format!("cannot read {shown}: {error}"))
                .hint("it must be a text file that you can read: fix it, or remove it")
        };
        let metadata = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            metadata => metadata.map_err(unreadable)?,
        };
        let mode = metadata.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Failure::new(format!(
                "{shown} contains credentials, and other users can read it"
            ))
            .hint(format!("chmod 600 {shown}")));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text).map_err(|why| {
            Failure::new(format!("{shown}:{why}")).hint("fix the file, or remove it")
        })
    }

    /// Writes a new file and renames it, so that the file is whole, and unreadable to other users,
    /// at every moment.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let path = file().ok_or_else(|| {
            Failure::new("there is no home folder to save the context in")
                .hint("set HOME or XDG_CONFIG_HOME")
        })?;
        self.write(&path).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", path.display()))
                .hint("nothing was changed; check the permissions of its folder, and the disk")
        })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        // If the path is a link, its target is replaced, and the link stays.
        let path = &match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let text = toml::to_string(self).map_err(io::Error::other)?;
        let aside = folder.join(format!(".contexts.{}", std::process::id()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside);
        let written = written.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&aside, path)
        });
        if written.is_err() {
            // The first error is the one to report.
            _ = fs::remove_file(&aside);
        }
        written
    }
}

/// Where the file is: in the user's folder for configuration.
pub(super) fn file() -> Option<PathBuf> {
    Some(folder()?.join("contexts.toml"))
}

/// The user's folder for what commands remember.
pub(super) fn folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))?;
    Some(folder.join("indelible"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A saved file reads back the same, and other users cannot read it.
    #[test]
    fn a_file_of_ones_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("indelible").join("contexts.toml");
        assert_eq!(Contexts::read(&path).unwrap(), Contexts::default());
        let mut contexts = Contexts::default();
        let context = Context { url: "https://x".to_owned(), ..Context::default() };
        contexts.insert("a", context.clone());
        contexts.insert("b", Context { token: Some("ind_\"b".to_owned()), ..context });
        contexts.write(&path).unwrap();
        assert_eq!(Contexts::read(&path).unwrap(), contexts);
        assert_eq!(contexts.current().unwrap().0, "a");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Contexts::read(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        assert!(!refused.contains("ind_"), "{refused}");
    }

    /// A file behind a link is written in place, and the link stays.
    #[test]
    fn a_linked_file() {
        let folder = tempfile::tempdir().unwrap();
        let (link, kept) = (folder.path().join("contexts.toml"), folder.path().join("kept/file"));
        fs::create_dir(folder.path().join("kept")).unwrap();
        Contexts::default().write(&kept).unwrap();
        std::os::unix::fs::symlink("kept/file", &link).unwrap();
        let mut contexts = Contexts::default();
        contexts.insert("a", Context { url: "https://x".to_owned(), ..Context::default() });
        contexts.write(&link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(Contexts::read(&kept).unwrap(), contexts);
        assert_eq!(fs::read_dir(folder.path().join("kept")).unwrap().count(), 1);
    }

    /// A file that cannot be read or written gives an error with a hint.
    #[test]
    fn a_file_that_cannot_be_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contexts.toml");
        fs::write(&path, b"\xff").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let refused = Contexts::read(&path).unwrap_err().to_string();
        assert!(refused.contains("cannot read") && refused.contains("hint: "), "{refused}");
        assert!(Contexts::default().write(&path.join("below")).is_err());
    }

    /// An unknown key is an error, and no error shows a credential.
    #[test]
    fn a_file_is_read_strictly() {
        let told = |line: &str| {
            let text = format!("[contexts.a]\nurl = \"x\"\n{line}\n");
            Contexts::parse(&text).unwrap_err()
        };
        for line in ["token = ind_secret", "tokn = \"ind_secret\"", "token = \"ind_secret"] {
            let told = told(line);
            assert!(told.starts_with("3:") && !told.contains("secret"), "{told}");
        }
        assert!(told("tokn = \"ind_secret\"").contains("`tokn`"));
        let nested = Contexts::parse("[contexts]\na = \"ind_secret\"").unwrap_err();
        assert!(nested.starts_with("2:5: ") && !nested.contains("secret"), "{nested}");
        assert!(Contexts::parse("[contexts.a]\n").is_err());
        let mut contexts = Contexts::parse("current = \"gone\"").unwrap();
        assert_eq!(contexts.current(), None);
        assert!(contexts.choose("gone").is_err());
        assert!(contexts.remove("gone").is_err());
    }
}
