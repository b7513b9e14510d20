//! A service of axum behind the layer, on a real listener.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use indelible_idempotency::layer::{IdempotencyLayer, IdempotentTx, LayerError, Scope};
use indelible_idempotency::store::Settings;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::backend::{Backend, Db, settings};

/// What a handler is called with.
pub(crate) struct Call<B: Backend> {
    /// How many calls came before it.
    pub(crate) number: usize,
    /// There if the request is guarded.
    pub(crate) tx: Option<IdempotentTx<B>>,
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl<B: Backend> Call<B> {
    /// An effect in the request's transaction.
    pub(crate) async fn effect(&self, name: &str) {
        let mut connection = self.tx.as_ref().unwrap().lock().await.unwrap();
        B::effect(&mut connection, name).await;
    }

    /// A statement in the request's transaction.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), sqlx::Error> {
        let mut connection = self.tx.as_ref().unwrap().lock().await.unwrap();
        B::run(&mut connection, sql).await
    }
}

/// A response of a handler.
pub(crate) fn answer(status: u16, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status.try_into().unwrap();
    response
}

/// A service that listens until it is dropped.
pub(crate) struct App<B: Backend> {
    pub(crate) db: Arc<Db<B>>,
    pub(crate) address: SocketAddr,
    runs: Arc<AtomicUsize>,
    errors: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl<B: Backend> App<B> {
    /// How often the handler was called.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// What `on_error` was told since it was last asked.
    pub(crate) fn errors(&self) -> Vec<String> {
        std::mem::take(&mut self.errors.lock().unwrap())
    }

    pub(crate) async fn send(&self, request: Request<super::Chunks>) -> Response<Bytes> {
        super::send(self.address, request).await.unwrap()
    }

    pub(crate) async fn effects(&self) -> Vec<String> {
        B::effects(&self.db.pool).await
    }

    pub(crate) async fn records(&self) -> Vec<String> {
        B::records(&self.db.pool).await
    }

    /// Changes the database from outside.
    pub(crate) async fn sql(&self, sql: &str) {
        let mut connection = self.db.pool.acquire().await.unwrap();
        B::run(&mut connection, sql).await.unwrap();
    }
}

impl<B: Backend> Drop for App<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Handler<B> = Arc<dyn Fn(Call<B>) -> Answering + Send + Sync>;

/// A service with this handler at every path, behind a layer on a fresh database.
pub(crate) async fn serve<B, F>(
    handler: impl Fn(Call<B>) -> F + Send + Sync + 'static,
    layer: impl FnOnce(IdempotencyLayer<B>) -> IdempotencyLayer<B>,
) -> App<B>
where
    B: Backend,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let db = Arc::new(B::database().await);
    App::start(db, settings(), Scope::Shared, handler, layer).await
}

impl<B: Backend> App<B> {
    /// A service with everything of its own.
    pub(crate) async fn start<F>(
        db: Arc<Db<B>>,
        settings: Settings,
        scope: Scope,
        handler: impl Fn(Call<B>) -> F + Send + Sync + 'static,
        layer: impl FnOnce(IdempotencyLayer<B>) -> IdempotencyLayer<B>,
    ) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        let handler: Handler<B> = Arc::new(move |call| Box::pin(handler(call)));
        let runs = Arc::new(AtomicUsize::new(0));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&errors);
        let ours = IdempotencyLayer::new(db.pool.clone(), B::factory(settings), scope);
        let ours = layer(ours.on_error(move |error: &LayerError| {
            told.lock().unwrap().push(format!("{error:?}"));
        }));
        let count = Arc::clone(&runs);
        let route = move |request: Request<Body>| {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let handler = Arc::clone(&handler);
            async move {
                let (mut parts, body) = request.into_parts();
                let tx = parts.extensions.remove();
                let body = body.collect().await.unwrap().to_bytes();
                handler(Call { number, tx, parts, body }).await
            }
        };
        let router = Router::new().fallback(route).layer(ours);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { db, address, runs, errors, task }
    }
}
