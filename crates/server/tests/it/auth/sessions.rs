//! Session tokens, good and forged. Keys in `keys/` were made with openssl, for these tests alone.

use data_encoding::BASE64URL_NOPAD;
use indelible_api::access::Role;
use indelible_server::auth::sessions::{
    LEEWAY_SECONDS, SECRET_BYTES_MIN, SESSION_TOKEN_BYTES_MAX, SUBJECT_CHARS_MAX,
};
use indelible_server::auth::{SessionAlgorithm, SessionKeys, SessionKeysError};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ring::{hmac, signature};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use crate::auth::at;

const P256: &str = include_str!("keys/p256.public.pem");
const P384: &str = include_str!("keys/p384.public.pem");
const ED25519: &str = include_str!("keys/ed25519.public.pem");
const RSA: &str = include_str!("keys/rsa.public.pem");
const RSA_1024: &str = include_str!("keys/rsa-1024.public.pem");
const SECRET: &[u8] = b"thirty-two bytes, known to a few";
const AUDIENCE: &str = "https://indelible.example";

fn private(pem: &str) -> Vec<u8> {
    PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap().secret_pkcs8_der().to_vec()
}

fn hs256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

/// Signs as the issuer of a token does, by the algorithm's name.
fn sign(algorithm: &str, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    match algorithm {
        "HS256" => hs256(SECRET, message),
        "ES256" => {
            let key = private(include_str!("keys/p256.private.pem"));
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random);
            pair.unwrap().sign(&random, message).unwrap().as_ref().to_vec()
        }
        "EdDSA" => {
            let key = private(include_str!("keys/ed25519.private.pem"));
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key).unwrap();
            pair.sign(message).as_ref().to_vec()
        }
        "RS256" => {
            let pair = RsaKeyPair::from_pkcs8(&private(include_str!("keys/rsa.private.pem")));
            let pair: RsaKeyPair = pair.unwrap();
            let mut out = vec![0; pair.public().modulus_len()];
            let padding: &dyn signature::RsaEncoding = &RSA_PKCS1_SHA256;
            pair.sign(padding, &random, message, &mut out).unwrap();
            out
        }
        other => panic!("{other}"),
    }
}

/// A token of these parts, whose signature is made of the rest.
fn token(header: &Value, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    token_of_texts(&header.to_string(), claims, sign)
}

fn token_of_texts(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let message = format!("{}.{}", part(header.as_bytes()), part(claims.as_bytes()));
    format!("{message}.{}", part(&sign(message.as_bytes())))
}

fn seconds(after: u64) -> u64 {
    at(after).as_micros() / 1_000_000
}

