//! What each component may do in the network. Nothing is allowed by itself. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::addresses::{Network, not_public};
use crate::host_pattern::HostPattern;
use crate::target::Origin;

/// What the components of one name may do.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// Where they may send requests.
    pub hosts: Vec<HostPattern>,
    /// Whether they may send to every host. Which addresses it may have is checked all the same.
    pub any_host: bool,
    /// Which private addresses those hosts may have. A host that is itself a private address needs
    /// one, too.
    pub networks: Vec<Network>,
    /// Which secrets they may send, and where: none listed means to all of `hosts`.
    pub secrets: BTreeMap<String, Vec<HostPattern>>,
    /// Whether they may send without TLS.
    pub plain_http: bool,
}

/// What every component may do, by its name.
#[derive(Debug, Clone, Default)]
pub struct Grants(BTreeMap<String, Arc<Grant>>);

impl Grants {
    /// Gives the components of this name a grant, in place of the one that they had.
    pub fn insert(&mut self, component: impl Into<String>, grant: Grant) {
        self.0.insert(component.into(), Arc::new(grant));
    }

    /// Takes a component's grant away.
    pub fn remove(&mut self, component: &str) {
        self.0.remove(component);
    }

    /// What a component that goes by all of these names may do: only what every name is granted.
    pub(crate) fn of(&self, components: &[String]) -> Result<AttemptGrants, String> {
        if components.is_empty() {
            return Err("a component without a name may not send requests".to_owned());
        }
        let grant = |name: &String| {
            let none = || {
                format!(
                    "the component `{name}` may not reach any host: grant hosts under \
                     [components.{name}] in the server's configuration, or with --allow-host \
                     of `indelible run`"
                )
            };
            self.0.get(name).cloned().ok_or_else(none)
        };
        components.iter().map(grant).collect::<Result<_, _>>().map(AttemptGrants)
    }
}

impl<N: Into<String>> FromIterator<(N, Grant)> for Grants {
    fn from_iter<I: IntoIterator<Item = (N, Grant)>>(grants: I) -> Self {
        Self(grants.into_iter().map(|(name, grant)| (name.into(), Arc::new(grant))).collect())
    }
}

/// What one attempt may do: every grant has to allow it.
#[derive(Debug, Clone)]
pub(crate) struct AttemptGrants(Vec<Arc<Grant>>);

impl AttemptGrants {
    /// Whether it may send to this origin, by its name. Its address is checked apart.
    pub(crate) fn host(&self, origin: &Origin) -> Result<(), String> {
        if !self.0.iter().all(|grant| grant.any_host || allows(&grant.hosts, origin)) {
            return Err(format!("{origin} is not among the hosts granted to the component"));
        }
        if !origin.tls && !self.0.iter().all(|grant| grant.plain_http) {
            return Err(format!(
                "{origin} does not use TLS, and the component is not granted plain HTTP"
            ));
        }
        Ok(())
    }

    /// Whether it may connect to this very address.
    pub(crate) fn address(&self, address: IpAddr) -> Result<(), String> {
        let Some(kind) = not_public(address) else { return Ok(()) };
        let named = |grant: &Arc<Grant>| grant.networks.iter().any(|own| own.contains(address));
        if self.0.iter().all(named) {
            return Ok(());
        }
        Err(format!(
            "{address} is {kind}, which is in none of the networks granted to the component"
        ))
    }

    /// Whether it may send this secret there.
    pub(crate) fn secret(&self, name: &str, origin: &Origin) -> Result<(), String> {
        for grant in &self.0 {
            let Some(hosts) = grant.secrets.get(name) else {
                return Err(format!("the component is not granted the secret `{name}`"));
            };
            if !hosts.is_empty() && !allows(hosts, origin) {
                return Err(format!("the secret `{name}` may not be sent to {origin}"));
            }
        }
        Ok(())
    }
}

fn allows(hosts: &[HostPattern], origin: &Origin) -> bool {
    hosts.iter().any(|pattern| pattern.matches(origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn grant(hosts: &[&str], networks: &[&str]) -> Grant {
        Grant {
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            ..Grant::default()
        }
    }

    fn origin(url: &str) -> Origin {
        Target::parse(url).unwrap().origin
    }

    fn of(grants: &Grants, names: &[&str]) -> Result<AttemptGrants, String> {
        grants.of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_is_allowed_by_itself() {
        let grants = Grants::from_iter([("a", Grant::default())]);
        assert!(of(&grants, &[]).is_err());
        assert!(of(&grants, &["b"]).is_err());
        assert!(of(&grants, &["a", "b"]).is_err());
        let granted = of(&grants, &["a"]).unwrap();
        assert!(granted.host(&origin("https://example.com/")).is_err());
        assert!(granted.secret("KEY", &origin("https://example.com/")).is_err());
        assert!(granted.address("127.0.0.1".parse().unwrap()).is_err());
        assert!(granted.address("1.1.1.1".parse().unwrap()).is_ok());
    }

    #[test]
    fn several_names_may_do_what_all_may() {
        let a = grant(&["x.example", "y.example"], &["10.0.0.0/8", "127.0.0.0/8"]);
        let b = grant(&["*.example", "z.test"], &["127.0.0.1"]);
        let c = Grant { plain_http: true, ..grant(&["x.example"], &[]) };
        let grants = Grants::from_iter([("a", a), ("b", b), ("c", c)]);
        let both = of(&grants, &["a", "b"]).unwrap();
        assert!(both.host(&origin("https://x.example/")).is_ok());
        assert!(both.host(&origin("https://z.test/")).is_err());
        assert!(both.address("127.0.0.1".parse().unwrap()).is_ok());
        assert!(both.address("10.0.0.1".parse().unwrap()).is_err());
        let plain = |names: &[&str]| of(&grants, names).unwrap().host(&origin("http://x.example/"));
        assert!(plain(&["c"]).is_ok());
        assert!(plain(&["a", "c"]).is_err());
    }

    #[test]
    fn a_secret_goes_where_it_may() {
        let mut first = grant(&["x.example", "y.example"], &[]);
        first.secrets.insert("EVERYWHERE".into(), vec![]);
        first.secrets.insert("X".into(), vec!["x.example".parse().unwrap()]);
        let mut second = grant(&["*.example"], &[]);
        second.secrets.insert("EVERYWHERE".into(), vec![]);
        let grants = Grants::from_iter([("first", first), ("second", second)]);
        let granted = of(&grants, &["first"]).unwrap();
        let (x, y) = (origin("https://x.example/"), origin("https://y.example/"));
        assert!(granted.secret("EVERYWHERE", &y).is_ok());
        assert!(granted.secret("X", &x).is_ok());
        assert!(granted.secret("X", &y).is_err());
        assert!(granted.secret("OTHER", &x).is_err());
        let both = of(&grants, &["first", "second"]).unwrap();
        assert!(both.secret("EVERYWHERE", &x).is_ok());
        assert!(both.secret("X", &x).is_err());
    }
}
