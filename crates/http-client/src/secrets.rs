//! Secrets: where they come from, and that they show up nowhere but in requests.
//!
//! A request names a secret; its value is put in when the request leaves. If a peer sends it back,
//! it is taken out of the answer before the answer is journaled or shown. It is found in any mix of
//! upper and lower case, because the names of headers arrive in lower case. It is not found if the
//! peer sends it back encoded.
#![expect(clippy::disallowed_methods, reason = "secrets are read from files and the environment")]

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use indelible_http::Response;
use tokio::time::Instant;

/// The shortest secret, in bytes. A shorter text is in answers by chance: taking it out would damage
/// them, and leaving it there would show the secret, so such a value is refused.
pub const REDACTED_BYTES_MIN: usize = 8;

/// How long a file is believed not to have changed.
const FILE_FRESH: Duration = Duration::from_secs(1);

/// The largest secret, in bytes.
pub const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// A secret's value. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// This value.
    pub fn new(value: impl AsRef<[u8]>) -> Self {
        Self(value.as_ref().into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_short(&self) -> bool {
        self.0.len() < REDACTED_BYTES_MIN
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret comes from.
#[derive(Debug, Clone)]
pub enum SecretSource {
    /// A variable of the environment, read at the start.
    Environment(String),
    /// A file, without one line end at its end. Read again when it has changed.
    File(PathBuf),
    /// This value.
    Value(Secret),
}

/// A secret that cannot be used. No message shows anything of a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no value.
    #[error("the secret `{name}` cannot be read: {why}")]
    Unreadable {
        /// Which secret.
        name: String,
        /// Why.
        why: String,
    },
    /// The value has fewer bytes than [`REDACTED_BYTES_MIN`].
    #[error(
        "the secret `{name}` has fewer than {REDACTED_BYTES_MIN} bytes: it could not be redacted \
         if a response contained it"
    )]
    TooShort {
        /// Which secret.
        name: String,
    },
}

/// All secrets, with their values.
#[derive(Debug)]
pub(crate) struct Vault(BTreeMap<String, LoadedSecret>);

#[derive(Debug)]
enum LoadedSecret {
    Value(Secret),
    File { path: PathBuf, held: Mutex<SecretText> },
}

impl LoadedSecret {
    fn secret(&self) -> Secret {
        match self {
            Self::Value(secret) => secret.clone(),
            Self::File { held, .. } => {
                held.lock().unwrap_or_else(PoisonError::into_inner).secret.clone()
            }
        }
    }
}

#[derive(Debug)]
struct SecretText {
    secret: Secret,
    modified: Option<SystemTime>,
    looked: Instant,
}

impl Vault {
    pub(crate) fn open(sources: BTreeMap<String, SecretSource>) -> Result<Self, SecretError> {
        let open = |(name, source)| {
            let kept = match source {
                SecretSource::Value(secret) => LoadedSecret::Value(secret),
                SecretSource::Environment(variable) => match std::env::var(&variable) {
                    Ok(value) => LoadedSecret::Value(Secret::new(value)),
                    Err(_) => {
                        let why = format!(
                            "the environment variable `{variable}` is not set, or is not text"
                        );
                        return Err(SecretError::Unreadable { name, why });
                    }
                },
                SecretSource::File(path) => match read(&path) {
                    Ok(held) => LoadedSecret::File { path, held: Mutex::new(held) },
                    Err(error) => {
                        return Err(SecretError::Unreadable { name, why: error.to_string() });
                    }
                },
            };
            if kept.secret().is_short() {
                return Err(SecretError::TooShort { name });
            }
            Ok((name, kept))
        };
        sources.into_iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// The secret of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<Secret> {
        match self.0.get(name)? {
            LoadedSecret::Value(secret) => Some(secret.clone()),
            LoadedSecret::File { path, held } => {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                if held.looked.elapsed() >= FILE_FRESH {
                    held.looked = Instant::now();
                    let modified = std::fs::metadata(path).and_then(|data| data.modified()).ok();
                    // If the file is gone, empty, half written or too short, the old value stays,
                    // and the file is read again next time.
                    if modified != held.modified
                        && let Ok(new) = read(path)
                        && !new.secret.is_short()
                    {
                        *held = new;
                    }
                }
                Some(held.secret.clone())
            }
        }
    }
}

