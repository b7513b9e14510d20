//! Tables whose rows are a key and a sealed body, without an index: components and settings.

use bytes::Bytes;
use indelible_journal::ComponentDigest;
use indelible_store::{Batch, Read, ReadError, Scan, Seen, Table};

use super::{
    COMPONENTS, SETTINGS, codec, component_versions, cursor_key, hold, manifests, restores,
    retention_clock, tokens, truths,
};

const VERSION: u8 = 1;

/// The body of a row of one of these tables.
pub(crate) fn unseal(table: &Table, key: &Bytes, value: &Bytes) -> Result<Bytes, ReadError> {
    codec::unseal(table, key, VERSION, value)
}

/// Components, whole, by their digest.
pub mod components {
    use super::*;

    /// Adds a component to a batch, under its digest.
    pub fn put(batch: &mut Batch, component: &[u8]) -> ComponentDigest {
        let digest = ComponentDigest::of(component);
        codec::put(batch, COMPONENTS, key(&digest), VERSION, component);
        digest
    }

    /// Adds to a batch: this component is deleted.
    pub fn delete(batch: &mut Batch, digest: &ComponentDigest) {
        batch.delete(COMPONENTS, key(digest));
    }

    /// A component.
    pub fn get(
        read: &impl Read,
        digest: &ComponentDigest,
    ) -> Result<Seen<Option<Bytes>>, ReadError> {
        let key = key(digest);
        codec::get(read, COMPONENTS, &key, |value| unseal(&COMPONENTS, &key, value))
    }

    fn key(digest: &ComponentDigest) -> Bytes {
        Bytes::copy_from_slice(digest.as_bytes())
    }

    /// What is wrong with a row.
    pub(crate) fn check(key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let component = unseal(&COMPONENTS, key, value)?;
        if ComponentDigest::of(&component).as_bytes() == &key[..] {
            return Ok(());
        }
        Err(codec::damaged(&COMPONENTS, key, "its bytes do not match its digest"))
    }
}

/// Settings, by name. These modules define all of them: [`component_versions`], [`manifests`],
/// [`tokens`], [`truths`], [`cursor_key`], [`retention_clock`], [`restores`], [`hold`].
pub mod settings {
    use super::*;

    /// Adds to a batch: this setting has this value.
    pub fn put(batch: &mut Batch, name: &str, value: &[u8]) {
        codec::put(batch, SETTINGS, key(name), VERSION, value);
    }

    /// Adds to a batch: this setting is deleted.
    pub fn delete(batch: &mut Batch, name: &str) {
        batch.delete(SETTINGS, key(name));
    }

    /// A setting.
    pub fn get(read: &impl Read, name: &str) -> Result<Seen<Option<Bytes>>, ReadError> {
        let key = key(name);
        codec::get(read, SETTINGS, &key, |value| unseal(&SETTINGS, &key, value))
    }

    fn key(name: &str) -> Bytes {
        Bytes::copy_from_slice(name.as_bytes())
    }

    /// The value of the row for this setting.
    pub(crate) fn sealed(name: &str, value: &[u8]) -> Bytes {
        codec::seal(&SETTINGS, &key(name), VERSION, value)
    }

    /// A setting, decoded.
    pub(crate) fn read<T>(
        read: &impl Read,
        name: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Seen<Option<T>>, ReadError> {
        codec::decoded(read, get(read, name)?, |body| {
            body.map(|body| decode(&body).map_err(|what| damaged(name, what))).transpose()
        })
    }

    /// The settings whose names begin with this prefix, after `after`, at most `limit`. `decode`
    /// gets the rest of the name, and the value.
    pub(crate) fn next<T>(
        read: &impl Read,
        prefix: &str,
        after: Option<String>,
        limit: usize,
        decode: impl Fn(&str, &[u8]) -> Result<T, String>,
    ) -> Result<Seen<Vec<T>>, ReadError> {
        let mut scan = Scan::prefix(SETTINGS, key(prefix), limit);
        if let Some(after) = after {
            scan = scan.after(Bytes::from(after));
        }
        codec::scan(read, &scan, |key, value| {
            let body = unseal(&SETTINGS, key, value)?;
            let name = str::from_utf8(&key[prefix.len()..]).map_err(|error| error.to_string());
            let row = name.and_then(|name| decode(name, &body));
            row.map_err(|what| codec::damaged(&SETTINGS, key, what))
        })
    }

    pub(crate) fn damaged(name: &str, what: impl Into<String>) -> ReadError {
        codec::damaged(&SETTINGS, &key(name), what)
    }

    /// Checks a row of any setting.
    pub(crate) fn check(key: &Bytes, value: &Bytes) -> Result<(), ReadError> {
        let body = unseal(&SETTINGS, key, value)?;
        let name = String::from_utf8_lossy(key);
        let checked = if let Some(name) = name.strip_prefix(component_versions::PREFIX) {
            component_versions::decode(name, &body).map(drop)
        } else if let Some(digest) = name.strip_prefix(manifests::PREFIX) {
            manifests::check(digest, &body)
        } else if let Some(id) = name.strip_prefix(tokens::PREFIX) {
            tokens::decode(id, &body).map(drop)
        } else if name.starts_with(truths::PREFIX) {
            truths::decode(&name, &body).map(drop)
        } else if name == cursor_key::NAME {
            cursor_key::decode(&body).map(drop)
        } else if name == retention_clock::NAME {
            retention_clock::decode(&body).map(drop)
        } else if name == restores::NAME {
            restores::decode(&body).map(drop)
        } else if name == hold::NAME {
            hold::decode(&body).map(drop)
        } else {
            Err("unknown setting".to_owned())
        };
        checked.map_err(|what| codec::damaged(&SETTINGS, key, what))
    }
}
