//! From names to addresses. One lookup of a name is under way at a time, and all attempts that need
//! the name share it: lookups take threads, and a name server that does not answer for one name must
//! not take them from all others.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The addresses of a name, when they are known.
pub type AddressFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of names.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// The addresses of this name, in the order in which they are tried.
    fn resolve<'a>(&'a self, name: &'a str) -> AddressFuture<'a>;
}

/// What the system says: its files and its name servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> AddressFuture<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            let mut addresses = Vec::new();
            for address in found.map(|socket| socket.ip()) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            Ok(addresses)
        })
    }
}

/// The result of a lookup. All attempts that share the lookup get the error, so it is kept as parts
/// that can be cloned.
type LookupResult = Result<Vec<IpAddr>, (io::ErrorKind, String)>;

/// The lookups that are under way, by name.
#[derive(Debug, Clone)]
pub(crate) struct Lookups {
    resolver: Arc<dyn Resolve>,
    under_way: Arc<Mutex<HashMap<String, watch::Receiver<Option<LookupResult>>>>>,
}

impl Lookups {
    pub(crate) fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, under_way: Arc::default() }
    }

    /// The addresses of this name, by the lookup that is under way or by a new one.
    pub(crate) async fn find(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut lookup = self.join(name);
        let found = lookup.wait_for(Option::is_some).await;
        let found = found.map_err(|_| io::Error::other("the lookup was abandoned"))?;
        match found.as_ref().expect("waited for") {
            Ok(addresses) => Ok(addresses.clone()),
            Err((kind, why)) => Err(io::Error::new(*kind, why.clone())),
        }
    }

    fn join(&self, name: &str) -> watch::Receiver<Option<LookupResult>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        // A lookup whose task is gone, with the client's threads or in a panic, never reports.
        let is_alive = |lookup: &&watch::Receiver<_>| lookup.has_changed().is_ok();
        if let Some(lookup) = under_way.get(name).filter(is_alive) {
            return lookup.clone();
        }
        let (tell, lookup) = watch::channel(None);
        under_way.insert(name.to_owned(), lookup.clone());
        let (me, name) = (self.clone(), name.to_owned());
        // A separate task: an attempt that times out drops its future, but the system's lookup
        // still occupies a thread. Without the task the next attempt would start a second lookup on
        // another thread.
        tokio::spawn(async move {
            let found = me.resolver.resolve(&name).await;
            me.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            tell.send_replace(Some(found.map_err(|error| (error.kind(), error.to_string()))));
        });
        lookup
    }
}