fn read(path: &PathBuf) -> std::io::Result<SecretText> {
    let data = std::fs::metadata(path)?;
    if data.len() > SECRET_BYTES_MAX {
        return Err(std::io::Error::other("the file is too large for a secret"));
    }
    let bytes = std::fs::read(path)?;
    let value = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    Ok(SecretText {
        secret: Secret::new(value),
        modified: data.modified().ok(),
        looked: Instant::now(),
    })
}

/// The secrets that one request carries.
#[derive(Debug, Default)]
pub(crate) struct Used(Vec<(String, Secret)>);

impl Used {
    pub(crate) fn add(&mut self, name: &str, secret: Secret) {
        if !self.0.iter().any(|(own, _)| own == name) {
            self.0.push((name.to_owned(), secret));
            // A secret may be a part of another: the longer one goes first.
            self.0.sort_by_key(|(_, secret)| std::cmp::Reverse(secret.bytes().len()));
        }
    }

    /// The answer without them.
    pub(crate) fn redact(&self, response: &mut Response) {
        for (name, secret) in &self.0 {
            for (header, value) in &mut response.headers {
                if let Some(clean) = without(value, name, secret) {
                    *value = clean.into();
                }
                if let Some(clean) = without(header.as_bytes(), name, secret) {
                    *header = String::from_utf8_lossy(&clean).into_owned();
                }
            }
            if let Some(clean) = without(&response.body, name, secret) {
                response.body = Bytes::from(clean);
            }
        }
    }

    /// The text without them.
    pub(crate) fn redact_text(&self, text: String) -> String {
        let clean = |text: String, (name, secret): &(String, Secret)| {
            let clean = without(text.as_bytes(), name, secret);
            clean.map_or(text, |clean| String::from_utf8_lossy(&clean).into_owned())
        };
        self.0.iter().fold(text, clean)
    }
}

/// The bytes with every occurrence of the secret replaced, in upper and lower case; `None` if there
/// is no occurrence.
fn without(bytes: &[u8], name: &str, secret: &Secret) -> Option<Vec<u8>> {
    let secret = secret.bytes();
    let mut place = find(bytes, secret)?;
    let mut rest = bytes;
    let mut clean = Vec::with_capacity(bytes.len());
    loop {
        clean.extend_from_slice(&rest[..place]);
        clean.extend_from_slice(b"[secret ");
        clean.extend_from_slice(name.as_bytes());
        clean.push(b']');
        rest = &rest[place + secret.len()..];
        match find(rest, secret) {
            Some(next) => place = next,
            None => break,
        }
    }
    clean.extend_from_slice(rest);
    Some(clean)
}

