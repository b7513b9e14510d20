//! What the file says that `--config` names: what components may reach, and their secrets.
#![expect(clippy::disallowed_methods, reason = "it reads the file that was named")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use indelible_http_client::{Client, Config, Grant, Grants, Proxies, SecretSource};
use serde::Deserialize;

use crate::failure::Failure;
use crate::run::egress::{networks, secret_source};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// By name.
    #[serde(default)]
    components: BTreeMap<String, Component>,
    /// Where each secret is.
    #[serde(default)]
    secrets: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Component {
    /// Hosts that it may send requests to.
    #[serde(default)]
    hosts: Vec<String>,
    /// Addresses that are not public, but may be reached.
    #[serde(default)]
    networks: Vec<String>,
    /// It may send without TLS.
    #[serde(default)]
    plain_http: bool,
    /// Secrets that it may send to those hosts.
    #[serde(default)]
    secrets: Vec<String>,
}

/// A client that does what the file allows; without one, nothing.
pub(super) fn client(file: Option<&Path>) -> Result<Client, Failure> {
    let unable = |error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Failure::new(format!("cannot set up HTTP: {error}{cause}"))
    };
    let (grants, secrets) = match file {
        None => (Grants::default(), BTreeMap::new()),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::new(format!("cannot read {}: {error}", path.display()))
            })?;
            parse(&text).map_err(|why| {
                Failure::new(format!("{}: {why}", path.display()))
                    .hint("indelible serve --help shows what the file may say")
            })?
        }
    };
    let proxies = Proxies::read(|name| std::env::var(name).ok());
    let proxies = proxies.map_err(|error| unable(&error))?;
    let config = Config { grants, secrets, proxies, ..Config::default() };
    Client::start(config).map_err(|error| unable(&error))
}

/// Err: what is wrong, with the key that it is about.
fn parse(text: &str) -> Result<(Grants, BTreeMap<String, SecretSource>), String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut secrets = BTreeMap::new();
    for (name, source) in &file.secrets {
        let source = secret_source(name, source).map_err(|why| format!("secrets.{name}: {why}"))?;
        secrets.insert(name.clone(), source);
    }
    let mut grants = Grants::default();
    for (name, component) in file.components {
        let at = |key: &str| format!("components.{name}.{key}");
        let mut grant = Grant { plain_http: component.plain_http, ..Grant::default() };
        for host in &component.hosts {
            let host = host.parse().map_err(|error| format!("{}: {error}", at("hosts")))?;
            grant.hosts.push(host);
        }
        for network in &component.networks {
            let found = networks(network).map_err(|why| format!("{}: {why}", at("networks")))?;
            grant.networks.extend(found);
        }
        for secret in component.secrets {
            if !secrets.contains_key(&secret) {
                return Err(format!("{}: {secret} is not under [secrets]", at("secrets")));
            }
            grant.secrets.insert(secret, Vec::new());
        }
        grants.insert(name, grant);
    }
    Ok((grants, secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the help shows can be read, and what is wrong is named.
    #[test]
    fn a_file_is_read_strictly() {
        let good = "[components.shop]\nhosts = [\"api.example.com\"]\nsecrets = [\"API_KEY\"]\n\
                    networks = [\"private\"]\n[secrets]\nAPI_KEY = \"env:SHOP_API_KEY\"\n";
        let (_, secrets) = parse(good).unwrap();
        assert_eq!(secrets.len(), 1);
        for (from, to, names) in [
            ("[\"private\"]", "[\"moon\"]", "components.shop.networks"),
            ("api.example.com", "http://x y", "components.shop.hosts"),
            ("env:SHOP_API_KEY", "hunter2", "secrets.API_KEY"),
            ("API_KEY = ", "OTHER = ", "components.shop.secrets"),
            ("hosts", "host", "host"),
        ] {
            let error = parse(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(names), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
