//! What a web page would send.

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use indelible_server::auth::local::Scheme;
use indelible_server::auth::{Foreign, OwnHosts};

fn headers(values: &[(HeaderName, &[u8])]) -> HeaderMap {
    let value = |value: &[u8]| HeaderValue::from_bytes(value).unwrap();
    let mut headers = HeaderMap::new();
    for (name, text) in values {
        headers.append(name, value(text));
    }
    headers
}

fn own() -> OwnHosts {
    OwnHosts::new(Scheme::Http, 7777, ["indelible.example", "ui.example:8443", "[fd00::1]"])
        .unwrap()
}

fn host(own: &OwnHosts, host: &[u8]) -> bool {
    own.check_host(Version::HTTP_11, None, &headers(&[(header::HOST, host)])).is_ok()
}

fn origin(origin: &[u8]) -> bool {
    own().check_page(&headers(&[(header::ORIGIN, origin)])).is_ok()
}

/// Hosts that are ours, and those that a rebound name, or a strange spelling, would give.
#[test]
fn hosts() {
    let own = own();
    for good in [
        "localhost:7777",
        "LocalHost:7777",
        "127.0.0.1:7777",
        "127.255.3.4:7777",
        "[::1]:7777",
        "[0:0:0:0:0:0:0:1]:7777",
        "indelible.example",
        "INDELIBLE.example",
        "indelible.example:80",
        "indelible.example:7777",
        "ui.example:8443",
        "[fd00::1]:7777",
    ] {
        assert!(host(&own, good.as_bytes()), "{good}");
    }
    for bad in [
        "",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "localhost:80",
        "localhost:7778",
        "localhost:",
        "localhost:+7777",
        "localhost:07777 ",
        "localhost:77777",
        "localhost:7777:7777",
        "localhost.:7777",
        "evil.localhost:7777",
        "localhost.evil.example:7777",
        "localhost@evil.example:7777",
        "evil.example@localhost:7777",
        "evil.example",
        "evil.example:7777",
        "127.0.0.1.nip.io:7777",
        "127.1:7777",
        "127.0.0.01:7777",
        "0177.0.0.1:7777",
        "2130706433:7777",
        "0x7f000001:7777",
        "0.0.0.0:7777",
        "128.0.0.1:7777",
        "192.168.0.1:7777",
        "::1:7777",
        "[::]:7777",
        "[::1",
        "[::1]7777",
        "[::1%25lo]:7777",
        "[::ffff:127.0.0.1]:7777",
        "[127.0.0.1]:7777",
        "ui.example",
        "ui.example:7777",
        "ui.example:80",
        "x.indelible.example",
        "indelible.example.",
        "indelible.example:81",
        "http://localhost:7777",
        "localhost:7777/",
        "localhost:7777, localhost:7777",
        "localhost :7777",
        "localhost\t:7777",
        "[fd00::2]:7777",
    ] {
        assert!(!host(&own, bad.as_bytes()), "{bad}");
    }
    assert!(!host(&own, b"localhost\xff:7777"));
    assert!(!host(&own, "ⅼocalhost:7777".as_bytes()));
    assert!(!host(&own, &[b'a'; 10_000]));
}

/// On the default port of its scheme a server may be called without one.
#[test]
fn default_ports() {
    let http = OwnHosts::new(Scheme::Http, 80, []).unwrap();
    let https = OwnHosts::new(Scheme::Https, 443, []).unwrap();
    for good in ["localhost", "127.0.0.1", "[::1]"] {
        assert!(host(&http, good.as_bytes()) && host(&https, good.as_bytes()), "{good}");
    }
    assert!(host(&http, b"localhost:80") && !host(&http, b"localhost:443"));
    assert!(host(&https, b"localhost:443") && !host(&https, b"localhost:80"));
    // Another scheme's default is another port.
    assert!(!host(&OwnHosts::new(Scheme::Http, 443, []).unwrap(), b"localhost"));
}

