//! From a request to its answer: is it let in, what does it want, may it, what comes of it. The
//! order matters: no body is read before its sender is authenticated, and nothing is looked up
//! before the sender is authorised.
#![expect(clippy::disallowed_methods, reason = "requests are measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, Version};
use hyper::body::Incoming;
use indelible_api::{Code, Problem};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug, debug_span};

use crate::answer::{Answer, Body as AnswerBody};
use crate::auth::Caller;
use crate::listen::body::{self, BodyError};
use crate::request::{self, ApiRequest, malformed};
use crate::routes::{Body, ROUTES, RequiredAccess, Route};
use crate::state::State;

/// The paths, each with its methods.
pub(crate) struct Router {
    paths: matchit::Router<Vec<&'static Route>>,
}

impl Router {
    pub(crate) fn new() -> Self {
        let mut paths: Vec<(&'static str, Vec<&'static Route>)> = Vec::new();
        for route in ROUTES {
            match paths.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, routes)) => routes.push(route),
                None => paths.push((route.path, vec![route])),
            }
        }
        let mut router = matchit::Router::new();
        for (path, routes) in paths {
            router.insert(path, routes).expect("the table has no paths that contradict");
        }
        Self { paths: router }
    }
}

/// A request without its body.
struct Head {
    method: Method,
    version: Version,
    uri: http::Uri,
    headers: HeaderMap,
}

