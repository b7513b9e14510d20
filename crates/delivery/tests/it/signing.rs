//! Signatures: the vectors of their specifications, rotation, tolerance, and every flipped bit.

use indelible_delivery::signing::standard::{Headers, sign, timestamp, verify};
use indelible_delivery::signing::{
    DigestEncoding, Ed25519Key, Hmac, HmacKey, Preset, PublicKey, Received, Rejected, Secret,
    TOLERANCE, VerifyingKey,
};
use indelible_journal::Timestamp;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    secret: String,
    public: Option<String>,
    id: String,
    timestamp: u64,
    body: String,
    signature: String,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../fixtures/standard_webhooks.json")).unwrap()
}

fn second(second: u64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000).unwrap()
}

/// The vectors of Standard Webhooks, both schemes: signed and verified.
#[test]
fn the_vectors_of_standard_webhooks() {
    for vector in vectors() {
        let secret: Secret = vector.secret.parse().unwrap();
        assert_eq!(secret.reveal(), vector.secret);
        let time = timestamp(second(vector.timestamp));
        let signature = sign([&secret], &vector.id, &time, vector.body.as_bytes());
        assert_eq!(signature, vector.signature);
        let key: VerifyingKey = vector.public.as_ref().unwrap_or(&vector.secret).parse().unwrap();
        assert_eq!(key, secret.verifying_key());
        let headers = Headers { id: &vector.id, timestamp: &time, signature: &signature };
        let now = second(vector.timestamp + 299);
        let signed = verify(&[key], &headers, vector.body.as_bytes(), now, TOLERANCE);
        assert_eq!(signed, Ok(second(vector.timestamp)));
    }
}

/// A header may have several signatures, of several keys and of schemes that are not known here.
#[test]
fn signatures_of_several_keys() {
    let secrets = [Secret::hmac(&[1; 32]), Secret::ed25519([2; 32]), Secret::hmac(&[3; 32])];
    let time = timestamp(second(1_000));
    let signature = format!("garbage v1,%  v9,AAAA {}", sign(&secrets, "msg_1", &time, b"{}"));
    let headers = Headers { id: "msg_1", timestamp: &time, signature: &signature };
    for secret in &secrets {
        let keys = [secret.verifying_key()];
        assert!(verify(&keys, &headers, b"{}", second(1_000), TOLERANCE).is_ok());
    }
    let other = [Secret::hmac(&[4; 32]).verifying_key()];
    let rejected = verify(&other, &headers, b"{}", second(1_000), TOLERANCE);
    assert_eq!(rejected, Err(Rejected::Signature));
    // A key of one scheme verifies nothing of the other: a public key is no HMAC secret.
    let Secret::Ed25519(key) = &secrets[1] else { panic!("it is the second") };
    let public = VerifyingKey::Hmac(HmacKey::new(key.public().as_bytes()).unwrap());
    assert!(verify(&[public], &headers, b"{}", second(1_000), TOLERANCE).is_err());
}

/// The time of a signature is near ours, either way, and spelled in one way.
#[test]
fn stale_signatures_are_rejected() {
    let secret = Secret::hmac(&[1; 32]);
    let keys = [secret.verifying_key()];
    let check = |timestamp: &str, now: u64| {
        let signature = sign([&secret], "msg_1", timestamp, b"");
        let headers = Headers { id: "msg_1", timestamp, signature: &signature };
        verify(&keys, &headers, b"", second(now), TOLERANCE).map(drop)
    };
    assert_eq!(check("1000", 1_300), Ok(()));
    assert_eq!(check("1000", 1_301), Err(Rejected::Stale));
    assert_eq!(check("1000", 700), Ok(()));
    assert_eq!(check("1000", 699), Err(Rejected::Stale));
    for text in ["", "+1000", " 1000", "1e3", "-1", "99999999999999999999", "１０００"] {
        let malformed = Err(Rejected::Malformed("webhook-timestamp"));
        assert_eq!(check(text, 1_000), malformed, "{text}");
    }
}

/// An id with a dot could divide what is signed elsewhere.
#[test]
fn ids_with_dots_are_rejected() {
    let secret = Secret::hmac(&[1; 32]);
    let signature = sign([&secret], "msg", "1000", b"7.{}");
    let headers = Headers { id: "msg.1000", timestamp: "7", signature: &signature };
    let rejected =
        verify(&[secret.verifying_key()], &headers, b"{}", second(7), TOLERANCE).unwrap_err();
    assert_eq!(rejected, Rejected::Malformed("webhook-id"));
}

/// Texts that are no secrets, and a key pair whose halves do not fit.
#[test]
fn malformed_secrets() {
    let pair = |seed: [u8; 32], public: &PublicKey| {
        let bytes = [&seed[..], public.as_bytes()].concat();
        format!("whsk_{}", data_encoding::BASE64.encode(&bytes))
    };
    let own = Ed25519Key::from_seed([1; 32]).public();
    let other = Ed25519Key::from_seed([2; 32]).public();
    assert!(pair([1; 32], &own).parse::<Secret>().is_ok());
    let wrong = pair([1; 32], &other);
    let texts =
        ["w", "whsec_%", "whsec_wrong", "whsec_AAAA", "hwsec_AAAA", &own.to_string(), &wrong];
    for text in texts {
        assert!(text.parse::<Secret>().is_err(), "{text}");
    }
    assert!("whpk_AAAA".parse::<VerifyingKey>().is_err());
}

