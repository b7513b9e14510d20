//! Which paths there are.

use http::Method;
use indelible_api::access::{AuditPage, MadeToken, NewToken, Role, Token, Tokens, WhoAmI};
use indelible_api::call::{GoesOn, Operation, Returned, Started};
use indelible_api::component::{Component, Components, Deployed, Functions};
use indelible_api::control::{
    Cancelling, ConfirmClock, Delivered, Done, Ready, Reason, Resolve, RetentionClock,
};
use indelible_api::execution::{Detail, Events, Executions, UnresolvedEffects};
use indelible_api::log::Logs;
use indelible_api::{Code, header};
use schemars::{JsonSchema, SchemaGenerator};

use super::{Body, Form, Needs, Parameter, Route, Shown};
use super::{
    access, backup, call, component, control, events, execution, health, logs, openapi, retention,
};

/// Those who may see executions.
const SEE: Needs = Needs::Role(&[Role::Call, Role::Operate]);
const CALL: Needs = Needs::Role(&[Role::Call]);
const OPERATE: Needs = Needs::Role(&[Role::Operate]);
const DEPLOY: Needs = Needs::Role(&[Role::Deploy]);
const ADMIN: Needs = Needs::Role(&[Role::Admin]);

/// The longest wait that a request may ask for, in seconds: shorter than what proxies allow.
pub(crate) const WAIT_SECONDS_MAX: f64 = 300.0;
/// How long a call waits unless it says, in seconds.
pub(crate) const WAIT_SECONDS: f64 = 30.0;
/// The most rows on a page.
pub(crate) const LIMIT_MAX: u64 = 500;
/// How many there are unless the request says.
pub(crate) const LIMIT: u64 = 50;

const NAMESPACE: Parameter = Parameter {
    name: "namespace",
    about: "In which namespace; the credential's only one, or `default`, unless said.",
    form: Form::Namespace,
};
const WAIT: Parameter = Parameter {
    name: "wait",
    about: "How long to wait for the outcome, in seconds; 30 unless said. When it is over, the \
            answer is 202, with where to ask again.",
    form: Form::Seconds(0.0, WAIT_SECONDS_MAX),
};
const CURSOR: Parameter = Parameter {
    name: "cursor",
    about: "Where to go on: `next` of the page before.",
    form: Form::Text(1024),
};
const LIMITED: Parameter = Parameter {
    name: "limit",
    about: "The most rows of the page; 50 unless said.",
    form: Form::Number(1, LIMIT_MAX),
};
const KEY: Parameter = Parameter {
    name: header::IDEMPOTENCY_KEY,
    about: "The caller's key for this request: asking again with it has no second effect, and \
            gives the same answer.",
    form: Form::Text(255),
};
const OPERATION_ID: Parameter = Parameter {
    name: header::OPERATION_ID,
    about: "The caller's own id for the operation, instead of a key: a UUIDv7.",
    form: Form::Uuid,
};
const IF_IN_FLIGHT: Parameter = Parameter {
    name: header::IF_IN_FLIGHT,
    about: "What to do if the operation goes on already: wait with it, unless said, or answer 409.",
    form: Form::Words(&["attach", "conflict"]),
};
const TRACE_PARENT: Parameter = Parameter {
    name: header::TRACE_PARENT,
    about: "The trace that the request belongs to (W3C); what makes no sense is ignored.",
    form: Form::Any,
};
const LAST_EVENT_ID: Parameter = Parameter {
    name: "last-event-id",
    about: "The id of the last event that was received: the stream goes on behind it.",
    form: Form::Text(512),
};

/// The schema of a type.
fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

const fn json<T: JsonSchema>() -> Shown {
    Shown::Json(of::<T>)
}

const STARTS: &[Code] = &[
    Code::KeyAndOperationId,
    Code::OperationIdFromTheFuture,
    Code::ReservedNamespace,
    Code::NoSuchComponent,
    Code::NoSuchFunction,
    Code::InFlight,
    Code::Conflict,
    Code::Expired,
    Code::Mismatch,
    Code::Indeterminate,
];
const CALLS: &[Code] = &[
    Code::KeyAndOperationId,
    Code::OperationIdFromTheFuture,
    Code::ReservedNamespace,
    Code::NoSuchComponent,
    Code::NoSuchFunction,
    Code::InFlight,
    Code::Conflict,
    Code::Expired,
    Code::Mismatch,
    Code::FunctionFailed,
    Code::Cancelled,
    Code::Indeterminate,
];
const CONTROLS: &[Code] =
    &[Code::NotFound, Code::WrongState, Code::Mismatch, Code::ReservedNamespace];

