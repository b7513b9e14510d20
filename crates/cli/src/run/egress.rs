//! What a function that runs here may reach, and which secrets it may send: nothing by default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use indelible_http_client::{
    Client, Config, Grant, HostPattern, Network, Proxies, SecretError, SecretSource, StartError,
};

use crate::failure::Failure;

/// What the function may reach.
#[derive(Args)]
pub(super) struct Egress {
    /// A host that it may send HTTP requests to: api.example.com, *.example.com, 10.0.0.1:8080
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<HostPattern>,
    /// Addresses that are not public, but may be reached: loopback, private, or as 10.1.0.0/16
    #[arg(long, value_name = "NETWORK")]
    allow_network: Vec<Networks>,
    /// It may send without TLS
    #[arg(long)]
    allow_plain_http: bool,
    /// A secret that it may send to those hosts: NAME=env:VARIABLE, NAME=file:PATH, or NAME for the
    /// variable of that name
    #[arg(long = "secret", value_name = "NAME[=SOURCE]", value_parser = secret)]
    secrets: Vec<(String, SecretSource)>,
    /// Send its requests through the proxies that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY
    /// name
    #[arg(long)]
    proxy_from_environment: bool,
}

#[derive(Debug, Clone)]
struct Networks(Vec<Network>);

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        networks(text).map(Self)
    }
}

/// One network, or those that a word stands for.
pub(crate) fn networks(text: &str) -> Result<Vec<Network>, String> {
    match text {
        "loopback" => Ok(Network::loopback().to_vec()),
        "private" => Ok(Network::private().to_vec()),
        text => match text.parse() {
            Ok(network) => Ok(vec![network]),
            Err(error) => Err(format!("{error}; or one of the words loopback and private")),
        },
    }
}

fn secret(text: &str) -> Result<(String, SecretSource), String> {
    let (name, source) = text.split_once('=').unwrap_or((text, ""));
    if name.trim().is_empty() {
        return Err("the secret has no name".to_owned());
    }
    Ok((name.to_owned(), secret_source(name, source)?))
}

/// Where a secret is; by default the variable of its own name.
pub(crate) fn secret_source(name: &str, source: &str) -> Result<SecretSource, String> {
    match source.split_once(':') {
        None if source.is_empty() => Ok(SecretSource::Environment(name.to_owned())),
        Some(("env", variable)) if !variable.is_empty() => {
            Ok(SecretSource::Environment(variable.to_owned()))
        }
        Some(("file", path)) if !path.is_empty() => Ok(SecretSource::File(PathBuf::from(path))),
        // The given text may be the secret itself, so it is not shown.
        _ => Err(format!("give the source of {name} as env:VARIABLE or file:PATH")),
    }
}

/// The proxies for requests of functions: those of the environment if `wanted`, otherwise none. If
/// one is set there and not used, a warning says so, unless functions may send nothing anyway;
/// `how` is what turns it on.
#[expect(clippy::disallowed_methods, reason = "proxies are where people expect them")]
pub(crate) fn proxies(wanted: bool, may_send: bool, how: &str) -> Result<Proxies, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    if wanted {
        return Proxies::read(variable).map_err(|error| {
            Failure::new(format!("cannot set up HTTP: {error}"))
                .hint("correct the environment variable, or unset it")
        });
    }
    if let Some(name) = Proxies::named_by(variable).filter(|_| may_send) {
        crate::log::warn(&format!(
            "{name} is set and ignored: functions' requests go straight to their hosts; \
             {how} sends them through the proxies of the environment"
        ));
    }
    Ok(Proxies::default())
}

/// Why there is no client, with a hint; `where_secrets_are` is the hint for an unreadable secret.
pub(crate) fn unable(error: &StartError, where_secrets_are: &str) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    let hint = match error {
        StartError::Secret(SecretError::Unreadable { .. }) => where_secrets_are,
        StartError::Secret(SecretError::TooShort { .. }) => {
            "use a longer secret; a value that is not secret can be part of the function itself"
        }
        _ => "check the limits of this process with `ulimit -a`",
    };
    Failure::new(format!("cannot set up HTTP: {error}{cause}")).hint(hint)
}

impl Egress {
    /// A client that allows this component what the flags say.
    pub(super) fn client(&self, component: &str) -> Result<Client, Failure> {
        let secrets: BTreeMap<_, _> = self.secrets.iter().cloned().collect();
        let networks = self.allow_network.iter().flat_map(|networks| networks.0.clone());
        let may_send = !self.allow_host.is_empty();
        let how = "--proxy-from-environment";
        let proxies = proxies(self.proxy_from_environment, may_send, how)?;
        let grant = Grant {
            hosts: self.allow_host.clone(),
            networks: networks.collect(),
            secrets: secrets.keys().map(|name| (name.clone(), Vec::new())).collect(),
            plain_http: self.allow_plain_http,
            ..Grant::default()
        };
        let grants = [(component, grant)].into_iter().collect();
        let config = Config { grants, secrets, proxies, ..Config::default() };
        Client::start(config).map_err(|error| {
            unable(&error, "set its source with --secret NAME=env:VARIABLE or NAME=file:PATH")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_a_source() {
        let source = |text: &str| match secret(text) {
            Ok((name, SecretSource::Environment(variable))) => format!("{name} env {variable}"),
            Ok((name, SecretSource::File(path))) => format!("{name} file {}", path.display()),
            other => format!("{other:?}"),
        };
        assert_eq!(source("KEY"), "KEY env KEY");
        assert_eq!(source("KEY=env:OTHER"), "KEY env OTHER");
        assert_eq!(source("KEY=file:/run/key"), "KEY file /run/key");
        for wrong in ["=env:A", "KEY=hunter2", "KEY=env:", "KEY=value:x"] {
            let error = secret(wrong).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn networks_are_words_or_ranges() {
        assert_eq!("loopback".parse::<Networks>().unwrap().0.len(), 2);
        assert!(!"private".parse::<Networks>().unwrap().0.is_empty());
        assert_eq!("10.1.0.0/16".parse::<Networks>().unwrap().0.len(), 1);
        assert!("everything".parse::<Networks>().is_err());
    }
}
