//! The paths of the API: one table, from which requests are dispatched, the OpenAPI document is
//! made, and the tests know who may do what.
//!
//! - `call`: starting functions, and their outcomes. `execution`: what is shown of executions.
//!   `events`: the same as it happens. `logs`: what functions logged.
//! - `control`: signals, cancels, what people decide. `component`: what is deployed.
//! - `access`: API keys and the audit record. `backup`: a copy of everything.
//!   `retention`: the clock by which things are deleted. `hold`: a server that lets nothing go on.
//!   `health`: whether the server is well.
//! - `delivery`: endpoints, messages, dead letters.
//! - `ledger`: transactions, and what is read of vaults.
//! - `table`: which there are. `openapi`: the document.

mod access;
mod backup;
mod call;
mod component;
mod control;
mod delivery;
mod events;
mod execution;
mod health;
mod hold;
mod ledger;
mod logs;
pub(crate) mod openapi;
mod retention;
mod table;
mod unresolved;

use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use indelible_api::access::Role;
use indelible_api::{Code, Problem};

pub use self::table::ROUTES;
pub(crate) use self::table::{LIMIT, WAIT_SECONDS};
use crate::answer::Answer;
use crate::request::ApiRequest;
use crate::state::State;

/// A handler's answer to a request.
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>;

/// Handles the requests of a route.
pub(crate) type Handler = fn(Arc<State>, ApiRequest) -> HandlerFuture;

/// A path and a method.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, with names in braces for what varies.
    pub path: &'static str,
    /// Its name, for programs that are made from the document.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Who may use it.
    pub needs: RequiredAccess,
    /// What the query may say.
    pub query: &'static [Parameter],
    /// Headers that it reads, beside those that every path reads.
    pub headers: &'static [Parameter],
    /// The body of the request.
    pub body: Body,
    /// The bodies of answers that are no problem.
    pub answers: &'static [(u16, ResponseBody)],
    /// The problems that it can answer with, beside those of every path.
    pub codes: &'static [Code],
    pub(crate) handler: Handler,
}

/// Who may use a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No credential is needed.
    Nothing,
    /// Any good credential.
    Credential,
    /// A credential with one of these roles.
    Role(&'static [Role]),
}

/// Something that a request may say beside its path and its body.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub about: &'static str,
    /// What it can be.
    pub form: Form,
}

/// What a parameter can be.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// Any text.
    Any,
    /// Text of at most so many characters.
    Text(usize),
    /// A namespace.
    Namespace,
    /// A namespace, or `*` for all that the credential may see.
    Namespaces,
    /// A label: NAME=VALUE. A query may have several.
    Label,
    /// A whole number in this range.
    Number(u64, u64),
    /// Seconds, as a decimal number, in this range.
    Seconds(f64, f64),
    /// A time, RFC 3339.
    Time,
    /// States of executions, with commas between them.
    States,
    /// The beginning of the id of a root.
    IdPrefix,
    /// `true` or `false`; `false` unless said.
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A UUIDv7.
    Uuid,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// There is none.
    None,
    /// Any JSON; none is `null`.
    AnyJson,
    /// JSON of this shape.
    Json(Schema),
    /// The same, or nothing.
    OptionalJson(Schema),
    /// A component.
    Wasm,
}

/// The body of an answer.
#[derive(Debug, Clone, Copy)]
pub enum ResponseBody {
    /// Nothing.
    Nothing,
    /// JSON of this shape.
    Json(Schema),
    /// JSON of another kind.
    Document,
    /// Events as they happen.
    Events,
    /// A line of JSON for each thing.
    Lines,
    /// Plain text.
    Text,
    /// Bytes.
    Bytes,
}

/// Makes the schema of a type.
pub type Schema = fn(&mut schemars::SchemaGenerator) -> schemars::Schema;

impl Route {
    /// Every problem that this path can answer with.
    pub fn problems(&self) -> impl Iterator<Item = Code> {
        let everybody = [
            Code::MalformedRequest,
            Code::OriginRefused,
            Code::MethodNotAllowed,
            Code::Internal,
            Code::Busy,
            Code::Stopping,
            Code::StoreStopped,
        ];
        let credential: &[_] = match self.needs {
            RequiredAccess::Nothing => &[],
            _ => &[Code::Unauthenticated, Code::Forbidden],
        };
        // Every path that needs a role reads stored rows.
        let stored: &[_] = match self.needs {
            RequiredAccess::Role(_) => &[Code::Damaged],
            RequiredAccess::Nothing | RequiredAccess::Credential => &[],
        };
        let body: &[_] = match self.body {
            Body::None => &[],
            _ => &[Code::RequestTimeout, Code::PayloadTooLarge, Code::UnsupportedMediaType],
        };
        let id: &[_] = if self.names_execution() { &[Code::Ambiguous] } else { &[] };
        let own = self.codes.iter().chain(credential).chain(stored).chain(body).chain(id).copied();
        everybody.into_iter().chain(own)
    }

    /// Whether the path has the id of an execution or of a promise, whole or its first digits.
    pub fn names_execution(&self) -> bool {
        self.path.contains("{execution}") || self.path.contains("{promise}")
    }

    /// Whether a request to it changes something.
    pub fn changes(&self) -> bool {
        self.method != Method::GET
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