fn claims() -> Value {
    json!({
        "sub": "ada@example.org", "aud": AUDIENCE, "exp": seconds(600), "iss": "https://login.example",
        "roles": ["operate", "call"], "namespaces": ["shop"], "email": "not looked at",
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn hs256_keys() -> SessionKeys {
    let algorithm = SessionAlgorithm::Hs256(SECRET.to_vec());
    SessionKeys::new(&algorithm, AUDIENCE, Some("https://login.example")).unwrap()
}

fn hs256_token(claims: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "HS256"});
    token(&header, &claims.to_string(), |message| hs256(SECRET, message))
}

fn algorithms() -> [SessionAlgorithm; 4] {
    [
        SessionAlgorithm::Hs256(SECRET.to_vec()),
        SessionAlgorithm::Es256(P256.to_owned()),
        SessionAlgorithm::EdDsa(ED25519.to_owned()),
        SessionAlgorithm::Rs256(RSA.to_owned()),
    ]
}

/// Q-18: a token stands for `user:SUB`, by each algorithm that can be configured, and by that one
/// alone.
#[test]
fn every_algorithm_and_no_other() {
    for configured in algorithms() {
        let keys = SessionKeys::new(&configured, AUDIENCE, None).unwrap();
        for signed in algorithms() {
            let header = json!({"alg": signed.name()});
            let text = claims().to_string();
            let token = token(&header, &text, |message| sign(signed.name(), message));
            let caller = keys.check(&token, at(0));
            assert_eq!(caller.is_some(), signed.name() == configured.name(), "{configured:?}");
            let Some(caller) = caller else { continue };
            assert_eq!(caller.actor().as_str(), "user:ada@example.org");
            assert!(caller.may(Role::Operate) && caller.may(Role::Call));
            assert!(!caller.may(Role::Deploy) && !caller.may(Role::Admin));
            assert!(caller.in_namespace("shop") && !caller.in_namespace("bank"));
        }
    }
}

/// Tokens without a signature, or signed with a key that is public, are refused: the public key as
/// the secret of an HMAC, an empty one, a key that the token brings along.
#[test]
fn forged_signatures() {
    let text = claims().to_string();
    let der = |pem: &str| {
        let info = tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer::from_pem_slice(
            pem.as_bytes(),
        );
        info.unwrap().to_vec()
    };
    for (configured, pem) in
        algorithms().into_iter().zip([None, Some(P256), Some(ED25519), Some(RSA)])
    {
        let keys = SessionKeys::new(&configured, AUDIENCE, None).unwrap();
        for name in ["none", "None", "NONE", "nOnE", ""] {
            let unsigned = token(&json!({"alg": name}), &text, |_| Vec::new());
            assert_eq!(keys.check(&unsigned, at(0)), None, "{configured:?} {name}");
        }
        // The right name, and no signature, or one of zeros.
        let header = json!({"alg": configured.name()});
        for length in [0, 1, 32, 64, 256] {
            let forged = token(&header, &text, |_| vec![0; length]);
            assert_eq!(keys.check(&forged, at(0)), None, "{configured:?} {length}");
        }
        let Some(pem) = pem else { continue };
        let whole = der(pem);
        let raw = whole[whole.len() - if pem == P256 { 65 } else { 32 }..].to_vec();
        for secret in [pem.as_bytes().to_vec(), pem.trim().as_bytes().to_vec(), whole, raw] {
            for alg in ["HS256", configured.name()] {
                let header = json!({"alg": alg});
                let forged = token(&header, &text, |message| hs256(&secret, message));
                assert_eq!(keys.check(&forged, at(0)), None, "{configured:?} {alg}");
            }
        }
    }
    let keys = hs256_keys();
    let brought =
        json!({"alg": "HS256", "jwk": {"kty": "oct", "k": BASE64URL_NOPAD.encode(b"mine")}});
    let forged = token(&brought, &text, |message| hs256(b"mine", message));
    assert_eq!(keys.check(&forged, at(0)), None);
    for alg in ["HS384", "HS512", "hs256", "HS256 "] {
        let forged = token(&json!({"alg": alg}), &text, |message| hs256(SECRET, message));
        assert_eq!(keys.check(&forged, at(0)), None, "{alg}");
    }
    let critical = json!({"alg": "HS256", "crit": ["b64"], "b64": false});
    let forged = token(&critical, &text, |message| hs256(SECRET, message));
    assert_eq!(keys.check(&forged, at(0)), None);
}

/// Every byte of a token counts.
#[test]
fn a_changed_token_is_none() {
    let keys = hs256_keys();
    let good = hs256_token(&claims());
    assert!(keys.check(&good, at(0)).is_some());
    for index in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert_eq!(keys.check(&changed, at(0)), None, "{index}");
    }
    let parts: Vec<_> = good.split('.').collect();
    for changed in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        parts[..2].join("."),
        format!("{good}."),
        format!("{good}.x"),
        format!("{good}="),
        format!(" {good}"),
        format!("{}..{}", parts[0], parts[2]),
        good.replace('.', "\0"),
        "é".repeat(100),
    ] {
        assert_eq!(keys.check(&changed, at(0)), None, "{changed}");
    }
}