macro_rules! does {
    ($handler:path) => {
        |state, asked| Box::pin($handler(state, asked))
    };
}

/// What a path has unless its row says otherwise: nothing but its answers, and for administrators.
const BARE: Route = Route {
    method: Method::GET,
    path: "",
    name: "",
    summary: "",
    needs: ADMIN,
    query: &[],
    headers: &[],
    body: Body::None,
    answers: &[],
    codes: &[],
    handler: does!(openapi::serve),
};

/// All paths.
pub static ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/v1/call/{component}/{function}",
        name: "call",
        summary: "Start a function and wait for its outcome",
        needs: CALL,
        query: &[NAMESPACE, WAIT],
        headers: &[KEY, OPERATION_ID, IF_IN_FLIGHT, TRACE_PARENT],
        body: Body::AnyJson,
        answers: &[(200, json::<Returned>()), (202, json::<GoesOn>())],
        codes: CALLS,
        handler: does!(call::call),
    },
    Route {
        method: Method::POST,
        path: "/v1/start/{component}/{function}",
        name: "start",
        summary: "Start a function; the answer comes when the start is durable",
        needs: CALL,
        query: &[NAMESPACE],
        headers: &[KEY, OPERATION_ID, IF_IN_FLIGHT, TRACE_PARENT],
        body: Body::AnyJson,
        answers: &[(202, json::<Started>())],
        codes: STARTS,
        handler: does!(call::start),
    },
    Route {
        path: "/v1/operations/{operation}",
        name: "getOperation",
        summary: "The execution that an operation led to",
        needs: SEE,
        query: &[NAMESPACE],
        answers: &[(200, json::<Operation>())],
        codes: &[Code::NotFound, Code::Expired, Code::OperationIdFromTheFuture],
        handler: does!(call::operation),
        ..BARE
    },
    Route {
        path: "/v1/operations/{operation}/outcome",
        name: "getOperationOutcome",
        summary: "Wait for the outcome of an operation, also if its execution is not kept any more",
        needs: SEE,
        query: &[NAMESPACE, WAIT],
        answers: &[(200, json::<Returned>()), (202, json::<GoesOn>())],
        codes: &[
            Code::NotFound,
            Code::Expired,
            Code::OperationIdFromTheFuture,
            Code::FunctionFailed,
            Code::Cancelled,
            Code::Indeterminate,
        ],
        handler: does!(call::operation_outcome),
        ..BARE
    },
    Route {
        path: "/v1/executions",
        name: "listExecutions",
        summary: "Executions of a namespace, newest first",
        needs: SEE,
        query: &[
            NAMESPACE,
            Parameter {
                name: "state",
                about: "Only those that stand like one of these, with commas between.",
                form: Form::States,
            },
            Parameter {
                name: "function",
                about: "Only those of this function.",
                form: Form::Text(255),
            },
            Parameter {
                name: "id_prefix",
                about: "Only those whose id begins with these digits, each as its last attempt \
                        stands.",
                form: Form::IdPrefix,
            },
            Parameter {
                name: "created_from",
                about: "Only those started at this time or later.",
                form: Form::Time,
            },
            Parameter {
                name: "created_before",
                about: "Only those started before this time.",
                form: Form::Time,
            },
            Parameter {
                name: "latest",
                about: "Each once, as its last attempt stands; every attempt by itself unless said.",
                form: Form::Flag,
            },
            CURSOR,
            LIMITED,
        ],
        answers: &[(200, json::<Executions>())],
        handler: does!(execution::list),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}",
        name: "getExecution",
        summary: "An execution, and what it waits for",
        needs: SEE,
        answers: &[(200, json::<Detail>())],
        codes: &[Code::NotFound],
        handler: does!(execution::detail),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}/outcome",
        name: "getOutcome",
        summary: "Wait for the outcome of an execution",
        needs: SEE,
        query: &[WAIT],
        answers: &[(200, json::<Returned>()), (202, json::<GoesOn>())],
        codes: &[Code::NotFound, Code::FunctionFailed, Code::Cancelled, Code::Indeterminate],
        handler: does!(call::outcome),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}/tree",
        name: "getTree",
        summary: "An execution's whole tree: its root and everything that was called, all attempts",
        needs: SEE,
        query: &[CURSOR, LIMITED],
        answers: &[(200, json::<Executions>())],
        codes: &[Code::NotFound],
        handler: does!(execution::tree),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}/journal",
        name: "getJournal",
        summary: "The events of an execution",
        needs: SEE,
        query: &[
            Parameter {
                name: "attempts",
                about: "Of this attempt, as `1` or `1.2`; the last one unless said.",
                form: Form::Text(255),
            },
            Parameter {
                name: "from",
                about: "From this event on, counted from 0.",
                form: Form::Number(0, u32::MAX as u64),
            },
            LIMITED,
        ],
        answers: &[(200, json::<Events>())],
        codes: &[Code::NotFound],
        handler: does!(execution::journal),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}/events",
        name: "watchExecution",
        summary: "The events of an execution as they happen (server-sent events)",
        needs: SEE,
        headers: &[LAST_EVENT_ID],
        answers: &[(200, Shown::Events), (204, Shown::Nothing)],
        codes: &[Code::NotFound],
        handler: does!(events::watch),
        ..BARE
    },
    Route {
        path: "/v1/executions/{execution}/logs",
        name: "getLogs",
        summary: "What an execution and everything that it called have logged, oldest first",
        needs: SEE,
        query: &[
            Parameter {
                name: "from",
                about: "Where to go on: `next` of the page before, now or later.",
                form: Form::Text(64),
            },
            LIMITED,
        ],
        answers: &[(200, json::<Logs>())],
        codes: &[Code::NotFound],
        handler: does!(logs::logs),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/executions/{execution}/signals/{signal}",
        name: "signal",
        summary: "Send a signal; the answer comes when it is durable",
        needs: OPERATE,
        headers: &[KEY],
        body: Body::AnyJson,
        answers: &[(200, json::<Delivered>())],
        codes: &[
            Code::NotFound,
            Code::WrongState,
            Code::Mismatch,
            Code::ReservedNamespace,
            Code::TooManySignals,
        ],
        handler: does!(control::signal),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/executions/{execution}/cancel",
        name: "cancel",
        summary: "Ask an execution to end; it may clean up first",
        needs: OPERATE,
        headers: &[KEY],
        body: Body::OptionalJson(of::<Reason>),
        answers: &[(200, json::<Cancelling>())],
        codes: CONTROLS,
        handler: does!(control::cancel),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/executions/{execution}/release",
        name: "release",
        summary: "Let a held execution go on",
        needs: OPERATE,
        headers: &[KEY],
        body: Body::OptionalJson(of::<Reason>),
        answers: &[(200, json::<Done>())],
        codes: CONTROLS,
        handler: does!(control::release),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/executions/{execution}/fail",
        name: "fail",
        summary: "End a held execution as failed",
        needs: OPERATE,
        headers: &[KEY],
        body: Body::OptionalJson(of::<Reason>),
        answers: &[(200, json::<Done>())],
        codes: CONTROLS,
        handler: does!(control::fail),
        ..BARE
    },
    Route {
        path: "/v1/unresolved",
        name: "listUnresolved",
        summary: "Effects of which nobody knows whether they happened",
        needs: SEE,
        query: &[NAMESPACE, CURSOR, LIMITED],
        answers: &[(200, json::<UnresolvedEffects>())],
        handler: does!(control::unresolved),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/unresolved/{promise}/resolve",
        name: "resolve",
        summary: "Say how an effect ended of which nobody knows whether it happened",
        needs: OPERATE,
        headers: &[KEY],
        body: Body::Json(of::<Resolve>),
        answers: &[(200, json::<Done>())],
        codes: CONTROLS,
        handler: does!(control::resolve),
        ..BARE
    },
    Route {
        path: "/v1/components",
        name: "listComponents",
        summary: "What is deployed",
        needs: Needs::Credential,
        answers: &[(200, json::<Components>())],
        handler: does!(component::list),
        ..BARE
    },
    Route {
        path: "/v1/components/{component}",
        name: "getComponent",
        summary: "A component: its versions, and what it can do",
        needs: Needs::Credential,
        answers: &[(200, json::<Component>())],
        codes: &[Code::NoSuchComponent],
        handler: does!(component::get),
        ..BARE
    },
    Route {
        method: Method::PUT,
        path: "/v1/components/{component}",
        name: "deploy",
        summary: "Deploy a component, and make it the version that new calls take",
        needs: DEPLOY,
        headers: &[KEY],
        body: Body::Wasm,
        answers: &[(200, json::<Deployed>())],
        codes: &[Code::InvalidComponent, Code::Mismatch],
        handler: does!(component::deploy),
        ..BARE
    },
    Route {
        path: "/v1/functions",
        name: "listFunctions",
        summary: "What can be called",
        needs: Needs::Credential,
        answers: &[(200, json::<Functions>())],
        handler: does!(component::functions),
        ..BARE
    },
    Route {
        path: "/v1/tokens",
        name: "listTokens",
        summary: "API keys, without their secrets",
        needs: ADMIN,
        answers: &[(200, json::<Tokens>())],
        handler: does!(access::list),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/tokens",
        name: "createToken",
        summary: "Make an API key; its secret is shown this once",
        needs: ADMIN,
        body: Body::Json(of::<NewToken>),
        answers: &[(201, json::<MadeToken>())],
        handler: does!(access::create),
        ..BARE
    },
    Route {
        method: Method::DELETE,
        path: "/v1/tokens/{token}",
        name: "revokeToken",
        summary: "Revoke an API key; again is the same, with or without an idempotency key",
        needs: ADMIN,
        answers: &[(200, json::<Token>())],
        codes: &[Code::NotFound],
        handler: does!(access::revoke),
        ..BARE
    },
    Route {
        path: "/v1/audit",
        name: "listAudit",
        summary: "Who did what, newest first",
        needs: ADMIN,
        query: &[
            Parameter {
                name: "before",
                about: "Only what was before this time.",
                form: Form::Time,
            },
            CURSOR,
            LIMITED,
        ],
        answers: &[(200, json::<AuditPage>())],
        handler: does!(access::audit),
        ..BARE
    },
    Route {
        path: "/v1/backup",
        name: "backup",
        summary: "A copy of everything in the store, as it was at one moment",
        needs: ADMIN,
        answers: &[(200, Shown::Bytes)],
        handler: does!(backup::backup),
        ..BARE
    },
    Route {
        path: "/v1/retention/clock",
        name: "getRetentionClock",
        summary: "The clock by which records and finished executions are deleted",
        needs: ADMIN,
        answers: &[(200, json::<RetentionClock>())],
        handler: does!(retention::clock),
        ..BARE
    },
    Route {
        method: Method::POST,
        path: "/v1/retention/clock/confirm",
        name: "confirmRetentionClock",
        summary: "Say that the server's wall clock is right: the retention clock is set to it",
        needs: ADMIN,
        headers: &[KEY],
        body: Body::Json(of::<ConfirmClock>),
        answers: &[(200, json::<Done>())],
        codes: &[Code::WrongState, Code::Mismatch],
        handler: does!(retention::confirm),
        ..BARE
    },
    Route {
        path: "/v1/whoami",
        name: "whoAmI",
        summary: "Who a credential stands for",
        needs: Needs::Credential,
        answers: &[(200, json::<WhoAmI>())],
        handler: does!(access::who),
        ..BARE
    },
    Route {
        path: "/v1/health",
        name: "health",
        summary: "Whether the process answers",
        needs: Needs::Nothing,
        answers: &[(200, json::<Done>())],
        handler: does!(health::health),
        ..BARE
    },
    Route {
        path: "/v1/ready",
        name: "ready",
        summary: "Whether the store can be written and what was left to be done goes on",
        needs: Needs::Nothing,
        answers: &[(200, json::<Ready>())],
        handler: does!(health::ready),
        ..BARE
    },
    Route {
        path: "/v1/openapi.json",
        name: "openapi",
        summary: "This document",
        needs: Needs::Nothing,
        answers: &[(200, Shown::Document)],
        handler: does!(openapi::serve),
        ..BARE
    },
    Route {
        path: "/metrics",
        name: "metrics",
        summary: "What the server does, for Prometheus",
        needs: Needs::Credential,
        answers: &[(200, Shown::Text)],
        handler: does!(health::metrics),
        ..BARE
    },
];