/// Texts for people have no secret.
#[test]
fn secrets_are_in_no_debug_text() {
    let secrets = [Secret::hmac(&[0xab; 32]), Secret::ed25519([0xab; 32])];
    for secret in secrets {
        let text = format!("{secret:?} {:?}", secret.verifying_key());
        assert!(!text.contains("q6ur") && !text.contains("171"), "{text}");
    }
}

fn check(
    preset: &Preset,
    key: &str,
    headers: &[(&str, &str)],
    body: &str,
    now: u64,
) -> Result<Option<Timestamp>, Rejected> {
    let key = VerifyingKey::Hmac(HmacKey::new(key.as_bytes()).unwrap());
    let (body, now) = (body.as_bytes(), second(now));
    preset.verify(&[key], &Received { headers, body, now, tolerance: TOLERANCE })
}

/// GitHub's own vector, and what it does not verify.
#[test]
fn github() {
    let (key, body) = ("It's a Secret to Everybody", "Hello, World!");
    let name = "x-hub-signature-256";
    let good = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let check = |value: &str, body: &str| check(&Preset::GitHub, key, &[(name, value)], body, 0);
    assert_eq!(check(good, body), Ok(None));
    assert_eq!(check(good, "Hello, World?"), Err(Rejected::Signature));
    assert_eq!(check(&good[..70], body), Err(Rejected::Malformed(name)));
    assert_eq!(check(&good[7..], body), Err(Rejected::Malformed(name)));
    assert_eq!(check("sha256=", body), Err(Rejected::Signature));
    let rejected = self::check(&Preset::GitHub, key, &[], body, 0);
    assert_eq!(rejected, Err(Rejected::Missing(name)));
}

/// Stripe: the time is signed, several `v1` are tried, other schemes are ignored.
#[test]
fn stripe() {
    let key = HmacKey::new(b"whsec_test").unwrap();
    let tag = |time: &str, body: &str| {
        let tag = key.sign(&[time.as_bytes(), b".", body.as_bytes()]);
        data_encoding::HEXLOWER.encode(&tag)
    };
    let good = tag("1000", "{}");
    let check = |value: &str, now| {
        check(&Preset::Stripe, "whsec_test", &[("stripe-signature", value)], "{}", now)
    };
    let malformed = Err(Rejected::Malformed("stripe-signature"));
    assert_eq!(check(&format!("t=1000,v1={good},v0=abc"), 1_000), Ok(Some(second(1_000))));
    assert_eq!(check(&format!("t=1000,v1=00ff,v1={good}"), 1_300), Ok(Some(second(1_000))));
    assert_eq!(check(&format!("t=1000,v1={good}"), 1_301), Err(Rejected::Stale));
    assert_eq!(check(&format!("t=1001,v1={good}"), 1_000), Err(Rejected::Signature));
    assert_eq!(check(&format!("t=1000,v0={good}"), 1_000), Err(Rejected::Signature));
    assert_eq!(check(&format!("v1={good}"), 1_000), malformed);
    assert_eq!(check(&format!("t=1000,t=1000,v1={good}"), 1_000), malformed);
    assert_eq!(check("", 1_000), malformed);
}

/// Any HMAC in a header: prefix, encoding, and a time if there is one.
#[test]
fn generic_hmac() {
    let key = HmacKey::new(b"key").unwrap();
    let preset = |prefix: &str, encoding, timestamp: Option<&str>| {
        Preset::Hmac(Hmac {
            header: "x-signature".to_owned(),
            prefix: prefix.to_owned(),
            encoding,
            timestamp_header: timestamp.map(str::to_owned),
        })
    };
    let base64 = data_encoding::BASE64.encode(&key.sign(&[b"body"]));
    let plain = preset("", DigestEncoding::Base64, None);
    assert_eq!(check(&plain, "key", &[("x-signature", &base64)], "body", 0), Ok(None));
    let timed = preset("v1=", DigestEncoding::Hex, Some("x-time"));
    let hex = data_encoding::HEXUPPER.encode(&key.sign(&[b"1000.body"]));
    let value = format!("v1={hex}");
    let headers = [("x-signature", value.as_str()), ("x-time", "1000")];
    assert_eq!(check(&timed, "key", &headers, "body", 1_000), Ok(Some(second(1_000))));
    assert_eq!(check(&timed, "key", &headers, "body", 2_000), Err(Rejected::Stale));
    assert_eq!(
        check(&timed, "key", &headers[..1], "body", 1_000),
        Err(Rejected::Missing("timestamp"))
    );
    assert_eq!(check(&timed, "other", &headers, "body", 1_000), Err(Rejected::Signature));
}

proptest! {
    /// O-19: no changed bit of what is signed passes, in either scheme.
    #[test]
    fn every_flipped_bit_is_noticed(
        body in proptest::collection::vec(any::<u8>(), 1..40),
        bit: prop::sample::Index,
        asymmetric: bool,
    ) {
        let secret =
            if asymmetric { Secret::ed25519([1; 32]) } else { Secret::hmac(&[1; 32]) };
        let signature = sign([&secret], "msg_1", "1000", &body);
        let headers = Headers { id: "msg_1", timestamp: "1000", signature: &signature };
        let keys = [secret.verifying_key()];
        prop_assert!(verify(&keys, &headers, &body, second(1_000), TOLERANCE).is_ok());
        let mut flipped = body.clone();
        let bit = bit.index(body.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verify(&keys, &headers, &flipped, second(1_000), TOLERANCE).is_err());
        let later = Headers { timestamp: "1001", ..headers };
        prop_assert!(verify(&keys, &later, &body, second(1_000), TOLERANCE).is_err());
        let other = Headers { id: "msg_2", ..headers };
        prop_assert!(verify(&keys, &other, &body, second(1_000), TOLERANCE).is_err());
    }
}
