//! What components and messages may reach, and where secrets are: `[components.NAME]`,
//! `[deliveries]` and `[secrets]`.

use std::collections::BTreeMap;

use indelible_http_client::{Client, Config, Grant, Grants, HostPattern, SecretSource};
use indelible_runtime::delivery::DELIVERY_GRANT;
use serde::Deserialize;

use super::file::Tell;
use super::print::quoted;
use crate::failure::Failure;
use crate::run::egress::{networks, proxies, unable};

/// The tables for components and secrets, checked.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// By name.
    pub(super) components: BTreeMap<String, Component>,
    /// What messages may reach.
    pub(super) deliveries: Deliveries,
    /// Where each secret is.
    pub(super) secrets: BTreeMap<String, SecretSource>,
}

/// What a component may reach.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table, as [components.NAME]")]
pub(super) struct Component {
    /// Hosts that it may send requests to.
    pub(super) hosts: Vec<String>,
    /// Addresses that are not public and may be reached.
    pub(super) networks: Vec<String>,
    /// Whether it may send without TLS.
    pub(super) plain_http: bool,
    /// Secrets that it may send to those hosts.
    pub(super) secrets: Vec<String>,
}

/// What messages to endpoints may reach: any host with a public address, and these.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table, as [deliveries]")]
pub(super) struct Deliveries {
    /// Addresses that are not public and may be reached.
    pub(super) networks: Vec<String>,
    /// Whether they may be sent without TLS.
    pub(super) plain_http: bool,
}

impl Deliveries {
    fn grant(&self) -> Result<Grant, String> {
        let networks = self.networks.iter().map(|network| networks(network));
        Ok(Grant {
            any_host: true,
            networks: networks.collect::<Result<Vec<_>, _>>()?.concat(),
            plain_http: self.plain_http,
            ..Grant::default()
        })
    }
}

impl Component {
    /// The grant for the HTTP client; or the wrong key, and why.
    pub(super) fn grant(&self) -> Result<Grant, (&'static str, String)> {
        let hosts = self.hosts.iter().map(|host| host.parse::<HostPattern>());
        let hosts = hosts.collect::<Result<_, _>>().map_err(|why| ("hosts", why.to_string()))?;
        let networks = self.networks.iter().map(|network| networks(network));
        let networks = networks.collect::<Result<Vec<_>, _>>().map_err(|why| ("networks", why))?;
        Ok(Grant {
            hosts,
            networks: networks.concat(),
            secrets: self.secrets.iter().map(|own| (own.clone(), Vec::new())).collect(),
            plain_http: self.plain_http,
            ..Grant::default()
        })
    }
}

impl Reach {
    /// Reports invalid hosts and networks, and secrets that are missing under `[secrets]`.
    pub(super) fn check(&self, tell: Tell<'_>) {
        if let Err(why) = self.deliveries.grant() {
            let hint = "write networks as 10.1.0.0/16, loopback or private";
            tell("deliveries.networks", &why, hint);
        }
        for (name, component) in &self.components {
            let at = |key: &str| format!("components.{}.{key}", quoted(name));
            if let Err((key, why)) = component.grant() {
                tell(
                    &at(key),
                    &why,
                    "write hosts as api.example.com, networks as 10.1.0.0/16, loopback or private",
                );
            }
            for own in component.secrets.iter().filter(|own| !self.secrets.contains_key(*own)) {
                let what = format!("{own} is not under [secrets]");
                let hint = format!("add it under [secrets]: {} = \"env:VARIABLE\"", quoted(own));
                tell(&at("secrets"), &what, &hint);
            }
        }
    }

    /// A client that allows what the file says; nothing by default.
    pub(crate) fn client(&self, proxy_from_environment: bool) -> Result<Client, Failure> {
        let may_send = self.components.values().any(|component| !component.hosts.is_empty());
        let how = "proxy_from_environment = true, or --proxy-from-environment,";
        let proxies = proxies(proxy_from_environment, may_send, how)?;
        let mut grants = Grants::default();
        for (name, component) in &self.components {
            grants.insert(name, component.grant().expect("it was checked when the file was read"));
        }
        let deliveries = self.deliveries.grant().expect("it was checked when the file was read");
        grants.insert(DELIVERY_GRANT, deliveries);
        let config = Config { grants, secrets: self.secrets.clone(), proxies, ..Config::default() };
        Client::start(config).map_err(|error| {
            unable(
                &error,
                "set its source under [secrets] in the configuration \
                 file",
            )
        })
    }
}
