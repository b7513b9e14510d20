//! The layer around services of all kinds: routes of axum, bare hyper, and what tower asks of a
//! middleware. And what hyper itself would not let through.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::routing::post as post_route;
use axum::{Extension, Router};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use indelible_idempotency::layer::{GuardedBody, IdempotencyLayer, IdempotentTx, Scope};
use indelible_idempotency::store::SqliteStoreFactory;
use sqlx::Sqlite;
use tokio::net::TcpListener;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::layer::support::{Backend, Chunks, Db, post, request, send, settings, text};

fn layer(db: &Db<Sqlite>) -> IdempotencyLayer<Sqlite> {
    IdempotencyLayer::new(db.pool.clone(), SqliteStoreFactory::new(settings()), Scope::Shared)
}

async fn pay(tx: Option<Extension<IdempotentTx<Sqlite>>>) -> String {
    let Some(Extension(tx)) = tx else { return "unguarded".to_owned() };
    Sqlite::effect(&mut *tx.lock().await.unwrap(), "paid").await;
    "paid".to_owned()
}

/// On a router and on its routes alone, where unknown paths stay unguarded.
#[tokio::test(flavor = "multi_thread")]
async fn around_a_router_and_around_its_routes() {
    for is_route_layer in [false, true] {
        let db = Sqlite::database().await;
        let router: Router = Router::new().route("/pay", post_route(pay));
        let router =
            if is_route_layer { router.route_layer(layer(&db)) } else { router.layer(layer(&db)) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let to = |path| request("POST", path, b"k", "text/plain", Chunks::sized(""));
        for _ in 0..2 {
            assert_eq!(text(&send(address, to("/pay")).await.unwrap()), "paid");
        }
        let mut bare = to("/pay");
        bare.headers_mut().remove("idempotency-key");
        assert_eq!(text(&send(address, bare).await.unwrap()), "unguarded");
        let unknown = send(address, to("/other")).await.unwrap();
        assert_eq!(unknown.status().as_u16(), if is_route_layer { 404 } else { 422 });
        assert_eq!(Sqlite::effects(&db.pool).await, ["paid"]);
        server.abort();
    }
}

/// A handler on hyper alone: its requests' bodies come from the wire, and through the layer.
async fn bare(
    request: Request<GuardedBody<hyper::body::Incoming>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let tx: Option<IdempotentTx<Sqlite>> = request.extensions().get().cloned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if let Some(tx) = tx {
        let name = String::from_utf8(body.to_vec()).unwrap();
        Sqlite::effect(&mut *tx.lock().await.unwrap(), &name).await;
    }
    Ok(Response::new(Full::new(body)))
}

#[tokio::test(flavor = "multi_thread")]
async fn around_a_service_of_hyper() {
    let db = Sqlite::database().await;
    let service = TowerToHyperService::new(layer(&db).layer(service_fn(bare)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let stream = TokioIo::new(listener.accept().await.unwrap().0);
            let service = service.clone();
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(async move { http.serve_connection(stream, service).await });
        }
    });
    for is_replay in [false, true] {
        let response = send(address, post("k", "7")).await.unwrap();
        assert_eq!(text(&response), "7");
        assert_eq!(response.headers().contains_key("idempotency-replayed"), is_replay);
    }
    let mut unguarded = post("k", "8");
    unguarded.headers_mut().remove("idempotency-key");
    assert_eq!(text(&send(address, unguarded).await.unwrap()), "8");
    assert_eq!(Sqlite::effects(&db.pool).await, ["7"]);
    server.abort();
}

/// A service that must be made ready, each clone for itself, as tower has it.
struct Strict {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl<B> Service<Request<B>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = String;
    type Future = Ready<Result<Self::Response, String>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<B>) -> Self::Future {
        assert!(self.is_ready, "a clone that nobody made ready was called");
        self.is_ready = false;
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        ready(if call == 0 { Err("no".to_owned()) } else { Ok(Response::default()) })
    }
}

async fn made_ready<S>(service: &mut S) -> &mut S
where
    S: Service<Request<Chunks>, Error = String>,
{
    service.ready().await.unwrap()
}

/// What was made ready is what is called; an error of the service is the service's, and the key is
/// fresh after it.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_that_was_made_ready_is_called() {
    let db = Sqlite::database().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let strict = Strict { is_ready: false, calls: Arc::clone(&calls) };
    let mut service = layer(&db).layer(strict);
    let error = made_ready(&mut service).await.call(post("k", "1")).await.unwrap_err();
    assert_eq!(error, "no");
    assert_eq!(Sqlite::records(&db.pool).await, Vec::<String>::new());
    for _ in 0..3 {
        let response = made_ready(&mut service).await.call(post("k", "1")).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// Thousands of values of a header, of the request and of the response: more than hyper reads.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_headers() {
    let db = Sqlite::database().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let inner = service_fn(move |_: Request<GuardedBody<Chunks>>| {
        count.fetch_add(1, Ordering::SeqCst);
        let mut response = Response::new(Full::new(Bytes::new()));
        for number in 0..5_000_u32 {
            response.headers_mut().append("x-many", number.into());
        }
        ready(Ok::<_, Infallible>(response))
    });
    let service = layer(&db).layer(inner);
    let many = |name: &'static str| {
        let mut request = post("k", "1");
        for number in 0..5_000_u32 {
            request.headers_mut().append(name, number.into());
        }
        request
    };
    let refused = service.clone().oneshot(many("idempotency-key")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    for _ in 0..2 {
        let response = service.clone().oneshot(many("x-any")).await.unwrap();
        let values: Vec<_> = response.headers().get_all("x-many").iter().collect();
        assert_eq!((values.len(), values[4_999]), (5_000, &"4999".parse().unwrap()));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

/// A body that breaks off before it is whole begins nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_breaks_off_begins_nothing() {
    let db = Sqlite::database().await;
    let inner = service_fn(|_: Request<GuardedBody<axum::body::Body>>| async {
        unreachable!("the request is not whole");
        #[expect(unreachable_code, reason = "it says which response")]
        Ok::<Response<Full<Bytes>>, Infallible>(Response::default())
    });
    let broken = axum::body::Body::new(
        Full::new(Bytes::from_static(b"{"))
            .map_err(|never| match never {})
            .map_frame(|_| http_body::Frame::<Bytes>::trailers(http::HeaderMap::new()))
            .with_trailers(ready(Some(Err(std::io::Error::other("gone"))))),
    );
    let request = post("k", "1").map(|_| broken);
    let refused = layer(&db).layer(inner).oneshot(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    let document = refused.into_body().collect().await.unwrap().to_bytes();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["code"], "idempotency.request-unreadable");
    assert_eq!(Sqlite::records(&db.pool).await, Vec::<String>::new());
}
