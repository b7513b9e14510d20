//! Proxies: which requests go through one, as the environment says, and the tunnel through it.

use std::fmt;
use std::net::IpAddr;

use data_encoding::BASE64;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use crate::addresses::Network;
use crate::target::Origin;

/// The variables that name a proxy or exempt hosts. Lower case comes first, as in other programs.
const HTTP: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const HTTPS: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const ALL: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const NO: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The largest answer to a CONNECT, in bytes.
const CONNECT_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The most header fields of an answer to a CONNECT.
const CONNECT_HEADERS_MAX: usize = 64;

/// Which requests go through a proxy.
///
/// A name that only the proxy can look up is not checked against ranges of addresses: checking is
/// then the proxy's task.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    /// For requests without TLS.
    pub http: Option<Proxy>,
    /// For requests with TLS.
    pub https: Option<Proxy>,
    /// The hosts that are reached without a proxy.
    pub except: Vec<ProxyException>,
}

/// A proxy that speaks HTTP without TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    pub(crate) authorization: Option<HeaderValue>,
}

/// Hosts that are reached without a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyException {
    /// All hosts.
    All,
    /// This name and every one below it, on this port or on all.
    Name(String, Option<u16>),
    /// Addresses, for URLs whose host is an address.
    Addresses(Network),
}

/// A proxy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{variable}` is not the URL of a proxy such as http://proxy.example:3128")]
pub struct ProxyError {
    variable: &'static str,
}

impl Proxies {
    /// From the environment: `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, also in
    /// capitals. `variable` gives the value of one, as `std::env::var` does.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let first = |names| first(&variable, names);
        let parse = |(variable, value): (_, String)| {
            Proxy::parse(&value).ok_or(ProxyError { variable }).map(Some)
        };
        let all = first(ALL);
        let of = |names| first(names).or_else(|| all.clone()).map_or(Ok(None), parse);
        let (_, except) = first(NO).unwrap_or_default();
        Ok(Self {
            http: of(HTTP)?,
            https: of(HTTPS)?,
            except: except.split([',', ' ']).filter_map(ProxyException::parse).collect(),
        })
    }

    /// The first of these variables that names a proxy, for programs that ignore proxies and warn
    /// of it.
    pub fn named_by(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
        [HTTP, HTTPS, ALL].into_iter().find_map(|names| Some(first(&variable, names)?.0))
    }

    /// The proxy for this origin, if it has one.
    pub(crate) fn of(&self, origin: &Origin) -> Option<&Proxy> {
        let proxy = if origin.tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.except.iter().any(|except| except.matches(origin)))
    }
}

/// The first of these variables that is there and not empty, with its value.
fn first(
    variable: impl Fn(&str) -> Option<String>,
    names: [&'static str; 2],
) -> Option<(&'static str, String)> {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    names.into_iter().find_map(|name| value(name).map(|value| (name, value)))
}

impl Proxy {
    /// From its URL, with a user and a password if it wants them.
    pub fn parse(text: &str) -> Option<Self> {
        let url = match text.contains("://") {
            true => Url::parse(text).ok()?,
            false => Url::parse(&format!("http://{text}")).ok()?,
        };
        if url.scheme() != "http" {
            return None;
        }
        let authorization = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => {
                let mut plain: Vec<u8> = percent_decode_str(user).collect();
                plain.push(b':');
                plain.extend(percent_decode_str(password.unwrap_or_default()));
                let mut value =
                    HeaderValue::from_str(&format!("Basic {}", BASE64.encode(&plain))).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Some(Self {
            host: url.host()?.to_owned(),
            port: url.port_or_known_default()?,
            authorization,
        })
    }
}

/// Without the user and the password.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl ProxyException {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            return Some(Self::All);
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(network) = bare.parse() {
            return Some(Self::Addresses(network));
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok()?)),
            None => (text, None),
        };
        let name = name.trim_start_matches('*').trim_start_matches('.').to_ascii_lowercase();
        (!name.is_empty()).then_some(Self::Name(name, port))
    }

    fn matches(&self, origin: &Origin) -> bool {
        match (self, &origin.host) {
            (Self::All, _) => true,
            (Self::Name(name, port), Host::Domain(host)) => {
                port.is_none_or(|port| port == origin.port)
                    && host
                        .strip_suffix(name.as_str())
                        .is_some_and(|r| r.is_empty() || r.ends_with('.'))
            }
            (Self::Name(name, port), host) => {
                port.is_some_and(|port| port == origin.port) && *name == host.to_string()
            }
            (Self::Addresses(network), Host::Ipv4(address)) => {
                network.contains(IpAddr::V4(*address))
            }
            (Self::Addresses(network), Host::Ipv6(address)) => {
                network.contains(IpAddr::V6(*address))
            }
            (Self::Addresses(_), Host::Domain(_)) => false,
        }
    }
}

/// Asks the proxy for a tunnel to the origin. Nothing of the request is on its way yet.
pub(crate) async fn tunnel(
    stream: &mut TcpStream,
    proxy: &Proxy,
    origin: &Origin,
) -> Result<(), String> {
    let to = origin.with_port();
    let mut ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        ask.extend_from_slice(b"Proxy-Authorization: ");
        ask.extend_from_slice(authorization.as_bytes());
        ask.extend_from_slice(b"\r\n");
    }
    ask.extend_from_slice(b"\r\n");
    stream
        .write_all(&ask)
        .await
        .map_err(|error| format!("the connection to the proxy was lost: {error}"))?;

    let mut answer = Vec::with_capacity(512);
    loop {
        let mut piece = [0; 512];
        let count = stream
            .read(&mut piece)
            .await
            .map_err(|error| format!("the connection to the proxy was lost: {error}"))?;
        if count == 0 {
            return Err("the proxy closed the connection instead of opening a tunnel".to_owned());
        }
        answer.extend_from_slice(&piece[..count]);
        if is_granted(&answer)? {
            return Ok(());
        }
        if answer.len() > CONNECT_ANSWER_BYTES_MAX {
            return Err("the proxy's response is too large".to_owned());
        }
    }
}

