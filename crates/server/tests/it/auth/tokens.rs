//! API keys over a real store.

use std::sync::Arc;

use indelible_api::access::{NewToken, Role, Token};
use indelible_records::audit::{self, AuditSubject};
use indelible_records::{AUDIT, SETTINGS, TABLES, settings};
use indelible_server::auth::tokens::{KEY_PREFIX, TOKEN_NAME_CHARS_MAX};
use indelible_server::auth::{GrantError, TokenError, TokenId, Tokens};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, ReadError, Scan, Store};

use crate::auth::{admin, at, new_token, open};

fn audited(store: &Store) -> Vec<audit::Entry> {
    let mut entries = audit::before(store, at(1_000_000), 100).unwrap().value;
    entries.reverse();
    entries
}

fn count(store: &Store, table: indelible_store::Table) -> usize {
    store.scan(&Scan::all(table, 1_000)).unwrap().value.rows.len()
}

fn id(token: &Token) -> TokenId {
    token.id.parse().unwrap()
}

/// Q-18, C-38: a key stands for `client:NAME`, with its roles and namespaces, over a restart too,
/// and the audit record says who made it.
#[tokio::test]
async fn a_key_is_good_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tokens = Tokens::open(store.clone()).unwrap();
    let new = new_token("billing", &[Role::Operate, Role::Call], &["shop"]);
    let made = tokens.create(&new, at(1), &admin()).await.unwrap();
    assert!(made.secret.starts_with(&format!("{KEY_PREFIX}{}_", made.token.id)));
    assert_eq!(made.token.created_at, at(1).to_string());

    let caller = tokens.check(&made.secret, at(2)).unwrap();
    assert_eq!(caller.actor().as_str(), "client:billing");
    assert!(caller.may(Role::Call) && caller.may(Role::Operate));
    assert!(!caller.may(Role::Deploy) && !caller.may(Role::Admin));
    assert!(caller.in_namespace("shop") && !caller.in_namespace("bank"));

    drop(tokens);
    store.close().unwrap();
    let store = open(folder.path());
    let tokens = Tokens::open(store.clone()).unwrap();
    assert_eq!(tokens.check(&made.secret, at(3)).unwrap(), caller);
    assert_eq!(tokens.list().await.unwrap(), std::slice::from_ref(&made.token));

    let revoked = tokens.revoke(id(&made.token), at(4), &admin()).await.unwrap().unwrap();
    assert_eq!(tokens.check(&made.secret, at(4)), None);
    assert_eq!(revoked, Token { revoked_at: Some(at(4).to_string()), ..made.token.clone() });
    // Again: the same answer, and nothing is written.
    let again = tokens.revoke(id(&made.token), at(5), &admin()).await.unwrap().unwrap();
    assert_eq!(again, revoked);
    let entries = audited(&store);
    for (entry, action) in entries.iter().zip(["token create", "token revoke"]) {
        let said = (entry.actor.as_str(), entry.action.as_str(), entry.reason.as_str());
        assert_eq!(said, ("user:ada", action, ""));
        assert_eq!(entry.about, AuditSubject::Subject(made.token.id.clone()));
    }
    assert_eq!(entries.len(), 2);

    drop(tokens);
    store.close().unwrap();
    let tokens = Tokens::open(open(folder.path())).unwrap();
    assert_eq!(tokens.check(&made.secret, at(6)), None);
    assert_eq!(tokens.list().await.unwrap(), [revoked]);
}

/// A key ends at its time, to the microsecond, whatever its state on disk.
#[tokio::test]
async fn a_key_expires() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(open(folder.path())).unwrap();
    let new = new_token("x", &[Role::Call], &["shop"]);
    let new = NewToken { expires_at: Some(at(10).to_string()), ..new };
    let made = tokens.create(&new, at(1), &admin()).await.unwrap();
    assert_eq!(made.token.expires_at, Some(at(10).to_string()));
    assert!(tokens.check(&made.secret, at(9)).is_some());
    assert_eq!(tokens.check(&made.secret, at(10)), None);
    assert_eq!(tokens.check(&made.secret, at(11)), None);
}

/// Whatever is not a key that was made is none: one with another secret, or another id, or both.
#[tokio::test]
async fn other_keys_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tokens = Tokens::open(store.clone()).unwrap();
    let new = new_token("x", &[Role::Call], &["shop"]);
    let one = tokens.create(&new, at(1), &admin()).await.unwrap();
    let two = tokens.create(&new, at(1), &admin()).await.unwrap();
    let (_, one_secret) = one.secret.split_at(21);
    let (two_id, _) = two.secret.split_at(21);
    let last = if one.secret.ends_with('A') { "B" } else { "A" };
    let mut hostile = vec![
        String::new(),
        format!("{two_id}{one_secret}"),
        format!("{KEY_PREFIX}0123456789abcdef_{one_secret}"),
        format!("{}{last}", &one.secret[..one.secret.len() - 1]),
        one.secret.to_uppercase(),
        format!("{}\0", one.secret),
        format!("{} ", one.secret),
        one.secret.replace(KEY_PREFIX, ""),
        "ind_".repeat(10_000),
        "ind_é".to_owned(),
    ];
    // What the store has of a key is not the key.
    let row = settings::get(&store, &format!("token/{}", one.token.id));
    let row: serde_json::Value = serde_json::from_slice(&row.unwrap().value.unwrap()).unwrap();
    let hash = row["secret_sha256"].as_str().unwrap();
    hostile.push(format!("{KEY_PREFIX}{}_{}", one.token.id, &hash[..43]));
    for hostile in &hostile {
        assert_eq!(tokens.check(hostile, at(2)), None, "{hostile:?}");
    }
    assert!(tokens.check(&one.secret, at(2)).is_some());
}

