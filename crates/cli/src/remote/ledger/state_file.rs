//! Where the number of a client is kept, unless `--state-file` says.

use std::fmt::Write as _;
use std::path::PathBuf;

use indelible_client::Ledger;

use crate::failure::Failure;
use crate::remote::contexts;

/// A file for each server, namespace, vault and client, in the folder of the contexts.
pub(super) fn path(server: &str, ledger: &Ledger, client: &str) -> Result<PathBuf, Failure> {
    let folder = contexts::folder().ok_or_else(|| {
        Failure::new("there is no home folder to keep the client's number in")
            .hint("set HOME or XDG_CONFIG_HOME, or give --state-file FILE")
    })?;
    Ok(folder.join("ledger").join(within(server, ledger.namespace(), ledger.vault(), client)))
}

fn within(server: &str, namespace: Option<&str>, vault: Option<&str>, client: &str) -> PathBuf {
    // No name has an @ once it is encoded.
    let namespace = namespace.map_or_else(|| "@only".to_owned(), encoded);
    let vault = vault.map_or_else(|| "@namespace".to_owned(), encoded);
    [encoded(server), namespace, vault, format!("{}.state", encoded(client))].iter().collect()
}

/// A name as one part of a path: other characters than letters, digits, `-` and `_` as `%` and two
/// digits.
fn encoded(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            byte => _ = write!(name, "%{byte:02x}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two streams share a file, and no name leads out of the folder.
    #[test]
    fn each_stream_has_its_file() {
        let path = |namespace, vault, client| within("http://h:1", namespace, vault, client);
        assert_eq!(
            path(Some("shop"), Some("w"), "../till 1").to_str().unwrap(),
            "http%3a%2f%2fh%3a1/shop/w/%2e%2e%2ftill%201.state"
        );
        assert_eq!(
            path(None, None, "c"),
            PathBuf::from("http%3a%2f%2fh%3a1/@only/@namespace/c.state")
        );
        assert_ne!(path(Some("@only"), None, "c"), path(None, None, "c"));
    }
}