/// A token has a beginning and an end, and a small leeway; without an end it is none.
#[test]
fn times() {
    let keys = hs256_keys();
    let check = |claims: &Value, now: u64| keys.check(&hs256_token(claims), at(now)).is_some();
    let end = 600 + LEEWAY_SECONDS;
    for (now, good) in [(0, true), (599, true), (600, true), (end - 1, true), (end, false)] {
        assert_eq!(check(&claims(), now), good, "{now}");
    }
    let begins = with("nbf", json!(seconds(100)));
    for (now, good) in
        [(100 - LEEWAY_SECONDS - 1, false), (100 - LEEWAY_SECONDS, true), (599, true), (end, false)]
    {
        assert_eq!(check(&begins, now), good, "{now}");
    }
    let whole = seconds(600);
    assert!(check(&with("exp", json!(whole as f64 + 0.5)), 0));
    let text = whole.to_string();
    for exp in [json!(null), json!(text), json!(0), json!(-1), json!([whole]), json!(true)] {
        assert!(!check(&with("exp", exp.clone()), 0), "{exp}");
    }
    for nbf in [json!(text), json!([0]), json!({})] {
        assert!(!check(&with("nbf", nbf.clone()), 0), "{nbf}");
    }
    // More than a number can be.
    let huge = claims().to_string().replace(&text, "1e999");
    let header = json!({"alg": "HS256"});
    assert_eq!(keys.check(&token(&header, &huge, |m| hs256(SECRET, m)), at(0)), None);
}

/// Required claims must be present and ours: a token for another audience, by another issuer or
/// without a subject is refused.
#[test]
fn claims_that_are_required() {
    let keys = hs256_keys();
    let check = |claims: &Value| keys.check(&hs256_token(claims), at(0));
    for name in ["exp", "aud", "sub", "iss", "roles", "namespaces"] {
        assert_eq!(check(&without(name)), None, "{name}");
        assert_eq!(check(&with(name, json!(null))), None, "{name}");
        assert_eq!(check(&with(name, json!({}))), None, "{name}");
        assert_eq!(check(&with(name, json!([]))), None, "{name}");
    }
    assert!(check(&with("aud", json!(["other", AUDIENCE]))).is_some());
    assert_eq!(check(&with("aud", json!("other"))), None);
    assert_eq!(check(&with("aud", json!(["other"]))), None);
    assert_eq!(check(&with("aud", json!(format!("{AUDIENCE}/")))), None);
    assert_eq!(check(&with("iss", json!("https://evil.example"))), None);
    assert!(check(&with("sub", json!("s".repeat(SUBJECT_CHARS_MAX)))).is_some());
    let long = "s".repeat(SUBJECT_CHARS_MAX + 1);
    for sub in ["", " ", "a b", "a\nb", "ü", "\u{202e}ada", &long] {
        assert_eq!(check(&with("sub", json!(sub))), None, "{sub:?}");
    }
    for roles in [json!(["king"]), json!("admin"), json!(["Admin"]), json!([1])] {
        assert_eq!(check(&with("roles", roles.clone())), None, "{roles}");
    }
    for namespaces in [json!("shop"), json!(["SHOP"]), json!(["shop", "*"]), json!([""])] {
        assert_eq!(check(&with("namespaces", namespaces.clone())), None, "{namespaces}");
    }
    // As with keys: what acts on the whole server takes all namespaces.
    assert_eq!(check(&with("roles", json!(["admin"]))), None);
    let mut admin = with("roles", json!(["admin"]));
    admin["namespaces"] = json!(["*"]);
    assert!(check(&admin).unwrap().may(Role::Deploy));
    // Said twice: it is not clear which is meant.
    let twice = claims().to_string().replacen('{', "{\"sub\":\"root\",", 1);
    let header = json!({"alg": "HS256"});
    assert_eq!(keys.check(&token(&header, &twice, |m| hs256(SECRET, m)), at(0)), None);
}

