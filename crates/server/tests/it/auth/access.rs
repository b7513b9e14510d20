//! A request's credential, of either kind.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use indelible_api::access::Role;
use indelible_server::auth::{Access, SessionAlgorithm, SessionKeys, Tokens, Unauthenticated};

use crate::auth::{admin, at, new_token, open};

/// An open server takes every client for `system:local`, whatever it sends.
#[test]
fn open_to_everybody() {
    let junk = HeaderValue::from_static("Bearer ind_junk");
    for value in [None, Some(&junk)] {
        let caller = Access::Open.authenticate(value, at(0)).unwrap();
        assert_eq!(caller.actor().as_str(), "system:local");
        assert!(Role::ALL.into_iter().all(|role| caller.may(role)));
        assert!(caller.in_namespace("anything"));
    }
}

/// who is calling follows from the credential alone; whatever is wrong with one, the answer
/// is the same, and shows nothing of it.
#[tokio::test]
async fn a_credential_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Arc::new(Tokens::open(open(folder.path())).unwrap());
    let new = new_token("billing", &[Role::Call], &["shop"]);
    let made = tokens.create(&new, at(1), &admin()).await.unwrap();
    let revoked = tokens.create(&new, at(1), &admin()).await.unwrap();
    tokens.revoke(revoked.token.id.parse().unwrap(), at(2), &admin()).await.unwrap();
    let algorithm = SessionAlgorithm::Hs256(vec![7; 32]);
    let sessions = SessionKeys::new(&algorithm, "indelible", None).unwrap();
    let with = Access::Required { tokens: Arc::clone(&tokens), sessions: Some(sessions) };
    let only_keys = Access::Required { tokens, sessions: None };
    let secret = &made.secret;
    for access in [&with, &only_keys] {
        let check = |text: &[u8]| {
            let value = HeaderValue::from_bytes(text).unwrap();
            access
                .authenticate(Some(&value), at(3))
                .map(|caller| caller.actor().as_str().to_owned())
        };
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let good = check(format!("{scheme} {secret}").as_bytes());
            assert_eq!(good.as_deref(), Ok("client:billing"));
        }
        assert_eq!(access.authenticate(None, at(3)), Err(Unauthenticated::Missing));
        for text in [
            String::new(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            secret.clone(),
            format!("Basic {secret}"),
            format!("Bearer  {secret}"),
            format!("Bearer {secret} "),
            format!("Bearer\t{secret}"),
            format!("Bearer {secret}, Bearer {secret}"),
            format!("Bearer \"{secret}\""),
            format!("Bearer {}", revoked.secret),
            format!("Bearer {}é", &secret[..secret.len() - 1]),
            "Bearer eyJhbGciOiJub25lIn0.e30.".to_owned(),
        ] {
            assert_eq!(check(text.as_bytes()), Err(Unauthenticated::NotGood), "{text}");
        }
        assert_eq!(check(b"Bearer \xff\xfe"), Err(Unauthenticated::NotGood));
        let own = secret.rsplit_once(&made.token.id).unwrap().1;
        for shown in [format!("{access:?}"), format!("{access:#?}")] {
            assert!(!shown.contains(own) && !shown.contains("7, 7"), "{shown}");
        }

        let mut headers = HeaderMap::new();
        assert_eq!(access.authenticate_request(&headers, at(3)), Err(Unauthenticated::Missing));
        let good = HeaderValue::from_str(&format!("Bearer {secret}")).unwrap();
        headers.append(header::AUTHORIZATION, good.clone());
        assert!(access.authenticate_request(&headers, at(3)).is_ok());
        headers.append(header::AUTHORIZATION, good);
        assert_eq!(access.authenticate_request(&headers, at(3)), Err(Unauthenticated::NotGood));
    }
}

/// A key that the store knows is not shown by what holds it.
#[tokio::test]
async fn nothing_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(open(folder.path())).unwrap();
    let made =
        tokens.create(&new_token("x", &[Role::Call], &["a"]), at(1), &admin()).await.unwrap();
    let caller = tokens.check(&made.secret, at(2)).unwrap();
    let secret = &made.secret[21..];
    for shown in [format!("{tokens:?}"), format!("{caller:?}"), format!("{made:?}")] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