/// A request is for one host: none, two, or one that its target contradicts are refused.
#[test]
fn one_host() {
    let own = own();
    let good = || (header::HOST, &b"localhost:7777"[..]);
    let evil = || (header::HOST, &b"evil.example"[..]);
    let check = |version: Version, authority: Option<&'static str>, given: &[_]| {
        own.check_host(version, authority.map(Authority::from_static).as_ref(), &headers(given))
    };
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        assert_eq!(check(version, None, &[]), Err(Foreign::Host));
        assert_eq!(check(version, None, &[good()]), Ok(()));
        assert_eq!(check(version, None, &[good(), good()]), Err(Foreign::Host));
        assert_eq!(check(version, None, &[good(), evil()]), Err(Foreign::Host));
        let ours = Some("127.0.0.1:7777");
        assert_eq!(check(version, ours, &[good()]), Ok(()));
        assert_eq!(check(version, ours, &[]).is_ok(), version == Version::HTTP_2);
        assert_eq!(check(version, ours, &[evil()]), Err(Foreign::Host));
        assert_eq!(check(version, ours, &[good(), good()]), Err(Foreign::Host));
        for theirs in ["evil.example:7777", "user@localhost:7777", "localhost"] {
            assert_eq!(check(version, Some(theirs), &[good()]), Err(Foreign::Host));
            assert_eq!(check(version, Some(theirs), &[]), Err(Foreign::Host));
        }
    }
}

/// Pages of the server itself may ask; those of others, and those that will not say whose they
/// are, may not.
#[test]
fn origins() {
    assert_eq!(own().check_page(&HeaderMap::new()), Ok(()));
    for good in [
        "http://localhost:7777",
        "https://localhost:7777",
        "http://127.0.0.1:7777",
        "http://[::1]:7777",
        "http://indelible.example",
        "https://indelible.example",
        "https://indelible.example:7777",
        "https://ui.example:8443",
    ] {
        assert!(origin(good.as_bytes()), "{good}");
    }
    for bad in [
        "",
        "null",
        "NULL",
        "*",
        "localhost:7777",
        "http://localhost",
        "http://localhost:8080",
        "http://localhost:7777/",
        "http://localhost:7777 http://localhost:7777",
        "http://evil.example",
        "http://evil.example:7777",
        "https://localhost:7777.evil.example",
        "https://localhost:7777@evil.example",
        "http://indelible.example.evil.example",
        "http://indelible.example:81",
        "https://ui.example",
        "http://0.0.0.0:7777",
        "file://",
        "chrome-extension://localhost:7777",
        "ftp://localhost:7777",
        "HTTP://localhost:7777",
        "http:localhost:7777",
        "http:///localhost:7777",
        "http://",
    ] {
        assert!(!origin(bad.as_bytes()), "{bad}");
    }
    assert!(!origin(b"http://localhost\xff:7777"));
    let ours = || (header::ORIGIN, &b"http://localhost:7777"[..]);
    assert_eq!(own().check_page(&headers(&[ours(), ours()])), Err(Foreign::Origin));
}

/// What a browser says of who asks, where it says nothing of the origin: a `GET` from another page,
/// an image, a frame.
#[test]
fn sites() {
    let site = HeaderName::from_static("sec-fetch-site");
    let check = |values: &[&[u8]]| {
        let values: Vec<_> = values.iter().map(|value| (site.clone(), *value)).collect();
        own().check_page(&headers(&values))
    };
    assert_eq!(check(&[b"same-origin"]), Ok(()));
    assert_eq!(check(&[b"none"]), Ok(()));
    for bad in [&b"cross-site"[..], b"same-site", b"", b"Same-Origin", b"none, none", b"\xff"] {
        assert_eq!(check(&[bad]), Err(Foreign::Site), "{bad:?}");
    }
    assert_eq!(check(&[b"none", b"none"]), Err(Foreign::Site));
    // A foreign page does not pass for ours because it says one thing right.
    let mixed =
        headers(&[(header::ORIGIN, b"http://localhost:7777"), (site.clone(), b"cross-site")]);
    assert_eq!(own().check_page(&mixed), Err(Foreign::Site));
    let mixed = headers(&[(header::ORIGIN, b"http://evil.example"), (site, b"same-origin")]);
    assert_eq!(own().check_page(&mixed), Err(Foreign::Origin));
}

/// A name that is none is refused when the server starts.
#[test]
fn names() {
    for bad in ["", "a b", "http://a", "a/", "a:", "a:x", "*.example", "[::1", "ü.example"] {
        assert!(OwnHosts::new(Scheme::Http, 1, [bad]).is_err(), "{bad}");
    }
}