/// A claim is what RFC 7519 says it is, and a header what RFC 7515 says, or the token is none. Each
/// row replaces one member of a good token by this JSON, or adds it.
#[test]
fn claims_and_headers_of_the_wrong_shape() {
    let issuer = "\"https://login.example\"";
    let list = format!("[{issuer}]");
    let among = format!("[\"https://evil.example\",{issuer}]");
    let (ours, other) = (format!("\"{AUDIENCE}\""), "\"https://other.example\"");
    let (end, late) = (seconds(600).to_string(), seconds(600) * 1000);
    let rows: &[(&str, &str, bool)] = &[
        ("iss", issuer, true),
        ("iss", &list, false),
        ("iss", &among, false),
        ("iss", "{}", false),
        ("iss", "7", false),
        ("iss", "null", false),
        ("iss", "\"\"", false),
        ("aud", &format!("[{ours},{other}]"), true),
        ("aud", &format!("[{ours},7]"), false),
        ("aud", &format!("[[{ours}]]"), false),
        ("aud", &format!("{{{ours}:true}}"), false),
        ("sub", "7", false),
        ("sub", "[\"ada@example.org\"]", false),
        ("sub", "true", false),
        ("exp", &format!("{end}.5"), true),
        ("exp", "253402300799", true),
        ("exp", "253402300800", false),
        ("exp", &late.to_string(), false),
        ("exp", "1e17", false),
        ("exp", "1e308", false),
        ("exp", "1e999", false),
        ("exp", "-1", false),
        ("exp", &format!("-{end}"), false),
        ("exp", &format!("\"{end}\""), false),
        ("exp", "{}", false),
        ("nbf", "0", true),
        ("nbf", "0.5", true),
        ("nbf", "-1", true),
        ("nbf", "1e308", false),
        ("nbf", "null", false),
        ("nbf", "\"0\"", false),
        ("nbf", "[0]", false),
        ("roles", "{\"0\":\"call\"}", false),
        ("namespaces", "null", false),
    ];
    let without_issuer = SessionKeys::new(&algorithms()[0], AUDIENCE, None).unwrap();
    let signed = |header: &str, claims: &str| {
        token_of_texts(header, claims, |message| hs256(SECRET, message))
    };
    let header = r#"{"typ":"JWT","alg":"HS256"}"#;
    let members = |name: &str| -> String {
        let all = without(name);
        let all = all.as_object().unwrap().iter();
        all.map(|(name, value)| format!(",\"{name}\":{value}")).collect()
    };
    for (name, value, good) in rows {
        let token = signed(header, &format!("{{\"{name}\":{value}{}}}", members(name)));
        assert_eq!(hs256_keys().check(&token, at(0)).is_some(), *good, "{name}: {value}");
        // An issuer that is not demanded has the same shape.
        let good = *good || (*name, *value) == ("iss", "\"\"");
        assert_eq!(without_issuer.check(&token, at(0)).is_some(), good, "{name}: {value}");
        // Said twice, in whichever order and spelling, it could be read in two ways.
        let own = claims()[*name].to_string();
        for twice in [
            format!("{{\"{name}\":{value},\"{name}\":{own}{}}}", members(name)),
            format!("{{\"{name}\":{own},\"{name}\":{value}{}}}", members(name)),
            format!(
                "{{\"{name}\":{own},\"\\u{:04x}{}\":{value}{}}}",
                u32::from(name.as_bytes()[0]),
                &name[1..],
                members(name)
            ),
        ] {
            let token = signed(header, &twice);
            assert_eq!(without_issuer.check(&token, at(0)), None, "{twice}");
        }
    }
    let text = claims().to_string();
    for (header, good) in [
        (r#"{"alg":"HS256"}"#, true),
        (r#"{"alg":"HS256","typ":"jwt"}"#, true),
        (r#"{"alg":"HS256","typ":"application/jwt"}"#, true),
        (r#"{"alg":"HS256","typ":"at+jwt"}"#, true),
        (r#"{"alg":"HS256","typ":"Application/AT+JWT"}"#, true),
        (r#"{"alg":"HS256","typ":"logout+jwt"}"#, false),
        (r#"{"alg":"HS256","typ":"dpop+jwt"}"#, false),
        (r#"{"alg":"HS256","typ":"JOSE"}"#, false),
        (r#"{"alg":"HS256","typ":""}"#, false),
        (r#"{"alg":"HS256","typ":7}"#, false),
        (r#"{"alg":"HS256","crit":[]}"#, false),
        (r#"{"alg":"HS256","crit":["exp"]}"#, false),
        (r#"{"alg":"HS256","crit":"exp"}"#, false),
        (r#"{"alg":"none","alg":"HS256"}"#, false),
        (r#"{"alg":"HS256","alg":"none"}"#, false),
        (r#"{"alg":["HS256"]}"#, false),
        (r#"{"typ":"JWT"}"#, false),
        (r#"["HS256"]"#, false),
    ] {
        let token = signed(header, &text);
        assert_eq!(hs256_keys().check(&token, at(0)).is_some(), good, "{header}");
    }
}

/// What is too long is not looked at.
#[test]
fn a_token_is_bounded() {
    let keys = hs256_keys();
    let padded = |bytes: usize| hs256_token(&with("pad", json!("x".repeat(bytes))));
    let base = padded(0).len();
    let long = padded(SESSION_TOKEN_BYTES_MAX);
    assert!(long.len() > SESSION_TOKEN_BYTES_MAX);
    assert_eq!(keys.check(&long, at(0)), None);
    let short = padded((SESSION_TOKEN_BYTES_MAX - base) * 3 / 4 - 3);
    assert!(short.len() <= SESSION_TOKEN_BYTES_MAX && short.len() > SESSION_TOKEN_BYTES_MAX - 8);
    assert!(keys.check(&short, at(0)).is_some());
}

/// A configuration that could verify nothing, or too much, is refused when the server starts.
#[test]
fn configurations() {
    let check = |algorithm: SessionAlgorithm| SessionKeys::new(&algorithm, AUDIENCE, None).err();
    for algorithm in algorithms() {
        assert_eq!(check(algorithm), None);
    }
    let short = SessionAlgorithm::Hs256(vec![1; SECRET_BYTES_MIN - 1]);
    assert_eq!(check(short), Some(SessionKeysError::ShortSecret(SECRET_BYTES_MIN - 1)));
    let private = include_str!("keys/p256.private.pem");
    let cut = P256.replacen("MFkw", "MFkx", 1);
    for pem in ["", "x", P384, ED25519, RSA, private, &cut] {
        let refused = check(SessionAlgorithm::Es256(pem.to_owned()));
        assert_eq!(refused, Some(SessionKeysError::PublicKey("ES256")), "{pem}");
    }
    for pem in ["", P256, RSA] {
        let refused = check(SessionAlgorithm::EdDsa(pem.to_owned()));
        assert_eq!(refused, Some(SessionKeysError::PublicKey("EdDSA")), "{pem}");
    }
    for pem in ["", P256, ED25519, RSA_1024] {
        let refused = check(SessionAlgorithm::Rs256(pem.to_owned()));
        assert_eq!(refused, Some(SessionKeysError::PublicKey("RS256")), "{pem}");
    }
    let [hs256, ..] = algorithms();
    assert_eq!(SessionKeys::new(&hs256, "", None).err(), Some(SessionKeysError::NoAudience));
    assert_eq!(SessionKeys::new(&hs256, "x", Some("")).err(), Some(SessionKeysError::NoIssuer));
}

/// Neither a secret nor a key is shown.
#[test]
fn nothing_is_shown() {
    for algorithm in algorithms() {
        let keys = SessionKeys::new(&algorithm, AUDIENCE, None).unwrap();
        let shown = format!("{algorithm:?} {algorithm:#?} {keys:?} {keys:#?}");
        for hidden in ["thirty", "BEGIN", "116, 104", "redacted"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}
