//! Where a request goes: the URL is read once, for everything. The host that is checked against the
//! grants is the host that is looked up, connected to, sent as `Host` and used in the TLS
//! handshake. Pure.

use std::fmt;

use http::uri::PathAndQuery;
use url::{Host, Position, Url};

/// The longest URL, in bytes.
pub const URL_BYTES_MAX: usize = 16 * 1024;

/// The peer of a request: scheme, host and port. Every connection belongs to one origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

impl Origin {
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    pub(crate) fn has_default_port(&self) -> bool {
        self.port == if self.tls { 443 } else { 80 }
    }

    /// As it stands in `Host` and in a URL: the port only if it is not the scheme's own.
    pub(crate) fn authority(&self) -> String {
        if self.has_default_port() { self.host.to_string() } else { self.with_port() }
    }

    /// Always with the port, as a proxy wants it.
    pub(crate) fn with_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

/// A URL that a request can go to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) origin: Origin,
    pub(crate) path: PathAndQuery,
    url: Url,
}

impl Target {
    /// Reads a URL, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > URL_BYTES_MAX {
            return Err("the URL is too long");
        }
        // The parser would drop some of these without a word.
        if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err("the URL has a space or a control character");
        }
        Self::of(Url::parse(text).map_err(|_| "the URL is not absolute")?)
    }

    /// Where a `Location` leads from here.
    pub(crate) fn follow(&self, location: &str) -> Result<Self, &'static str> {
        if location.len() > URL_BYTES_MAX {
            return Err("the URL is too long");
        }
        let mut url = self.url.join(location).map_err(|_| "it is not a URL")?;
        // A fragment in a `Location` is for browsers, and is dropped.
        url.set_fragment(None);
        Self::of(url)
    }

    fn of(url: Url) -> Result<Self, &'static str> {
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err("the URL is neither http nor https"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL has a user or a password");
        }
        if url.fragment().is_some() {
            return Err("the URL has a fragment");
        }
        let host = url.host().ok_or("the URL has no host")?.to_owned();
        if matches!(&host, Host::Domain(name) if name.ends_with('.')) {
            return Err("the host's name ends in a dot");
        }
        let port = url.port_or_known_default().ok_or("the URL has no port")?;
        if port == 0 {
            return Err("port 0 is not a valid port");
        }
        let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_err(|_| "the URL's path has a character that is not allowed in a request")?;
        Ok(Self { origin: Origin { tls, host, port }, path, url })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_absolute_and_http() {
        for url in [
            "",
            "/x",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://",
            "https:///",
            "http://u@example.com/",
            "http://u:p@example.com/",
            "http://:p@example.com/",
            "http://example.com/#f",
            "http://example.com./",
            "http://exa mple.com/",
            "http://example.com/\nx",
            "http://example.com/\u{7f}",
            "http://[::1/",
            "http://a:99999/",
            "http://a:0/",
            "data:,x",
            "javascript:x",
            "ws://example.com/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        assert!(Target::parse(&format!("http://a/{}", "x".repeat(URL_BYTES_MAX))).is_err());
    }

    #[test]
    fn what_is_connected_to_is_what_is_sent() {
        let check = |url: &str, authority: &str, with_port: &str, path: &str| {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.origin.authority(), authority, "{url}");
            assert_eq!(target.origin.with_port(), with_port, "{url}");
            assert_eq!(target.path.as_str(), path, "{url}");
        };
        check("http://Example.COM", "example.com", "example.com:80", "/");
        check("https://example.com:443/a?b=c", "example.com", "example.com:443", "/a?b=c");
        check("https://example.com:80/", "example.com:80", "example.com:80", "/");
        check("http://[::1]:8080/", "[::1]:8080", "[::1]:8080", "/");
        check("http://2130706433/", "127.0.0.1", "127.0.0.1:80", "/");
        check("http://ex%61mple.com\\@evil.net/", "example.com", "example.com:80", "/@evil.net/");
        check("http://a/ü?ü", "a", "a:80", "/%C3%BC?%C3%BC");
        check("http://a/..//b", "a", "a:80", "//b");
    }

    #[test]
    fn a_location_is_read_from_where_it_was_sent() {
        let from = Target::parse("https://a.example/x/y?z").unwrap();
        let follow =
            |location: &str| from.follow(location).map(|t| format!("{}{}", t.origin, t.path));
        assert_eq!(follow("/b").unwrap(), "https://a.example/b");
        assert_eq!(follow("b?c#d").unwrap(), "https://a.example/x/b?c");
        assert_eq!(follow("//b.example/c").unwrap(), "https://b.example/c");
        assert_eq!(follow("http://a.example/").unwrap(), "http://a.example/");
        assert!(follow("http://u:p@b.example/").is_err());
        assert!(follow("ftp://b.example/").is_err());
    }
}