/// A key that cannot be is refused with a clear error, and nothing is written.
#[tokio::test]
async fn what_cannot_be_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tokens = Tokens::open(store.clone()).unwrap();
    let good = || new_token("x", &[Role::Call], &["shop"]);
    let named = |name: &str| NewToken { name: name.to_owned(), ..good() };
    let ending = |end: &str| NewToken { expires_at: Some(end.to_owned()), ..good() };
    for name in ["", " ", "a b", "a\n", "ü", "\u{202e}x", &"n".repeat(TOKEN_NAME_CHARS_MAX + 1)] {
        let error = tokens.create(&named(name), at(5), &admin()).await.unwrap_err();
        assert!(matches!(error, TokenError::Name), "{name:?}: {error}");
    }
    for end in [at(5).to_string(), at(4).to_string(), "1970-01-01T00:00:00Z".to_owned()] {
        let error = tokens.create(&ending(&end), at(5), &admin()).await.unwrap_err();
        assert!(matches!(error, TokenError::Expired), "{end}: {error}");
    }
    for end in ["", "tomorrow", "2026-11-17", "9999-12-31T23:59:59Z"] {
        let error = tokens.create(&ending(end), at(5), &admin()).await.unwrap_err();
        assert!(matches!(error, TokenError::ExpiresAt), "{end}: {error}");
    }
    for (roles, namespaces, expected) in [
        (&[][..], &["shop"][..], GrantError::NoRoles),
        (&[Role::Call], &[], GrantError::NoNamespaces),
        (&[Role::Call, Role::Admin], &["shop"], GrantError::WholeServer(Role::Admin)),
        (&[Role::Deploy], &["shop"], GrantError::WholeServer(Role::Deploy)),
        (&[Role::Call], &["shop", "*"], GrantError::AllAndMore),
    ] {
        let new = new_token("x", roles, namespaces);
        let error = tokens.create(&new, at(5), &admin()).await.unwrap_err();
        assert!(matches!(&error, TokenError::Grant(error) if *error == expected), "{error}");
    }
    let missing = "0123456789abcdef".parse().unwrap();
    assert_eq!(tokens.revoke(missing, at(5), &admin()).await.unwrap(), None);
    assert_eq!((count(&store, SETTINGS), count(&store, AUDIT)), (0, 0));
    let name = "n".repeat(TOKEN_NAME_CHARS_MAX);
    assert!(tokens.create(&named(&name), at(5), &admin()).await.is_ok());
}

/// There can be so many and no more; what is over makes room, the longest over first.
#[tokio::test]
async fn there_are_not_too_many_keys() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let tokens = Tokens::open_bounded(store.clone(), 3).unwrap();
    let new = new_token("x", &[Role::Call], &["shop"]);
    let brief = NewToken { expires_at: Some(at(20).to_string()), ..new.clone() };
    let first = tokens.create(&new, at(1), &admin()).await.unwrap();
    let second = tokens.create(&brief, at(2), &admin()).await.unwrap();
    let third = tokens.create(&new, at(3), &admin()).await.unwrap();
    let error = tokens.create(&new, at(4), &admin()).await.unwrap_err();
    assert!(matches!(error, TokenError::TooMany(3)), "{error}");
    assert_eq!((count(&store, SETTINGS), count(&store, AUDIT)), (3 + 1, 3), "and their version");

    // At 30 the second has been over for longer than the third.
    tokens.revoke(id(&third.token), at(25), &admin()).await.unwrap().unwrap();
    let fourth = tokens.create(&new, at(30), &admin()).await.unwrap();
    let ids = |tokens: Vec<Token>| tokens.into_iter().map(|token| token.id).collect::<Vec<_>>();
    let left = [first.token.id, third.token.id, fourth.token.id.clone()];
    assert_eq!(ids(tokens.list().await.unwrap()), left);
    assert_eq!(tokens.revoke(id(&second.token), at(31), &admin()).await.unwrap(), None);
    let again = Tokens::open(store).unwrap();
    assert_eq!(ids(again.list().await.unwrap()), left);
    assert!(tokens.check(&fourth.secret, at(31)).is_some());
    assert!(tokens.check(&first.secret, at(31)).is_some());
}

