//! The layer, and the service that it makes: which requests are guarded, and in which order the
//! steps come.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{Either, Full};
use sqlx::Pool;
use tower_layer::Layer;
use tower_service::Service;

use super::body::{self, GuardedBody, ReadError};
use super::config::{Config, Recording, Scope};
use super::database::LayerDatabase;
use super::error::LayerError;
use super::problem::Problem;
use super::tx::LentTransaction;
use super::{header, request, response};
use crate::json::Json;
use crate::key::IdempotencyKey;
use crate::outcome::{Attempt, InFlight, Outcome};
use crate::request::Request as Recorded;
use crate::store::{BoxError, IdempotencyStoreFactory};

/// Makes a service run its handler once for each key. See the [module](super).
pub struct IdempotencyLayer<DB: LayerDatabase> {
    config: Arc<Config<DB>>,
}

impl<DB: LayerDatabase> IdempotencyLayer<DB> {
    /// A layer that opens its transactions on this pool, records with this factory's settings, and
    /// tells callers apart by this scope.
    pub fn new(pool: Pool<DB>, factory: IdempotencyStoreFactory<DB::Client>, scope: Scope) -> Self {
        Self { config: Arc::new(Config::new(pool, factory, scope)) }
    }

    /// Refuses guarded methods without a key, with 400, instead of letting them pass.
    pub fn required(mut self) -> Self {
        Arc::make_mut(&mut self.config).is_required = true;
        self
    }

    /// How many bytes a request with a key may have; 1 MiB unless set.
    pub fn request_bytes_max(mut self, bytes_max: usize) -> Self {
        Arc::make_mut(&mut self.config).request_bytes_max = bytes_max;
        self
    }

    /// How many bytes a response that is recorded may have; 1 MiB unless set.
    pub fn response_bytes_max(mut self, bytes_max: usize) -> Self {
        Arc::make_mut(&mut self.config).response_bytes_max = bytes_max;
        self
    }

    /// Which responses are recorded, instead of [`Recording::by_status`].
    pub fn recording(mut self, recording: fn(StatusCode) -> Recording) -> Self {
        Arc::make_mut(&mut self.config).recording = recording;
        self
    }

    /// Called with every error on the service's side. The caller is not told: it gets a problem
    /// document without reasons.
    pub fn on_error(mut self, on_error: impl Fn(&LayerError) + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.config).on_error = Some(Arc::new(on_error));
        self
    }
}

impl<DB: LayerDatabase> Clone for IdempotencyLayer<DB> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config) }
    }
}

impl<S, DB: LayerDatabase> Layer<S> for IdempotencyLayer<DB> {
    type Service = IdempotencyService<S, DB>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { inner, config: Arc::clone(&self.config) }
    }
}

/// A service whose handler runs once for each key.
pub struct IdempotencyService<S, DB: LayerDatabase> {
    inner: S,
    config: Arc<Config<DB>>,
}

impl<S: Clone, DB: LayerDatabase> Clone for IdempotencyService<S, DB> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), config: Arc::clone(&self.config) }
    }
}

impl<S, DB, ReqBody, ResBody> Service<Request<ReqBody>> for IdempotencyService<S, DB>
where
    DB: LayerDatabase,
    S: Service<Request<GuardedBody<ReqBody>>, Response = Response<ResBody>>,
    S: Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ReqBody::Error: Into<BoxError>,
    ResBody: Body<Data = Bytes> + Send + 'static,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<GuardedBody<ResBody>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The instance that was polled ready must take the request; its clone may not be ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let config = Arc::clone(&self.config);
        Box::pin(async move {
            let guarded = match config.guarded(request).await {
                Ok(Arrival::KeyedRequest(guarded)) => guarded,
                Ok(Arrival::Unguarded(request)) => {
                    return inner.call(request.map(Either::Right)).await.map(as_it_came);
                }
                Err(problem) => return Ok(made(problem.response())),
            };
            let KeyedRequest { mut request, key, recorded } = guarded;
            let (lent, attempt) = match config.run(&key, &recorded).await {
                Ok(Run::Fresh(lent, attempt)) => (lent, attempt),
                Ok(Run::Answer(response)) => return Ok(made(response)),
                Err(error) => return Ok(made(config.refuse(&error))),
            };
            request.extensions_mut().insert(lent.handle());
            let ran = Ran { key, recorded, lent, attempt };
            match inner.call(request.map(Either::Left)).await {
                Ok(response) => Ok(config.end(ran, response).await),
                Err(error) => {
                    config.give_up(ran.lent).await;
                    Err(error)
                }
            }
        })
    }
}

fn as_it_came<B>(response: Response<B>) -> Response<GuardedBody<B>> {
    response.map(Either::Right)
}

fn made<B>(response: Response<Full<Bytes>>) -> Response<GuardedBody<B>> {
    response.map(Either::Left)
}

enum Arrival<B> {
    Unguarded(Request<B>),
    KeyedRequest(KeyedRequest),
}

/// A request with a key, read whole.
struct KeyedRequest {
    request: Request<Full<Bytes>>,
    key: IdempotencyKey,
    recorded: Recorded,
}

