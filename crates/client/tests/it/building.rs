//! Clients that cannot be made, and what is shown of those that can.

use std::time::Duration;

use indelible_client::{BuildError, Client, RETRY_HORIZON, Retries};

fn build(address: &str) -> Result<Client, BuildError> {
    Client::builder(address).build()
}

/// An address that makes no sense, or that has a secret in it, is refused.
#[test]
fn addresses() {
    for good in ["http://127.0.0.1:7070", "https://host/under/", "http://[::1]:7070/"] {
        build(good).unwrap();
    }
    for bad in [
        "",
        "127.0.0.1:7070",
        "ftp://host",
        "http://",
        "http://user:secret-7@host",
        "http://host/?a=secret-7",
        "http://host/#secret-7",
    ] {
        let error = build(bad).unwrap_err();
        assert!(matches!(error, BuildError::Address(_)), "{bad}");
        assert!(!format!("{error:?} {error}").contains("secret-7"));
    }
}

/// A token is not sent in the open, unless the caller insists.
#[test]
fn tokens_in_the_open() {
    let with = |address: &str| Client::builder(address).token("secret-7");
    for here in ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1", "http://localhost:1"] {
        with(here).build().unwrap();
    }
    with("https://host").build().unwrap();
    for open in ["http://host", "http://10.0.0.1:7070", "http://localhost.example.com"] {
        assert_eq!(with(open).build().unwrap_err(), BuildError::TokenInTheOpen, "{open}");
        with(open).allow_token_over_plain_http().build().unwrap();
        build(open).unwrap();
    }
}

/// A token that no header can carry is refused, and none is shown.
#[test]
fn tokens_are_secrets() {
    for bad in ["", "secret 7", "secret-7\r\nx: y", "secret-ü"] {
        let error = Client::builder("http://[::1]").token(bad).build().unwrap_err();
        assert_eq!(error, BuildError::Token, "{bad:?}");
        assert!(!format!("{error:?} {error}").contains("secret"));
    }
    let builder = Client::builder("http://[::1]").token("secret-7").namespace("eu");
    assert!(!format!("{builder:?}").contains("secret-7"));
    let client = builder.build().unwrap();
    let call = client.function::<(), ()>("a", "b").call(&());
    let shown = format!("{client:?} {:?} {call:?}", client.attach::<()>("x"));
    assert!(shown.contains("eu") && !shown.contains("secret-7"), "{shown}");
}

/// Options that make no sense are refused; C-3: no client repeats for longer than servers remember.
#[test]
fn options() {
    let builder = || Client::builder("http://[::1]");
    for bad in ["", "Upper", "a b", &"x".repeat(65)] {
        assert_eq!(builder().namespace(bad).build().unwrap_err(), BuildError::Namespace, "{bad}");
        let client = builder().build().unwrap();
        assert_eq!(client.in_namespace(bad).unwrap_err(), BuildError::Namespace, "{bad}");
    }
    let total = RETRY_HORIZON + Duration::from_nanos(1);
    let retries = Retries { total, ..Retries::default() };
    assert!(matches!(builder().retries(retries).build(), Err(BuildError::Option(_))));
    let https = || Client::builder("https://host");
    assert!(matches!(https().roots(Vec::new()).build(), Err(BuildError::Roots(_))));
    let broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    assert!(matches!(https().roots_pem(broken), Err(BuildError::Roots(_))));
}
