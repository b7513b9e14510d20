//! No web page can drive a server: checks the host that a request names, and the page that sent it.
//!
//! A server on loopback is reachable by every page that its user's browser shows. Two ways lead
//! there. A name of the page's own can be made to point to loopback (DNS rebinding): then `Host`
//! is that name. Or the page sends a request across origins: then `Origin` or `Sec-Fetch-Site`
//! tell. A request that says nothing of pages comes from a program.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

/// The longest name of a host, in bytes (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a server is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host, so that two ways to write one are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// In lower case.
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Host {
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::V4(address) => address.is_loopback(),
            Self::V6(address) => *address == Ipv6Addr::LOCALHOST,
        }
    }
}

/// A host, and its port if that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    host: Host,
    port: Option<u16>,
}

impl HostPort {
    /// `HOST` or `HOST:PORT`, and nothing else. Unusual spellings are refused, since another
    /// program may read them differently.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (Host::V6(address.parse().ok()?), port)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                (name_or_v4(&text[..end])?, &text[end..])
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            None if port.is_empty() => None,
            _ => return None,
        };
        Some(Self { host, port })
    }
}

fn name_or_v4(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse() {
        return Some(Host::V4(address));
    }
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let good = (1..=HOST_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_good);
    good.then(|| Host::Name(text.to_ascii_lowercase()))
}

/// The text is not the name of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not HOST or HOST:PORT")]
pub struct OwnHostError(String);

/// A request that may be a web page's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Foreign {
    /// It is for another host, or for none, or for two.
    #[error("the header Host does not name this server; --host-name adds a name")]
    Host,
    /// A page of another origin sent it.
    #[error("the header Origin is not this server")]
    Origin,
    /// A page of another site sent it.
    #[error("the header Sec-Fetch-Site must be same-origin or none")]
    Site,
}

/// What a server may be called: `localhost` and the addresses of loopback, with the port that it
/// listens on, and the names that it was given.
#[derive(Debug, Clone)]
pub struct OwnHosts {
    scheme: Scheme,
    port: u16,
    names: Vec<HostPort>,
}

impl OwnHosts {
    /// A server that listens on this port and has these further names. `HOST` matches with this
    /// port or with the scheme's default port, which a proxy may have; `HOST:PORT` matches that
    /// port only.
    pub fn new<'a>(
        scheme: Scheme,
        port: u16,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, OwnHostError> {
        let place = |name: &str| HostPort::parse(name).ok_or_else(|| OwnHostError(name.to_owned()));
        let names = names.into_iter().map(place).collect::<Result<_, _>>()?;
        Ok(Self { scheme, port, names })
    }

    /// Whether a request names this server as its host. Required when the server takes requests
    /// without a credential. `authority` is that of the request's target (`:authority` in HTTP/2).
    /// If the request has it and a `Host`, both are checked; before HTTP/2, `Host` is required.
    pub fn check_host(
        &self,
        version: Version,
        authority: Option<&Authority>,
        headers: &HeaderMap,
    ) -> Result<(), Foreign> {
        let host = one(headers, &header::HOST).map_err(|RepeatedHeader| Foreign::Host)?;
        let host = host.map(|host| host.to_str().map_err(|_| Foreign::Host)).transpose()?;
        if host.is_none() && (authority.is_none() || version < Version::HTTP_2) {
            return Err(Foreign::Host);
        }
        let default = self.scheme.default_port();
        let is_own =
            |text: &str| HostPort::parse(text).is_some_and(|place| self.has(&place, default));
        let mut all = host.into_iter().chain(authority.map(Authority::as_str));
        if all.all(is_own) { Ok(()) } else { Err(Foreign::Host) }
    }

    /// Whether a request comes from a program or from a page of this server. Required of all
    /// requests.
    pub fn check_page(&self, headers: &HeaderMap) -> Result<(), Foreign> {
        let origin = one(headers, &header::ORIGIN).map_err(|RepeatedHeader| Foreign::Origin)?;
        if origin.is_some_and(|origin| !self.is_origin(origin)) {
            return Err(Foreign::Origin);
        }
        let site = one(headers, &SEC_FETCH_SITE).map_err(|RepeatedHeader| Foreign::Site)?;
        match site.map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(Foreign::Site),
        }
    }

    fn is_origin(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        // A proxy may add TLS, so either scheme can be ours.
        let schemes = [("http://", Scheme::Http), ("https://", Scheme::Https)];
        schemes.iter().any(|(prefix, scheme)| {
            let place = origin.strip_prefix(prefix).and_then(HostPort::parse);
            place.is_some_and(|place| self.has(&place, scheme.default_port()))
        })
    }

    fn has(&self, place: &HostPort, default: u16) -> bool {
        let port = place.port.unwrap_or(default);
        let named = |name: &HostPort| {
            let ports = [name.port.unwrap_or(self.port), name.port.unwrap_or(default)];
            name.host == place.host && ports.contains(&port)
        };
        (place.host.is_loopback() && port == self.port) || self.names.iter().any(named)
    }
}

/// A header occurs twice that may occur once.
struct RepeatedHeader;

fn one<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a HeaderValue>, RepeatedHeader> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(RepeatedHeader),
        (value, None) => Ok(value),
    }
}
