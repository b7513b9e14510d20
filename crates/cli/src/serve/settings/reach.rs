//! What components may reach, and where their secrets are: `[components.NAME]` and `[secrets]`.

use std::collections::BTreeMap;

use indelible_http_client::{Client, Config, Grant, Grants, SecretSource};

use crate::failure::Failure;
use crate::run::egress::{networks, proxies, unable};

/// What the file says of components and secrets. It was checked when it was read.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// By name.
    pub(super) components: super::file::Components,
    /// Where each secret is.
    pub(super) secrets: BTreeMap<String, SecretSource>,
}

/// What a component may reach.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Component {
    /// Hosts that it may send requests to.
    pub(super) hosts: Vec<String>,
    /// Addresses that are not public, but may be reached.
    pub(super) networks: Vec<String>,
    /// It may send without TLS.
    pub(super) plain_http: bool,
    /// Secrets that it may send to those hosts.
    pub(super) secrets: Vec<String>,
}

impl Reach {
    /// A client that does what is allowed; unless something is said, nothing.
    pub(crate) fn client(&self, proxy_from_environment: bool) -> Result<Client, Failure> {
        let may_send = self.components.values().any(|component| !component.hosts.is_empty());
        let how = "proxy_from_environment = true, or --proxy-from-environment,";
        let proxies = proxies(proxy_from_environment, may_send, how)?;
        let (grants, secrets) = (self.grants(), self.secrets.clone());
        let config = Config { grants, secrets, proxies, ..Config::default() };
        Client::start(config)
            .map_err(|error| unable(&error, "[secrets] in the configuration file says where it is"))
    }

    fn grants(&self) -> Grants {
        let mut grants = Grants::default();
        for (name, component) in &self.components {
            let mut grant = Grant { plain_http: component.plain_http, ..Grant::default() };
            let hosts = component.hosts.iter().map(|host| host.parse());
            grant.hosts = hosts.collect::<Result<_, _>>().expect("they were checked");
            for network in &component.networks {
                grant.networks.extend(networks(network).expect("they were checked"));
            }
            grant.secrets = component.secrets.iter().map(|own| (own.clone(), Vec::new())).collect();
            grants.insert(name.clone(), grant);
        }
        grants
    }
}
