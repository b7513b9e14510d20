//! From a request to its answer: is it let in, what does it want, may it, what comes of it. The
//! order matters: nothing is read of a body before it is known who sends it, and nothing is looked
//! up before it is known that they may.
#![expect(clippy::disallowed_methods, reason = "requests are measured")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, Version};
use hyper::body::Incoming;
use indelible_api::{Code, Problem};

use crate::answer::{Answer, Body as AnswerBody};
use crate::auth::Caller;
use crate::listen::body::{self, BodyError};
use crate::request::{self, Asked, malformed};
use crate::routes::{Body, Needs, ROUTES, Route};
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

/// What of a body belongs to a request.
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
    let answered = answer(&state, &router, head, incoming, &mut name).await;
    let answer = answered.unwrap_or_else(|(problem, allow)| {
        let answer = Answer::problem(&problem);
        match allow {
            Some(allow) => answer.allow(&allow),
            None => answer,
        }
    });
    let response = roomed(&state, answer).into_response();
    state.metrics.answered(name, response.status().as_u16(), began.elapsed());
    response
}

/// Answers up to this size are not counted: a connection takes as much by itself.
const SMALL_BYTES: usize = 16 << 10;

/// A large answer takes room until it is sent: those who read slowly share what there is, and
/// cannot take more.
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
            let detail = "too many bytes of answers wait to be read";
            Answer::problem(&Problem::new(Code::Busy, detail))
        }
    }
}

type Refused = (Problem, Option<String>);

fn refused(problem: Problem) -> Refused {
    (problem, None)
}

async fn answer(
    state: &Arc<State>,
    router: &Router,
    head: Head,
    incoming: Incoming,
    name: &mut &'static str,
) -> Result<Answer, Refused> {
    let Head { method, version, uri, headers } = head;
    let _room = state.requests.try_acquire().map_err(|_| {
        let max = state.options.requests_max;
        refused(Problem::new(
            Code::Busy,
            format!("{max} requests are under way, which is the most"),
        ))
    })?;
    own_host(state, version, &uri, &headers).map_err(refused)?;
    let no_path = || refused(Problem::new(Code::NoSuchPath, "/v1/openapi.json has all paths"));
    let found = router.paths.at(uri.path()).map_err(|_| no_path())?;
    let Some(route) = found.value.iter().find(|route| route.method == method) else {
        let allow: Vec<_> = found.value.iter().map(|route| route.method.as_str()).collect();
        let allow = allow.join(", ");
        let detail = format!("the path takes {allow}");
        return Err((Problem::new(Code::MethodNotAllowed, detail), Some(allow)));
    };
    *name = route.name;
    let caller = let_in(state, route, &headers).map_err(refused)?;
    let params = request::params(&found.params).map_err(refused)?;
    let query = request::query(route, uri.query()).map_err(refused)?;
    let (body, held) = read(state, route, &headers, incoming).await.map_err(refused)?;
    let asked = Asked { params, query, headers, caller, body, held };
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

/// No web page drives the server, and no name that somebody else gave it (D11).
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

/// Who asks, if they may.
fn let_in(state: &State, route: &Route, headers: &HeaderMap) -> Result<Caller, Problem> {
    let roles = match route.needs {
        // Whoever they are: it makes no difference.
        Needs::Nothing => return Ok(Caller::local()),
        Needs::Credential => &[][..],
        Needs::Role(roles) => roles,
    };
    let caller = state.access.authenticate_request(headers, state.now());
    let caller = caller.map_err(|_| {
        Problem::new(Code::Unauthenticated, "a good API key or session token is needed")
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
) -> Result<(Bytes, Option<body::Held>), Problem> {
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
        return Err(malformed("the path takes no body"));
    }
    if (given.is_some() || !empty || !optional) && !wanted.is_empty() && !is_wanted {
        let detail = format!("the body must be {wanted}, and say so in Content-Type");
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
                Problem::new(Code::PayloadTooLarge, format!("a body has at most {max} bytes"))
            }
            BodyError::TooSlow => Problem::new(Code::RequestTimeout, "the body came too slowly"),
            BodyError::Broken => malformed("the body broke off"),
            BodyError::Busy => Problem::new(Code::Busy, "too many bytes of bodies are in memory"),
        }),
    }
}

/// What is wrong with a body that does not come as it is, compressed for instance. Nothing is decoded
/// here, so it would be taken for what it is not; hyper undoes chunks and hands over what is in them,
/// whatever other coding that has.
fn encoded(headers: &HeaderMap) -> Option<&'static str> {
    let is_only = |name, plain: &str| {
        let all = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
        let mut all = all.filter(|value| !value.is_empty());
        all.next().is_none_or(|value| value.eq_ignore_ascii_case(plain.as_bytes()))
            && all.next().is_none()
    };
    if !is_only(CONTENT_ENCODING, "identity") {
        return Some("the body must not be encoded: Content-Encoding is identity or left out");
    }
    if !is_only(TRANSFER_ENCODING, "chunked") {
        return Some("the body must not be encoded: Transfer-Encoding is chunked or left out");
    }
    None
}

/// A media type without its parameters.
fn essence(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}
