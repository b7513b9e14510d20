//! Which requests are guarded, and how the key is read.

use std::sync::Arc;

use indelible_idempotency::layer::{IdempotencyLayer, Scope};

use crate::layer::support::{
    App, Backend, Call, Chunks, answer, code, on_both, post, request, serve, settings, text,
};

/// Says which call it was, and whether it has a transaction.
async fn count<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    answer(200, format!("{} {}", call.number, call.tx.is_some()))
}

async fn unguarded<B: Backend>() {
    let app = serve::<B, _>(count, |layer| layer).await;
    let get = |method| request(method, "/", b"k", "text/plain", Chunks::sized(""));
    for (number, method) in ["GET", "OPTIONS", "TRACE", "PROPFIND", "GET"].into_iter().enumerate() {
        assert_eq!(text(&app.send(get(method)).await), format!("{number} false"));
    }
    for number in 5..7 {
        let mut bare = post("k", "1");
        bare.headers_mut().remove("idempotency-key");
        assert_eq!(text(&app.send(bare).await), format!("{number} false"));
    }
    assert_eq!(app.records().await, Vec::<String>::new());
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let key = method.as_bytes();
        let send = || app.send(request(method, "/", key, "text/plain", Chunks::sized("x")));
        let first = send().await;
        assert!(text(&first).ends_with("true"), "{method}");
        assert_eq!(send().await.body(), first.body());
    }
    assert_eq!(app.runs(), 11);
}

/// I-6: methods that change nothing, and requests without a key, pass as if there were no layer.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_guarded_passes() {
    on_both!(unguarded);
}

async fn required<B: Backend>() {
    let app = serve::<B, _>(count, IdempotencyLayer::required).await;
    let mut bare = post("k", "1");
    bare.headers_mut().remove("idempotency-key");
    assert_eq!(code(&app.send(bare).await), (400, "key-required".to_owned()));
    let get = request("GET", "/", b"k", "text/plain", Chunks::sized(""));
    assert_eq!(app.send(get).await.status(), 200);
    assert_eq!(app.send(post("k", "1")).await.status(), 200);
    assert_eq!(app.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_be_required() {
    on_both!(required);
}

async fn refused<B: Backend>() {
    let app = serve::<B, _>(count, |layer| layer).await;
    let with = |key: &[u8]| request("POST", "/", key, "text/plain", Chunks::sized(""));
    let long = "k".repeat(256);
    let longer = "k".repeat(60_000);
    for key in [
        &b""[..],
        b"   ",
        b"a\xffb",
        b"a\tb",
        b"\"abc",
        b"\"abc\" \"d\"",
        b"\"\"",
        b"\"a\\b\"",
        long.as_bytes(),
        longer.as_bytes(),
    ] {
        let answer = app.send(with(key)).await;
        assert_eq!(code(&answer), (400, "key-invalid".to_owned()), "{key:?}");
        assert!(answer.body().len() < 400, "the key is not given back: {}", text(&answer));
    }
    let mut twice = with(b"k");
    twice.headers_mut().append("idempotency-key", "k".parse().unwrap());
    assert_eq!(code(&app.send(twice).await), (400, "key-invalid".to_owned()));
    assert_eq!(app.runs(), 0);
    assert_eq!(app.records().await, Vec::<String>::new());
}

/// I-6: a key that cannot be one is refused with the parser's own words, before anything is begun.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_refused() {
    on_both!(refused);
}

async fn spellings<B: Backend>() {
    let app = serve::<B, _>(count, |layer| layer).await;
    let with = |key: &[u8]| request("POST", "/", key, "text/plain", Chunks::sized(""));
    let same = [
        vec!["abc", "\"abc\"", " abc ", "\" abc \""],
        vec![r#""a\"b\\c""#, r#"a"b\c"#],
        vec!["ключ"],
        vec!["ABC"],
    ];
    for (number, keys) in same.iter().enumerate() {
        for key in keys {
            let answer = app.send(with(key.as_bytes())).await;
            assert_eq!(text(&answer), format!("{number} true"), "{key}");
        }
    }
    let longest = "é".repeat(255);
    assert_eq!(app.send(with(longest.as_bytes())).await.status(), 200);
    assert_eq!(app.runs(), 5);
}

/// I-6: a key in quotes, as the IETF's draft has it, and the same key bare are one.
#[tokio::test(flavor = "multi_thread")]
async fn quoted_and_bare_are_one_key() {
    on_both!(spellings);
}

async fn scopes<B: Backend>() {
    let scope = Scope::by(|parts| {
        let user = parts.headers.get("x-user")?.to_str().ok()?;
        Some(user.to_owned())
    });
    let handler = |call: Call<B>| async move {
        let user = call.parts.headers["x-user"].to_str().unwrap().to_owned();
        let key = call.tx.as_ref().unwrap().key().value().to_owned();
        call.effect(&user).await;
        answer(200, format!("secret of {user} under {key}"))
    };
    let db = Arc::new(B::database().await);
    let app = App::start(db, settings(), scope, handler, |layer| layer).await;
    let of = |user: &str, key: &str| {
        let mut request = post(key, "1");
        request.headers_mut().insert("x-user", user.parse().unwrap());
        request
    };
    let anna = app.send(of("anna", "k")).await;
    let bert = app.send(of("bert", "k")).await;
    assert!(text(&anna).starts_with("secret of anna under "));
    assert!(text(&bert).starts_with("secret of bert under "));
    assert_eq!(app.send(of("anna", "k")).await.body(), anna.body());
    assert_eq!(app.send(of("bert", "k")).await.body(), bert.body());
    // Where the scope ends and the key begins is kept apart.
    assert!(text(&app.send(of("a", "nnak")).await).starts_with("secret of a under "));
    assert_eq!(app.effects().await, ["a", "anna", "bert"]);
    // The key that is stored is neither the caller's nor guessable from it.
    assert_ne!(text(&anna).rsplit(' ').next(), text(&bert).rsplit(' ').next());

    for nobody in [of("", "k"), of("   ", "k"), post("k", "1")] {
        assert_eq!(code(&app.send(nobody).await), (403, "scope-unknown".to_owned()));
    }
    assert_eq!(app.runs(), 3);
}

/// I-1: callers of two scopes never get each other's responses, whatever keys they send.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_kept_apart() {
    on_both!(scopes);
}
