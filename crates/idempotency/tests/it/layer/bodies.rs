//! Bodies: what is compared, what the handler gets, and how large they may be.

use http::header::CONTENT_LENGTH;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::layer::support::{Backend, Call, Chunks, answer, on_both, post, request, serve, text};

/// Gives back what it got.
async fn echo<B: Backend>(call: Call<B>) -> http::Response<axum::body::Body> {
    answer(200, call.body)
}

async fn json_values<B: Backend>() {
    let app = serve::<B, _>(echo, |layer| layer).await;
    let first = app.send(post("k", r#"{"a": 1, "b": [1.0, "x"]}"#)).await;
    assert_eq!(text(&first), r#"{"a": 1, "b": [1.0, "x"]}"#, "as it was written");
    for same in [r#"{"b":[1,"x"],"a":1}"#, r#" { "\u0061" : 1e0, "b" : [ 10e-1, "\u0078" ] } "#] {
        assert_eq!(app.send(post("k", same)).await.body(), first.body(), "{same}");
    }
    for other in [r#"{"a":1,"b":["x",1]}"#, r#"{"a":1}"#, r#"{"a":1,"b":[1.0,"x"]"#] {
        assert_eq!(app.send(post("k", other)).await.status(), 422, "{other}");
    }
    assert_eq!(app.runs(), 1);
    let recorded = B::texts(&app.db.pool, "SELECT request_payload FROM idempotency_record").await;
    assert_eq!(recorded, [r#"{"method":"POST","target":"/","body":{"a": 1, "b": [1.0, "x"]}}"#]);
}

/// I-7: JSON that is written differently is the same request.
#[tokio::test(flavor = "multi_thread")]
async fn json_is_compared_by_its_value() {
    on_both!(json_values);
}

async fn no_json<B: Backend>() {
    let app = serve::<B, _>(echo, |layer| layer).await;
    let deep = "[".repeat(100_000);
    let closed = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let bodies = [
        "",
        "{",
        "{\"a\":1,\"a\":2}",
        "1,\"target\":\"/x\"",
        "1e9999999999",
        "\u{feff}1",
        "\"\\ud800\"",
        &deep,
        &closed,
    ];
    for (number, body) in bodies.iter().enumerate() {
        let key = format!("k{number}");
        let first = app.send(post(&key, body)).await;
        assert_eq!(first.status(), 200);
        assert_eq!(text(&first), *body, "the handler gets it as it is");
        assert_eq!(app.send(post(&key, body)).await.body(), first.body());
        assert_eq!(app.send(post(&key, &format!(" {body}"))).await.status(), 422, "by bytes");
    }
    assert_eq!(app.runs(), bodies.len());
}

/// A body that says it is JSON and is not, or is too deep, is compared by its bytes; whether it is
/// an error is the handler's decision.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_bytes() {
    on_both!(no_json);
}

async fn binary<B: Backend>() {
    let app = serve::<B, _>(echo, |layer| layer).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let with = |content_type: &str, body: Vec<u8>| {
        request("POST", "/", b"k", content_type, Chunks::sized(body))
    };
    let first = app.send(with("application/octet-stream", bytes.clone())).await;
    assert_eq!(first.body(), &bytes);
    let again = app.send(with("application/octet-stream", bytes.clone())).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.body(), &bytes);
    assert_eq!(app.send(with("image/png", bytes.clone())).await.status(), 422);
    // However it is cut into pieces.
    let pieces = Chunks::unsized_of(&bytes, 7);
    let pieces = request("POST", "/", b"k", "application/octet-stream", pieces);
    assert_eq!(app.send(pieces).await.body(), &bytes);
    assert_eq!(app.runs(), 1);
    // Bytes of a request are recorded as a hash.
    let recorded = B::texts(&app.db.pool, "SELECT request_payload FROM idempotency_record").await;
    assert!(recorded[0].contains("\"bodyBytes\":10000,\"bodySha256\":"), "{recorded:?}");
}

/// I-11: binary bodies are replayed byte by byte.
#[tokio::test(flavor = "multi_thread")]
async fn binary_bodies() {
    on_both!(binary);
}

/// A request in one write: who answers before the body is whole may close while it is sent.
fn raw(length: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: k\r\n{length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The body in chunks of this size.
fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    raw("transfer-encoding: chunked", &out)
}

async fn requests_too_large<B: Backend>() {
    let app = serve::<B, _>(echo, |layer| layer.request_bytes_max(1_000)).await;
    for request in [
        raw("content-length: 1001", &[b'x'; 1_001]),
        // It is known before any of it is there.
        raw("content-length: 9999999999999", b""),
        chunked(&[b'x'; 1_001], 1_001),
        chunked(&[b'x'; 1_001], 10),
        chunked(&[b'x'; 1_001], 1),
    ] {
        let mut stream = TcpStream::connect(app.address).await.unwrap();
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains(r#""code":"idempotency.request-too-large""#), "{answer}");
    }
    assert_eq!(app.runs(), 0);
    assert_eq!(app.records().await, Vec::<String>::new(), "nothing was begun");
    let with = |key: &str, body| request("POST", "/", key.as_bytes(), "text/plain", body);
    for (key, body) in
        [("k", Chunks::sized(vec![b'x'; 1_000])), ("l", Chunks::unsized_of(&[b'x'; 1_000], 10))]
    {
        assert_eq!(app.send(with(key, body)).await.body().len(), 1_000);
    }
    // Without a key there is no bound of ours.
    let mut bare = with("k", Chunks::sized(vec![b'x'; 1_001]));
    bare.headers_mut().remove("idempotency-key");
    assert_eq!(app.send(bare).await.body().len(), 1_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_bounded_with_and_without_a_length() {
    on_both!(requests_too_large);
}

async fn default_bound<B: Backend>() {
    let app = serve::<B, _>(|_: Call<B>| async { answer(204, "") }, |layer| layer).await;
    let text = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    assert_eq!(app.send(post("k", &text(1 << 20))).await.status(), 204);
    let again = app.send(post("k", &text(1 << 20))).await;
    assert_eq!(again.status(), 204);
    assert!(!again.headers().contains_key(CONTENT_LENGTH) && again.body().is_empty());
    assert_eq!(app.runs(), 1);
}

/// A JSON body of exactly 1 MiB is taken, and recorded whole.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_request_unless_said_otherwise() {
    on_both!(default_bound);
}