/// The row of a key with these roles, in one namespace.
fn tokens_row(roles: &str) -> String {
    format!(
        r#"{{"version":1,"name":"x","secret_sha256":"{}","roles":{roles},"namespaces":["shop"],"created_at":"2026-11-16T02:00:00.000000Z"}}"#,
        "ab".repeat(32)
    )
}

/// A store whose keys cannot be read is not opened: to forget one would be to forget that it was
/// revoked.
#[tokio::test]
async fn a_row_that_cannot_be_read() {
    let everywhere = tokens_row(r#"["admin"]"#);
    for (name, value) in [
        ("token/0123456789abcdef", "{}"),
        ("token/0123456789abcdef", everywhere.as_str()),
        ("token/zz", "{}"),
        ("token/", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let mut batch = Batch::new();
        settings::put(&mut batch, name, value.as_bytes());
        settings::put(&mut batch, "tokens", b"none of ours");
        store.submit(batch).await.unwrap();
        let error = Tokens::open(store.clone()).unwrap_err();
        let TokenError::Read(ReadError::Row { key, .. }) = &error else { panic!("{error}") };
        assert_eq!((&key[..], store.damage().places()), (name.as_bytes(), 1), "{error}");
        assert!(!error.to_string().contains("abab"), "{error}");
    }
}

/// D2: what is not on disk is not shown. A list waits, and a revocation counts when it is durable;
/// a caller who gives up in between leaves memory and disk of one mind.
#[tokio::test]
async fn nothing_counts_before_it_is_durable() {
    let engine = Arc::new(MemoryBackend::new());
    let store = Store::start_by_hand(engine, &TABLES, Bounds::DEFAULT).unwrap();
    let drive = |store: &Store| while store.step() {};
    let tokens = Arc::new(Tokens::open(store.clone()).unwrap());
    let new = new_token("x", &[Role::Call], &["shop"]);

    let admin = admin();
    let mut creating = Box::pin(tokens.create(&new, at(1), &admin));
    assert!(poll_once(&mut creating).is_none());
    let mut listing = Box::pin(tokens.list());
    assert!(poll_once(&mut listing).is_none());
    drive(&store);
    let made = poll_once(&mut creating).unwrap().unwrap();
    assert_eq!(poll_once(&mut listing).unwrap().unwrap(), std::slice::from_ref(&made.token));

    let mut revoking = Box::pin(tokens.revoke(id(&made.token), at(2), &admin));
    assert!(poll_once(&mut revoking).is_none());
    assert!(tokens.check(&made.secret, at(3)).is_some());
    // Who asked goes away; the revocation does not.
    drop(revoking);
    let mut again = Box::pin(tokens.revoke(id(&made.token), at(3), &admin));
    assert!(poll_once(&mut again).is_none());
    drive(&store);
    assert_eq!(tokens.check(&made.secret, at(3)), None);
    let revoked = poll_once(&mut again).unwrap().unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(2).to_string()));
    assert_eq!(audited(&store).len(), 2);
}

/// Polls once.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// D13: of two processes that keep the keys of one store in memory, the one that does not know of
/// the other's change is not let to overwrite it: it reads again, and then both know the same.
#[tokio::test]
async fn two_that_keep_the_same_keys() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let one = Tokens::open_bounded(store.clone(), 3).unwrap();
    let other = Tokens::open_bounded(store.clone(), 3).unwrap();
    let new = |name| new_token(name, &[Role::Call], &["shop"]);
    let made = one.create(&new("first"), at(1), &admin()).await.unwrap();
    assert_eq!(other.check(&made.secret, at(2)), None, "it has not been told");
    other.refresh().unwrap();
    assert!(other.check(&made.secret, at(2)).is_some());

    // A revocation of which the other does not know is there after its own change.
    one.revoke(id(&made.token), at(3), &admin()).await.unwrap().unwrap();
    assert!(other.check(&made.secret, at(4)).is_some(), "it has not been told");
    let second = other.create(&new("second"), at(4), &admin()).await.unwrap();
    assert_eq!(other.check(&made.secret, at(4)), None);
    // Revoked again by the one that is behind: it was the first that counts.
    let third = other.create(&new("third"), at(5), &admin()).await.unwrap();
    let revoked = one.revoke(id(&second.token), at(6), &admin()).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(6).to_string()));
    let again = other.revoke(id(&second.token), at(7), &admin()).await.unwrap().unwrap();
    assert_eq!(again.revoked_at, revoked.revoked_at);
    // The bound holds for both together: the key that was over first goes.
    one.create(&new("fourth"), at(8), &admin()).await.unwrap();
    other.refresh().unwrap();
    let (seen, theirs) = (one.list().await.unwrap(), other.list().await.unwrap());
    assert_eq!(seen, theirs);
    let names: Vec<_> = seen.iter().map(|token| token.name.as_str()).collect();
    assert_eq!(names, ["second", "third", "fourth"]);
    assert!(one.check(&third.secret, at(9)).is_some());
    assert_eq!(audited(&store).len(), 6);
}
