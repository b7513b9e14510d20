//! The layer and the service that it makes. They decide which requests are guarded, and the order
//! of the steps: read the request, begin it, run the handler, record its response.

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
    /// A layer that opens its transactions in `pool`, records with the settings of `factory`, and
    /// tells callers apart by `scope`.
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

    /// Sets which responses are recorded, in place of [`Recording::by_status`].
    pub fn recording(mut self, recording: fn(StatusCode) -> Recording) -> Self {
        Arc::make_mut(&mut self.config).recording = recording;
        self
    }

    /// Sets a function that is called with every error on the service's side. The caller gets only
    /// a problem document, without the reasons.
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
            let keyed = match config.read_request(request).await {
                Ok(Arrival::KeyedRequest(keyed)) => keyed,
                Ok(Arrival::Unguarded(request)) => {
                    return inner.call(request.map(Either::Right)).await.map(pass_through);
                }
                Err(problem) => return Ok(own_response(problem.response())),
            };
            let KeyedRequest { mut request, key, recorded } = keyed;
            let (lent, attempt) = match config.begin_or_answer(&key, &recorded).await {
                Ok(BeginResult::Fresh(lent, attempt)) => (lent, attempt),
                Ok(BeginResult::Answer(response)) => return Ok(own_response(response)),
                Err(error) => return Ok(own_response(config.refuse(&error))),
            };
            request.extensions_mut().insert(lent.handle());
            let open = OpenRequest { key, recorded, lent, attempt };
            match inner.call(request.map(Either::Left)).await {
                Ok(response) => Ok(config.end(open, response).await),
                Err(error) => {
                    config.give_up(open.lent).await;
                    Err(error)
                }
            }
        })
    }
}

/// The handler's response, whose body was not read.
fn pass_through<B>(response: Response<B>) -> Response<GuardedBody<B>> {
    response.map(Either::Right)
}

/// A response that the middleware made.
fn own_response<B>(response: Response<Full<Bytes>>) -> Response<GuardedBody<B>> {
    response.map(Either::Left)
}

/// A request that has arrived.
enum Arrival<B> {
    /// It goes to the handler as it is: its method is not guarded, or it has no key.
    Unguarded(Request<B>),
    KeyedRequest(KeyedRequest),
}

/// A guarded request with a key and its whole body.
struct KeyedRequest {
    request: Request<Full<Bytes>>,
    key: IdempotencyKey,
    recorded: Recorded,
}

/// What to do with a request that was begun under its key.
enum BeginResult<DB: LayerDatabase> {
    /// Run the handler, in this transaction.
    Fresh(LentTransaction<DB>, Attempt),
    /// Send this response, without the handler.
    Answer(Response<Full<Bytes>>),
}

/// A request whose handler runs: what [`Config::end`] needs to record and commit it.
struct OpenRequest<DB: LayerDatabase> {
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
    /// Reads the key and then the body, before a transaction is opened: a caller that sends slowly
    /// must not hold one.
    async fn read_request<B>(&self, request: Request<B>) -> Result<Arrival<B>, Problem>
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

    /// Begins the request under its key. Fresh, it gets the transaction to run the handler in;
    /// otherwise the response to send.
    async fn begin_or_answer(
        &self,
        key: &IdempotencyKey,
        recorded: &Recorded,
    ) -> Result<BeginResult<DB>, LayerError> {
        let (transaction, outcome) = self.begin(key, recorded).await?;
        if let Outcome::FreshAttempt(attempt) = outcome {
            return Ok(BeginResult::Fresh(LentTransaction::new(transaction, key.clone()), attempt));
        }
        self.roll_back(transaction).await;
        let problem = match outcome {
            Outcome::FreshAttempt(_) => unreachable!("a fresh attempt was returned above"),
            Outcome::PriorResult(result) => {
                let response =
                    response::replayed(&result).map_err(LayerError::IncompatibleState)?;
                return Ok(BeginResult::Answer(response));
            }
            Outcome::PriorError(error) => return Err(LayerError::RecordedFailure(error)),
            // A caller that sent another request gets nothing of what was recorded (I-23).
            Outcome::Mismatch(_) => Problem::Mismatch,
            Outcome::InFlight(in_flight) => in_progress(in_flight),
        };
        Ok(BeginResult::Answer(problem.response()))
    }

    /// Ends the transaction as the handler's response demands: commit, roll back and record, or
    /// roll back.
    async fn end<B>(&self, open: OpenRequest<DB>, response: Response<B>) -> Response<GuardedBody<B>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let recording = (self.recording)(response.status());
        if recording == Recording::Not {
            self.give_up(open.lent).await;
            return pass_through(response);
        }
        let (parts, body) = response.into_parts();
        // The body is read before the transaction is taken back: the handler may still be producing
        // the body in that transaction.
        let body = match body::read(body, self.response_bytes_max).await {
            Ok(body) => body,
            Err(why) => {
                self.give_up(open.lent).await;
                return own_response(self.refuse(&match why {
                    ReadError::TooLarge => {
                        LayerError::ResponseTooLarge { bytes_max: self.response_bytes_max }
                    }
                    ReadError::Unreadable(error) => LayerError::ResponseBody(error),
                }));
            }
        };
        let json = response::recorded(parts.status, &parts.headers, &body);
        if let Err(error) = self.record(open, recording, &json).await {
            return own_response(self.refuse(&error));
        }
        Response::from_parts(parts, Either::Left(Full::new(body)))
    }

    async fn record(
        &self,
        open: OpenRequest<DB>,
        recording: Recording,
        response: &Json,
    ) -> Result<(), LayerError> {
        let OpenRequest { key, recorded, lent, attempt } = open;
        let transaction = lent.take_back().ok_or(LayerError::TransactionHeld)?;
        if recording == Recording::WithEffects {
            return self.keep(transaction, &attempt, response).await;
        }
        self.roll_back(transaction).await;
        // The work is undone, so the caller may have the response even if recording it fails.
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