enum Run<DB: LayerDatabase> {
    Fresh(LentTransaction<DB>, Attempt),
    Answer(Response<Full<Bytes>>),
}

/// What is left to end when the handler has returned.
struct Ran<DB: LayerDatabase> {
    key: IdempotencyKey,
    recorded: Recorded,
    lent: LentTransaction<DB>,
    attempt: Attempt,
}

/// The methods whose repetition may do harm. `PUT` and `DELETE` are among them, since their second
/// answer can differ from the first.
fn is_guarded(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

impl<DB: LayerDatabase> Config<DB> {
    /// Reads the key, then the body: a caller that is slow to send holds no transaction.
    async fn guarded<B>(&self, request: Request<B>) -> Result<Arrival<B>, Problem>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        if !is_guarded(request.method()) {
            return Ok(Arrival::Unguarded(request));
        }
        let text = match header::key(request.headers())? {
            Some(text) => text.into_owned(),
            None if self.is_required => return Err(Problem::KeyRequired),
            None => return Ok(Arrival::Unguarded(request)),
        };
        let (parts, body) = request.into_parts();
        let key = self.scope.key(self.factory.settings().namespace(), &parts, &text)?;
        let body = match body::read(body, self.request_bytes_max).await {
            Ok(body) => body,
            Err(ReadError::TooLarge) => {
                return Err(Problem::RequestTooLarge { bytes_max: self.request_bytes_max });
            }
            Err(ReadError::Unreadable(_)) => return Err(Problem::RequestUnreadable),
        };
        let recorded = request::recorded(&parts, &body);
        let request = Request::from_parts(parts, Full::new(body));
        Ok(Arrival::KeyedRequest(KeyedRequest { request, key, recorded }))
    }

    /// The transaction to run the handler in, or what to answer instead.
    async fn run(&self, key: &IdempotencyKey, recorded: &Recorded) -> Result<Run<DB>, LayerError> {
        let (transaction, outcome) = self.begin(key, recorded).await?;
        if let Outcome::FreshAttempt(attempt) = outcome {
            return Ok(Run::Fresh(LentTransaction::new(transaction, key.clone()), attempt));
        }
        self.roll_back(transaction).await;
        let problem = match outcome {
            Outcome::FreshAttempt(_) => unreachable!("it was taken above"),
            Outcome::PriorResult(result) => {
                let response =
                    response::replayed(&result).map_err(LayerError::IncompatibleState)?;
                return Ok(Run::Answer(response));
            }
            Outcome::PriorError(error) => return Err(LayerError::RecordedFailure(error)),
            // A caller that sent another request gets nothing of what was recorded (I-23).
            Outcome::Mismatch(_) => Problem::Mismatch,
            Outcome::InFlight(in_flight) => in_progress(in_flight),
        };
        Ok(Run::Answer(problem.response()))
    }

    /// Ends the transaction as the handler's response demands: commit, roll back and record, or
    /// roll back.
    async fn end<B>(&self, ran: Ran<DB>, response: Response<B>) -> Response<GuardedBody<B>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let recording = (self.recording)(response.status());
        if recording == Recording::Not {
            self.give_up(ran.lent).await;
            return as_it_came(response);
        }
        let (parts, body) = response.into_parts();
        // Read before the transaction is taken back: the handler may still be producing the body
        // within it.
        let body = match body::read(body, self.response_bytes_max).await {
            Ok(body) => body,
            Err(why) => {
                self.give_up(ran.lent).await;
                return made(self.refuse(&match why {
                    ReadError::TooLarge => {
                        LayerError::ResponseTooLarge { bytes_max: self.response_bytes_max }
                    }
                    ReadError::Unreadable(error) => LayerError::ResponseBody(error),
                }));
            }
        };
        let json = response::recorded(parts.status, &parts.headers, &body);
        if let Err(error) = self.record(ran, recording, &json).await {
            return made(self.refuse(&error));
        }
        Response::from_parts(parts, Either::Left(Full::new(body)))
    }

    async fn record(
        &self,
        ran: Ran<DB>,
        recording: Recording,
        response: &Json,
    ) -> Result<(), LayerError> {
        let Ran { key, recorded, lent, attempt } = ran;
        let transaction = lent.take_back().ok_or(LayerError::TransactionHeld)?;
        if recording == Recording::WithEffects {
            return self.keep(transaction, &attempt, response).await;
        }
        self.roll_back(transaction).await;
        // The work was rolled back, so the caller may have the response whether it is recorded or
        // not.
        if let Err(error) = self.keep_alone(&key, &recorded, response).await {
            self.report(&error);
        }
        Ok(())
    }

    fn refuse(&self, error: &LayerError) -> Response<Full<Bytes>> {
        self.report(error);
        error.problem().response()
    }
}

fn in_progress(in_flight: InFlight) -> Problem {
    match in_flight.retry_after() {
        Some(retry_after) => Problem::InProgress { retry_after },
        None => Problem::Indeterminate,
    }
}