/// Whether a proxy's answer to CONNECT grants the tunnel; false while it is not whole.
fn is_granted(answer: &[u8]) -> Result<bool, String> {
    let mut headers = [httparse::EMPTY_HEADER; CONNECT_HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(answer);
    match (
        parsed.map_err(|error| format!("the proxy's response cannot be parsed: {error}"))?,
        head.code,
    ) {
        (httparse::Status::Partial, _) => Ok(false),
        (httparse::Status::Complete(end), Some(200..=299)) if end == answer.len() => Ok(true),
        // In TLS the client speaks first, so bytes that are already here cannot be the peer's.
        (_, Some(200..=299)) => Err("the proxy sent data into the tunnel".to_owned()),
        (_, code) => {
            Err(format!("the proxy refused to open a tunnel: {}", code.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn read(variables: &[(&str, &str)]) -> Result<Proxies, ProxyError> {
        let find = |name: &str| variables.iter().find(|(own, _)| *own == name);
        Proxies::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn of(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.of(&Target::parse(url).unwrap().origin).map(|proxy| format!("{proxy:?}"))
    }

    #[test]
    fn the_environment_names_proxies() {
        assert_eq!(of(&read(&[]).unwrap(), "http://a/"), None);
        let proxies = read(&[("http_proxy", "p1:1"), ("HTTPS_PROXY", "http://p2")]).unwrap();
        assert_eq!(of(&proxies, "http://a/").unwrap(), "Proxy(p1:1)");
        assert_eq!(of(&proxies, "https://a/").unwrap(), "Proxy(p2:80)");
        let proxies = read(&[("ALL_PROXY", "p:3128"), ("HTTP_PROXY", "")]).unwrap();
        assert_eq!(of(&proxies, "http://a/").unwrap(), "Proxy(p:3128)");
        assert_eq!(of(&proxies, "https://a/").unwrap(), "Proxy(p:3128)");
        let proxies = read(&[("HTTP_PROXY", "upper"), ("http_proxy", "lower")]).unwrap();
        assert_eq!(of(&proxies, "http://a/").unwrap(), "Proxy(lower:80)");
        for wrong in ["socks5://p:1", "https://p:1", "http://", ":"] {
            assert!(read(&[("http_proxy", wrong)]).is_err(), "{wrong}");
        }
        let named_by = |name: &str, value: &str| {
            Proxies::named_by(|own| (own == name).then(|| value.to_owned()))
        };
        for name in [HTTP, HTTPS, ALL].as_flattened() {
            assert_eq!(named_by(name, "p:1"), Some(*name));
            assert_eq!(named_by(name, ""), None);
        }
        assert_eq!(named_by("no_proxy", "*"), None);
    }

    #[test]
    fn some_hosts_have_none() {
        let no_proxy = "localhost, .a.test,*.b.test,c.test:81,10.0.0.0/8,[::1]";
        let proxies = read(&[("all_proxy", "p"), ("no_proxy", no_proxy)]).unwrap();
        for direct in [
            "http://localhost/",
            "http://localhost:8/",
            "http://a.test/",
            "http://x.a.test/",
            "http://y.b.test/",
            "http://c.test:81/",
            "http://10.1.2.3/",
            "http://[::1]/",
        ] {
            assert_eq!(of(&proxies, direct), None, "{direct}");
        }
        for proxied in [
            "http://notlocalhost/",
            "http://xa.test/",
            "http://c.test/",
            "http://11.1.2.3/",
            "http://[::2]/",
        ] {
            assert!(of(&proxies, proxied).is_some(), "{proxied}");
        }
        let proxies = read(&[("all_proxy", "p"), ("NO_PROXY", "*")]).unwrap();
        assert_eq!(of(&proxies, "http://x/"), None);
    }

    #[test]
    fn a_proxy_may_want_a_password_and_does_not_show_it() {
        let proxy = Proxy::parse("http://me:p%40ss%zz@proxy:1").unwrap();
        let value = BASE64.encode(b"me:p@ss%zz");
        assert_eq!(proxy.authorization.as_ref().unwrap(), &format!("Basic {value}"));
        let proxies = Proxies { http: Some(proxy), ..Proxies::default() };
        let shown = format!("{proxies:?}");
        assert!(!shown.contains("ss") && !shown.contains(&value), "{shown}");
    }

    #[test]
    fn a_tunnel_is_there_when_the_proxy_says_so() {
        let whole = "HTTP/1.1 200 Connection established\r\nVia: p\r\n\r\n";
        for end in 0..=whole.len() {
            assert_eq!(is_granted(&whole.as_bytes()[..end]), Ok(end == whole.len()), "{end}");
        }
        assert_eq!(is_granted(b"HTTP/1.0 204\r\n\r\n"), Ok(true));
        for answer in [
            "HTTP/1.1 407 Who are you\r\n\r\n",
            "HTTP/1.1 502\r\n\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.1 2000 x\r\n\r\n",
            "200\r\n\r\n",
            "HTTP/1.1 100 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n\x16",
        ] {
            assert!(is_granted(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
