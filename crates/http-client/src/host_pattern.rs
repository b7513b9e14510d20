//! Patterns of hosts that a grant lists. Pure.

use std::fmt;
use std::str::FromStr;

use url::Host;

use crate::target::Origin;

/// A host, or all that end in a name: `api.example.com`, `*.example.com`, `[::1]:8080`.
///
/// Without a port, the pattern means the scheme's default port, 80 or 443. `*.example.com` means
/// every name below it, at any depth, and not `example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    host: Host<String>,
    below: bool,
    port: Option<u16>,
}

/// A text that is not a pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host such as api.example.com, *.example.com or 10.0.0.1:8080")]
pub struct HostPatternError(String);

impl HostPattern {
    /// Whether it means this origin.
    pub(crate) fn matches(&self, origin: &Origin) -> bool {
        let port = match self.port {
            Some(port) => port == origin.port,
            None => origin.has_default_port(),
        };
        port && match (&self.host, &origin.host) {
            (Host::Domain(own), Host::Domain(other)) if self.below => other
                .strip_suffix(own.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (own, other) => !self.below && own == other,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let wrong = || HostPatternError(text.to_owned());
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (host, port) = match rest.rsplit_once(':') {
            // The last colon may be inside an IPv6 address.
            Some((host, port)) if !port.ends_with(']') => {
                (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?))
            }
            _ => (rest, None),
        };
        // A star elsewhere would make a name that no host can have.
        if host.contains('*') || host.ends_with('.') {
            return Err(wrong());
        }
        let host = Host::parse(host).map_err(|_| wrong())?;
        if below && !matches!(host, Host::Domain(_)) {
            return Err(wrong());
        }
        Ok(Self { host, below, port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below {
            f.write_str("*.")?;
        }
        write!(f, "{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn matches(pattern: &str, url: &str) -> bool {
        let target = Target::parse(url).unwrap();
        pattern.parse::<HostPattern>().unwrap().matches(&target.origin)
    }

    #[test]
    fn a_host_is_itself_and_nothing_else() {
        assert!(matches("api.example.com", "https://api.example.com/x"));
        assert!(matches("API.example.com", "https://aPi.EXAMPLE.com/x"));
        assert!(matches("bücher.example", "https://xn--bcher-kva.example/"));
        assert!(matches("xn--bcher-kva.example", "https://BÜCHER.example/"));
        assert!(!matches("example.com", "https://api.example.com/"));
        assert!(!matches("example.com", "https://example.com.evil.net/"));
        assert!(!matches("example.com", "https://evilexample.com/"));
        assert!(matches("127.0.0.1", "http://127.1/"));
        assert!(matches("127.0.0.1", "http://0x7f000001/"));
        assert!(matches("[::1]:80", "http://[0:0::1]/"));
        assert!(!matches("127.0.0.1", "http://[::ffff:127.0.0.1]/"));
    }

    #[test]
    fn a_star_is_every_name_below() {
        assert!(matches("*.example.com", "https://a.example.com/"));
        assert!(matches("*.example.com", "https://a.b.example.com/"));
        assert!(!matches("*.example.com", "https://example.com/"));
        assert!(!matches("*.example.com", "https://evilexample.com/"));
        assert!(!matches("*.example.com", "https://example.com.evil.net/"));
        assert!(!matches("*.example.com", "https://a.example.com:8443/"));
    }

    #[test]
    fn a_port_is_the_schemes_own_unless_it_is_named() {
        assert!(matches("example.com", "http://example.com/"));
        assert!(matches("example.com", "https://example.com:443/"));
        assert!(!matches("example.com", "http://example.com:443/"));
        assert!(!matches("example.com", "https://example.com:80/"));
        assert!(!matches("example.com", "https://example.com:8443/"));
        assert!(matches("example.com:8443", "https://example.com:8443/"));
        assert!(!matches("example.com:8443", "https://example.com/"));
        assert!(matches("*.example.com:8443", "http://a.example.com:8443/"));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "*.*.com",
            "a.*.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:x",
            "https://example.com",
            "example.com/x",
            "example.com.",
            "*.127.0.0.1",
            "*.[::1]",
            "a b.com",
            "user@example.com",
            "::1",
            "*example.com",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_is_written_as_it_is_read() {
        for text in ["example.com", "*.example.com", "*.example.com:8443", "[::1]:8080", "10.0.0.1"]
        {
            assert_eq!(text.parse::<HostPattern>().unwrap().to_string(), text);
        }
    }
}