/// The first occurrence, in upper or lower case. Skips from one occurrence of its first byte to the
/// next.
fn find(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    let (first, last) = (*sought.first()?, bytes.len().checked_sub(sought.len())?);
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let mut from = 0;
    while from <= last {
        from += bytes[from..=last].iter().position(|byte| *byte == lower || *byte == upper)?;
        if bytes[from..from + sought.len()].eq_ignore_ascii_case(sought) {
            return Some(from);
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("hunter22hunter22");
        let source = SecretSource::Value(secret.clone());
        let vault = Vault::open([("KEY".to_owned(), source.clone())].into()).unwrap();
        let mut used = Used::default();
        used.add("KEY", secret.clone());
        for text in [
            format!("{secret:?}"),
            format!("{source:?}"),
            format!("{vault:?}"),
            format!("{used:?}"),
        ] {
            assert!(text.contains("Secret(…)") && !text.contains("hunter"), "{text}");
        }
    }

    #[test]
    fn a_secret_is_taken_out_of_an_answer() {
        let mut used = Used::default();
        used.add("PART", Secret::new("passWord"));
        used.add("KEY", Secret::new("passWord1"));
        let mut response = Response {
            status: 200,
            headers: vec![("x-password".into(), Bytes::from_static(b"a PASSWORD1"))],
            body: Bytes::from_static(b"passWord1PassWordpasspassword12"),
        };
        used.redact(&mut response);
        assert_eq!(response.headers[0].1, "a [secret KEY]");
        assert_eq!(response.headers[0].0, "x-[secret PART]");
        assert_eq!(response.body, "[secret KEY][secret PART]pass[secret KEY]2");
        assert_eq!(used.redact_text("no Password1 here".into()), "no [secret KEY] here");
        // Only ASCII letters have a case here.
        used.add("LETTERS", Secret::new("äöü@[`{k"));
        let text = "ÄÖÜ@[`{k \u{c4}äöü`{@[K äöü@[`{K";
        assert_eq!(used.redact_text(text.into()), "ÄÖÜ@[`{k \u{c4}äöü`{@[K [secret LETTERS]");
    }

    #[test]
    fn a_file_is_a_secret_without_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "the first\n\n").unwrap();
        let sources = BTreeMap::from([("KEY".to_owned(), SecretSource::File(path.clone()))]);
        let vault = Vault::open(sources.clone()).unwrap();
        assert_eq!(vault.get("KEY"), Some(Secret::new("the first\n")));
        assert_eq!(vault.get("OTHER"), None);
        // Makes the value as old as if time had passed since it was read.
        let age = |vault: &Vault| match &vault.0["KEY"] {
            LoadedSecret::File { held, .. } => {
                let mut held = held.lock().unwrap();
                held.looked = held.looked.checked_sub(FILE_FRESH).unwrap();
                held.modified = held.modified.and_then(|m| m.checked_sub(FILE_FRESH));
            }
            LoadedSecret::Value(_) => unreachable!(),
        };
        let second = Some(Secret::new("the second"));
        std::fs::write(&path, "the second\r\n").unwrap();
        age(&vault);
        assert_eq!(vault.get("KEY"), second);
        // Empty, as a file is that is being written, and too short.
        for text in ["", "seven b\n"] {
            std::fs::write(&path, text).unwrap();
            age(&vault);
            assert_eq!(vault.get("KEY"), second, "the value that there was");
        }
        std::fs::write(&path, "the third").unwrap();
        age(&vault);
        let third = Some(Secret::new("the third"));
        assert_eq!(vault.get("KEY"), third);
        std::fs::remove_file(&path).unwrap();
        age(&vault);
        assert_eq!(vault.get("KEY"), third, "the value that there was");
        assert!(Vault::open(sources).is_err());
    }

    /// A value too short to be found in an answer is refused, wherever it comes from.
    #[test]
    fn a_short_secret_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let value = |text: &str| SecretSource::Value(Secret::new(text));
        let file = |text: &str| {
            std::fs::write(&path, text).unwrap();
            SecretSource::File(path.clone())
        };
        for (short, source) in [
            ("", value("")),
            ("hunter2", value("hunter2")),
            ("", file("\n")),
            // The line end does not count.
            ("hunter2", file("hunter2\r\n")),
        ] {
            let error = Vault::open([("KEY".to_owned(), source)].into()).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(matches!(error, SecretError::TooShort { .. }), "{text}");
            assert!(text.contains("`KEY`") && text.contains("fewer than 8 bytes"), "{text}");
            assert!(short.is_empty() || !text.contains(short), "{text}");
        }
        assert!(Vault::open([("KEY".to_owned(), value("hunter22"))].into()).is_ok());
    }

    #[test]
    fn a_variable_that_is_missing_is_named() {
        let source = SecretSource::Environment("INDELIBLE_NO_SUCH_VARIABLE".into());
        let error = Vault::open([("KEY".to_owned(), source)].into()).unwrap_err();
        assert!(error.to_string().contains("`KEY`"), "{error}");
        let source = SecretSource::Environment("CARGO_PKG_NAME".into());
        let vault = Vault::open([("KEY".to_owned(), source)].into()).unwrap();
        assert_eq!(vault.get("KEY"), Some(Secret::new("indelible-http-client")));
    }

    proptest! {
        #[test]
        fn what_is_found_is_where_it_is(bytes in "[abAB]{0,40}", sought in "[abAB]{1,9}") {
            let place = bytes.to_lowercase().find(&sought.to_lowercase());
            prop_assert_eq!(find(bytes.as_bytes(), sought.as_bytes()), place);
        }

        #[test]
        fn what_is_replaced_is_gone(bytes in "[ab]{0,60}", sought in "[ab]{8,9}") {
            let clean = without(bytes.as_bytes(), "X", &Secret::new(&sought));
            let expected = bytes.replace(&sought, "[secret X]");
            prop_assert_eq!(clean.unwrap_or(bytes.into_bytes()), expected.into_bytes());
        }
    }
}