/// Answers a request.
pub(crate) async fn dispatch(
    state: Arc<State>,
    router: Arc<Router>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let began = Instant::now();
    let _in_flight = state.metrics.began();
    let (parts, incoming) = request.into_parts();
    let http::request::Parts { method, version, uri, headers, .. } = parts;
    let head = Head { method, version, uri, headers };
    let mut name = "none";
    // The span has the route's pattern: the requested path has ids in it, or any text of a
    // client's.
    let span = debug_span!("request", id = state.number(), method = %head.method, route = Empty);
    let answered = handle_request(&state, &router, head, incoming, &span, &mut name);
    let answered = answered.instrument(span.clone()).await;
    let answer = answered.unwrap_or_else(|(problem, allow)| {
        let answer = Answer::problem(&problem);
        match allow {
            Some(allow) => answer.allow(&allow),
            None => answer,
        }
    });
    let response = roomed(&state, answer).into_response();
    let (status, took) = (response.status().as_u16(), began.elapsed());
    state.metrics.answered(name, status, took);
    // Entered, and not named as the parent: the log in JSON lists the spans that are entered.
    span.in_scope(|| debug!(status, duration_us = micros(took), "request answered"));
    response
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Answers up to this size are not counted: a connection takes as much by itself.
const SMALL_BYTES: usize = 16 << 10;

/// A large answer holds permits for its bytes until it is sent. So all clients that read slowly
/// share one bound.
fn roomed(state: &State, answer: Answer) -> Answer {
    let bytes = answer.bytes();
    if bytes <= SMALL_BYTES {
        return answer;
    }
    let permits = u32::try_from(bytes).ok();
    let room = permits.map(|count| Arc::clone(&state.answers).try_acquire_many_owned(count));
    match room {
        Some(Ok(room)) => answer.within(room),
        _ => {
            let detail = "too many bytes of responses are waiting to be read; try again later";
            Answer::problem(&Problem::new(Code::Busy, detail))
        }
    }
}

type RefusedRequest = (Problem, Option<String>);

fn refused(problem: Problem) -> RefusedRequest {
    (problem, None)
}

async fn handle_request(
    state: &Arc<State>,
    router: &Router,
    head: Head,
    incoming: Incoming,
    span: &Span,
    name: &mut &'static str,
) -> Result<Answer, RefusedRequest> {
    let Head { method, version, uri, headers } = head;
    let _room = state.requests.try_acquire().map_err(|_| {
        let max = state.options.requests_max;
        refused(Problem::new(
            Code::Busy,
            format!("{max} requests are in progress, which is the limit; try again later"),
        ))
    })?;
    own_host(state, version, &uri, &headers).map_err(refused)?;
    let no_path = || refused(Problem::new(Code::NoSuchPath, "see /v1/openapi.json for all paths"));
    let found = router.paths.at(uri.path()).map_err(|_| no_path())?;
    let Some(route) = found.value.iter().find(|route| route.method == method) else {
        let allow: Vec<_> = found.value.iter().map(|route| route.method.as_str()).collect();
        let allow = allow.join(", ");
        let detail = format!("allowed methods: {allow}");
        return Err((Problem::new(Code::MethodNotAllowed, detail), Some(allow)));
    };
    *name = route.name;
    span.record("route", route.path);
    let caller = let_in(state, route, &headers).map_err(refused)?;
    let params = request::params(&found.params).map_err(refused)?;
    let query = request::query(route, uri.query()).map_err(refused)?;
    let (body, held) = read(state, route, &headers, incoming).await.map_err(refused)?;
    let asked = ApiRequest { params, query, headers, caller, body, held };
    let answered = (route.handler)(Arc::clone(state), asked).await;
    answered.map_err(|problem| {
        debug_assert!(
            route.problems().any(|code| code == problem.code),
            "{route:?} does not say that it can have {}",
            problem.code
        );
        refused(problem)
    })
}

/// Refuses requests of web pages, and requests that name a host other than this server (D11).
fn own_host(
    state: &State,
    version: Version,
    uri: &http::Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let foreign = |why: &dyn std::fmt::Display| Problem::new(Code::OriginRefused, why.to_string());
    if state.access.is_open() {
        let checked = state.hosts.check_host(version, uri.authority(), headers);
        checked.map_err(|error| foreign(&error))?;
    }
    state.hosts.check_page(headers).map_err(|error| foreign(&error))
}

/// The caller of a request, if the route admits them.
fn let_in(state: &State, route: &Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    let roles = match route.needs {
        // The path is open to all, so the credential is not looked at.
        RequiredAccess::Nothing => return Ok(Caller::local()),
        RequiredAccess::Credential => &[][..],
        RequiredAccess::Role(roles) => roles,
    };
    let caller = state.access.authenticate_request(headers, state.now());
    let caller = caller.map_err(|_| {
        Problem::new(Code::Unauthenticated, "a valid API key or session token is needed")
    })?;
    if roles.is_empty() || roles.iter().any(|role| caller.may(*role)) {
        return Ok(caller);
    }
    let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
    let detail = format!("the credential lacks the role {}", roles.join(" or "));
    Err(Problem::new(Code::Forbidden, detail))
}

/// The body, if it is of the kind that the path wants.
async fn read(
    state: &State,
    route: &Route,
    headers: &HeaderMap,
    incoming: Incoming,
) -> Result<(Bytes, Option<body::BudgetShare>), Problem> {
    let (wanted, max, optional) = match route.body {
        Body::None => ("", 0, true),
        Body::AnyJson | Body::OptionalJson(_) => {
            ("application/json", state.options.body_bytes_max, true)
        }
        Body::Json(_) => ("application/json", state.options.body_bytes_max, false),
        Body::Wasm => ("application/wasm", state.options.component_bytes_max, false),
    };
    let given = headers.get(CONTENT_TYPE).map(|value| essence(value.as_bytes()));
    let is_wanted = given.as_deref() == Some(wanted);
    let empty = hyper::body::Body::is_end_stream(&incoming);
    // A body of another kind is refused before it is read; so is one where none is wanted.
    if wanted.is_empty() && !empty {
        return Err(malformed("this path does not take a body"));
    }
    if (given.is_some() || !empty || !optional) && !wanted.is_empty() && !is_wanted {
        let detail = format!("the body must be {wanted}, with that Content-Type");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    if !wanted.is_empty()
        && let Some(detail) = encoded(headers)
    {
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    if empty {
        return Ok((Bytes::new(), None));
    }
    let read = body::read(incoming, max, state.options.body_time_max, &state.budget).await;
    match read {
        Ok((bytes, held)) => Ok((bytes, Some(held))),
        Err(error) => Err(match error {
            BodyError::TooLarge => {
                Problem::new(Code::PayloadTooLarge, format!("the body must not exceed {max} bytes"))
            }
            BodyError::TooSlow => Problem::new(Code::RequestTimeout, "the body arrived too slowly"),
            BodyError::Broken => malformed("the body was cut off"),
            BodyError::Busy => Problem::new(
                Code::Busy,
                "too many bytes of request bodies are in memory; try again later",
            ),
        }),
    }
}

/// Why a body is refused that has a coding, compression for instance. Nothing is decoded here, so
/// coded bytes would be taken for the content. hyper undoes chunking, but passes on any coding
/// within the chunks.
fn encoded(headers: &HeaderMap) -> Option<&'static str> {
    let is_only = |name, plain: &str| {
        let all = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
        let mut all = all.filter(|value| !value.is_empty());
        all.next().is_none_or(|value| value.eq_ignore_ascii_case(plain.as_bytes()))
            && all.next().is_none()
    };
    if !is_only(CONTENT_ENCODING, "identity") {
        return Some(
            "the body must not be encoded: leave Content-Encoding out, or set it to identity",
        );
    }
    if !is_only(TRANSFER_ENCODING, "chunked") {
        return Some(
            "the body must not be encoded: leave Transfer-Encoding out, or set it to chunked",
        );
    }
    None
}

/// A media type without its parameters.
fn essence(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
