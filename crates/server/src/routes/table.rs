//! Which paths there are. Those of the ledger are in `ledger`, those of
//! endpoints and messages in `delivery`.

use http::Method;
use indelible_api::access::{AuditPage, CreatedToken, NewToken, Role, Token, Tokens, WhoAmI};
use indelible_api::call::{Operation, Returned, Started, StillRunning};
use indelible_api::component::{Activate, Activated, Component, Components, Deployed, Functions};
use indelible_api::control::{
    Cancelling, ConfirmClock, Delivered, Done, Hold, LiftHold, Lifted, Ready, Reason,
    RetentionClock,
};
use indelible_api::execution::{Detail, Events, Executions};
use indelible_api::log::Logs;
use indelible_api::unresolved::{Resolve, UnresolvedDetail, UnresolvedPage};
use indelible_api::{Code, header};
use schemars::{JsonSchema, SchemaGenerator};

macro_rules! does {
    ($handler:path) => {
        |state, asked| Box::pin($handler(state, asked))
    };
}

mod delivery;
mod ledger;

use super::{Body, Form, Handler, Parameter, RequiredAccess, ResponseBody, Route};
use super::{
    access, backup, call, component, control, events, execution, health, hold, logs, openapi,
    retention, unresolved,
};

/// Those who may see executions.
const SEE: RequiredAccess = RequiredAccess::Role(&[Role::Call, Role::Operate]);
const CALL: RequiredAccess = RequiredAccess::Role(&[Role::Call]);
const OPERATE: RequiredAccess = RequiredAccess::Role(&[Role::Operate]);
const DEPLOY: RequiredAccess = RequiredAccess::Role(&[Role::Deploy]);
const ADMIN: RequiredAccess = RequiredAccess::Role(&[Role::Admin]);

/// The longest wait that a request may ask for, in seconds: shorter than what proxies allow.
pub(crate) const WAIT_SECONDS_MAX: f64 = 300.0;
/// How long a call waits unless it says, in seconds.
pub(crate) const WAIT_SECONDS: f64 = 30.0;
/// The most rows on a page.
pub(crate) const LIMIT_MAX: u64 = 500;
/// How many there are unless the request says.
pub(crate) const LIMIT: u64 = 50;

const NAMESPACE: Parameter = parameter(
    "namespace",
    "The namespace. By default the only one of the credential, otherwise `default`.",
    Form::Namespace,
);
const NAMESPACES: Parameter = parameter(
    "namespace",
    "The namespace; `*` for all that the credential may see. By default the only one of the \
     credential, otherwise `default`.",
    Form::Namespaces,
);
const LABEL: Parameter = parameter(
    "label",
    "A label of the execution, as NAME=VALUE: it is found by it. Up to 16. Labels are not part of \
     the request: those of the first start count.",
    Form::Label,
);
const WAIT: Parameter = parameter(
    "wait",
    "How long to wait for the outcome, in seconds; 30 by default. After that the response is 202, \
     and `Location` says where to ask again.",
    Form::Seconds(0.0, WAIT_SECONDS_MAX),
);
const CURSOR: Parameter =
    parameter("cursor", "Where to continue: `next` of the previous page.", Form::Text(1024));
const LIMITED: Parameter = parameter(
    "limit",
    "The maximum number of rows on the page; 50 by default.",
    Form::Number(1, LIMIT_MAX),
);
const KEY: Parameter = parameter(
    header::IDEMPOTENCY_KEY,
    "The caller's key for this request: repeating the request with it has no second effect and \
     returns the same response.",
    Form::Text(255),
);
const OPERATION_ID: Parameter = parameter(
    header::OPERATION_ID,
    "The caller's own id for the operation, instead of a key: a UUIDv7.",
    Form::Uuid,
);
const IF_IN_FLIGHT: Parameter = parameter(
    header::IF_IN_FLIGHT,
    "What to do if the operation is already running: wait for it (the default), or respond with \
     409.",
    Form::Words(&["attach", "conflict"]),
);
const FORCE: Parameter = parameter(
    "force",
    "Whether to go on although functions that are in use would break.",
    Form::Flag,
);
const TRACE_PARENT: Parameter = parameter(
    header::TRACE_PARENT,
    "The trace that the request belongs to (W3C); a malformed value is ignored.",
    Form::Any,
);
const LAST_EVENT_ID: Parameter = parameter(
    "last-event-id",
    "The id of the last event that was received: the stream continues after it.",
    Form::Text(512),
);

const fn parameter(name: &'static str, about: &'static str, form: Form) -> Parameter {
    Parameter { name, about, form }
}

/// The schema of a type.
fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

const fn json<T: JsonSchema>() -> ResponseBody {
    ResponseBody::Json(of::<T>)
}

const STARTS: &[Code] = &[
    Code::InvalidInput,
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
    Code::OnHold,
    Code::Restored,
];
const CALLS: &[Code] = &[
    Code::InvalidInput,
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
    Code::OnHold,
    Code::Restored,
];
const CONTROLS: &[Code] =
    &[Code::NotFound, Code::WrongState, Code::Mismatch, Code::ReservedNamespace, Code::OnHold];

const fn get(path: &'static str, name: &'static str, handler: Handler) -> Route {
    Route::new(Method::GET, path, name, handler)
}

const fn post(path: &'static str, name: &'static str, handler: Handler) -> Route {
    Route::new(Method::POST, path, name, handler)
}

impl Route {
    /// What a path has unless its row says otherwise: no body, no problems of its own, and for
    /// administrators.
    const fn new(method: Method, path: &'static str, name: &'static str, handler: Handler) -> Self {
        let (needs, body, summary) = (ADMIN, Body::None, "");
        let (query, headers, answers, codes) = (&[], &[], &[], &[]);
        Self { method, path, name, summary, needs, query, headers, body, answers, codes, handler }
    }

    const fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    const fn needs(mut self, needs: RequiredAccess) -> Self {
        self.needs = needs;
        self
    }

    const fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    const fn headers(mut self, headers: &'static [Parameter]) -> Self {
        self.headers = headers;
        self
    }

    const fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    const fn answers(mut self, answers: &'static [(u16, ResponseBody)]) -> Self {
        self.answers = answers;
        self
    }

    const fn codes(mut self, codes: &'static [Code]) -> Self {
        self.codes = codes;
        self
    }
}

/// All paths.
pub static ROUTES: &[Route] = &[
    post("/v1/call/{component}/{function}", "call", does!(call::call))
        .about("Start a function and wait for its outcome")
        .needs(CALL)
        .query(&[NAMESPACE, WAIT, LABEL])
        .headers(&[KEY, OPERATION_ID, IF_IN_FLIGHT, TRACE_PARENT])
        .body(Body::AnyJson)
        .answers(&[(200, json::<Returned>()), (202, json::<StillRunning>())])
        .codes(CALLS),
    post("/v1/start/{component}/{function}", "start", does!(call::start))
        .about("Start a function; the response is sent when the start is durable")
        .needs(CALL)
        .query(&[NAMESPACE, LABEL])
        .headers(&[KEY, OPERATION_ID, IF_IN_FLIGHT, TRACE_PARENT])
        .body(Body::AnyJson)
        .answers(&[(202, json::<Started>())])
        .codes(STARTS),
    get("/v1/operations/{operation}", "getOperation", does!(call::operation))
        .about("The execution that an operation led to")
        .needs(SEE)
        .query(&[NAMESPACE])
        .answers(&[(200, json::<Operation>())])
        .codes(&[Code::NotFound, Code::Expired, Code::OperationIdFromTheFuture]),
    get(
        "/v1/operations/{operation}/outcome",
        "getOperationOutcome",
        does!(call::operation_outcome),
    )
    .about("Wait for the outcome of an operation, even if its execution is no longer kept")
    .needs(SEE)
    .query(&[NAMESPACE, WAIT])
    .answers(&[(200, json::<Returned>()), (202, json::<StillRunning>())])
    .codes(&[
        Code::NotFound,
        Code::Expired,
        Code::OperationIdFromTheFuture,
        Code::FunctionFailed,
        Code::Cancelled,
        Code::Indeterminate,
    ]),
    get("/v1/executions", "listExecutions", does!(execution::list))
        .about("Executions of a namespace, newest first")
        .needs(SEE)
        .query(&[
            NAMESPACES,
            parameter(
                "key",
                "Only the one that was started under this idempotency key; without other filters. \
                 `key` of the response says what the key was used for.",
                Form::Text(255),
            ),
            parameter(
                "label",
                "Only those with this label, as NAME=VALUE; repeated, with all of them.",
                Form::Label,
            ),
            parameter(
                "state",
                "Only those in one of these states, separated by commas.",
                Form::States,
            ),
            parameter("function", "Only those of this function.", Form::Text(255)),
            parameter(
                "id_prefix",
                "Only those whose id begins with these digits, each with the state of its last \
                 attempt.",
                Form::IdPrefix,
            ),
            parameter("created_from", "Only those started at this time or later.", Form::Time),
            parameter("created_before", "Only those started before this time.", Form::Time),
            parameter(
                "latest",
                "Each execution once, with the state of its last attempt; by default every attempt \
                 is listed.",
                Form::Flag,
            ),
            CURSOR,
            LIMITED,
        ])
        .answers(&[(200, json::<Executions>())]),
    get("/v1/executions/{execution}", "getExecution", does!(execution::detail))
        .about("An execution, and what it waits for")
        .needs(SEE)
        .answers(&[(200, json::<Detail>())])
        .codes(&[Code::NotFound]),
    get("/v1/executions/{execution}/outcome", "getOutcome", does!(call::outcome))
        .about("Wait for the outcome of an execution")
        .needs(SEE)
        .query(&[WAIT])
        .answers(&[(200, json::<Returned>()), (202, json::<StillRunning>())])
        .codes(&[Code::NotFound, Code::FunctionFailed, Code::Cancelled, Code::Indeterminate]),
    get("/v1/executions/{execution}/tree", "getTree", does!(execution::tree))
        .about("An execution's whole tree: its root and everything that was called, all attempts")
        .needs(SEE)
        .query(&[CURSOR, LIMITED])
        .answers(&[(200, json::<Executions>())])
        .codes(&[Code::NotFound]),
    get("/v1/executions/{execution}/journal", "getJournal", does!(execution::journal))
        .about("The events of an execution")
        .needs(SEE)
        .query(&[
            parameter(
                "attempts",
                "Of this attempt, such as `1` or `1.2`; the last one by default.",
                Form::Text(255),
            ),
            parameter(
                "from",
                "From this event on, counted from 0.",
                Form::Number(0, u32::MAX as u64),
            ),
            LIMITED,
        ])
        .answers(&[(200, json::<Events>())])
        .codes(&[Code::NotFound]),
    get("/v1/executions/{execution}/events", "watchExecution", does!(events::watch))
        .about("The events of an execution as they happen (server-sent events)")
        .needs(SEE)
        .headers(&[LAST_EVENT_ID])
        .answers(&[(200, ResponseBody::Events), (204, ResponseBody::Nothing)])
        .codes(&[Code::NotFound]),
    get("/v1/executions/{execution}/logs", "getLogs", does!(logs::logs))
        .about("What an execution and everything that it called have logged, oldest first")
        .needs(SEE)
        .query(&[
            parameter(
                "from",
                "Where to continue: `next` of the previous page, now or later.",
                Form::Text(64),
            ),
            LIMITED,
        ])
        .answers(&[(200, json::<Logs>())])
        .codes(&[Code::NotFound]),
    post("/v1/executions/{execution}/signals/{signal}", "signal", does!(control::signal))
        .about("Send a signal; the response is sent when it is durable")
        .needs(OPERATE)
        .headers(&[KEY])
        .body(Body::AnyJson)
        .answers(&[(200, json::<Delivered>())])
        .codes(&[
            Code::NotFound,
            Code::WrongState,
            Code::Mismatch,
            Code::ReservedNamespace,
            Code::TooManySignals,
            Code::OnHold,
            Code::Restored,
        ]),
    post("/v1/executions/{execution}/cancel", "cancel", does!(control::cancel))
        .about("Ask an execution to end; it may clean up first")
        .needs(OPERATE)
        .headers(&[KEY])
        .body(Body::OptionalJson(of::<Reason>))
        .answers(&[(200, json::<Cancelling>())])
        .codes(CONTROLS),
    post("/v1/executions/{execution}/release", "release", does!(control::release))
        .about("Let a stuck execution continue")
        .needs(OPERATE)
        .headers(&[KEY])
        .body(Body::OptionalJson(of::<Reason>))
        .answers(&[(200, json::<Done>())])
        .codes(CONTROLS),
    post("/v1/executions/{execution}/fail", "fail", does!(control::fail))
        .about("End a stuck execution as failed")
        .needs(OPERATE)
        .headers(&[KEY])
        .body(Body::OptionalJson(of::<Reason>))
        .answers(&[(200, json::<Done>())])
        .codes(CONTROLS),
    get("/v1/unresolved", "listUnresolved", does!(unresolved::list))
        .about("What is unknown: every open question, oldest first")
        .needs(SEE)
        .query(&[
            parameter(
                "namespace",
                "Only those of this namespace; all that the credential permits if none is given.",
                Form::Namespaces,
            ),
            parameter("all", "Also those that are settled, behind the others.", Form::Flag),
            parameter("state", "Only those in this state.", Form::Words(unresolved::STATES)),
            parameter("function", "Only those of this function.", Form::Text(255)),
            parameter("host", "Only requests to this host.", Form::Text(255)),
            parameter("tree", "Only those of the tree of this execution.", Form::Text(1_024)),
            parameter("since", "Only those that arose at this time or later.", Form::Time),
            parameter("before", "Only those that arose before this time.", Form::Time),
            CURSOR,
            LIMITED,
        ])
        .answers(&[(200, json::<UnresolvedPage>())]),
    get("/v1/unresolved/{promise}", "getUnresolved", does!(unresolved::detail))
        .about("The evidence for an open or settled question")
        .needs(SEE)
        .answers(&[(200, json::<UnresolvedDetail>())])
        .codes(&[Code::NotFound]),
    post("/v1/unresolved/{promise}/resolve", "resolve", does!(unresolved::resolve))
        .about("Settle an open question: say what happened")
        .needs(OPERATE)
        .headers(&[KEY])
        .body(Body::Json(of::<Resolve>))
        .answers(&[(200, json::<Done>())])
        .codes(CONTROLS),
    get("/v1/components", "listComponents", does!(component::list))
        .about("Deployed components")
        .needs(RequiredAccess::Credential)
        .answers(&[(200, json::<Components>())]),
    get("/v1/components/{component}", "getComponent", does!(component::get))
        .about("A component: its versions and functions")
        .needs(RequiredAccess::Credential)
        .answers(&[(200, json::<Component>())])
        .codes(&[Code::NoSuchComponent]),
    Route::new(Method::PUT, "/v1/components/{component}", "deploy", does!(component::deploy))
        .about("Deploy a component and make it the version that new calls use")
        .needs(DEPLOY)
        .query(&[FORCE])
        .headers(&[KEY])
        .body(Body::Wasm)
        .answers(&[(200, json::<Deployed>())])
        .codes(&[Code::InvalidComponent, Code::Mismatch, Code::BreakingChange]),
    post("/v1/components/{component}/activate", "activate", does!(component::activate))
        .about("Make an earlier version of a component the one that new calls use")
        .needs(DEPLOY)
        .query(&[FORCE])
        .headers(&[KEY])
        .body(Body::Json(of::<Activate>))
        .answers(&[(200, json::<Activated>())])
        .codes(&[Code::NoSuchComponent, Code::NotFound, Code::Mismatch, Code::BreakingChange]),
    get("/v1/functions", "listFunctions", does!(component::functions))
        .about("Functions that can be called")
        .needs(RequiredAccess::Credential)
        .answers(&[(200, json::<Functions>())]),
    delivery::endpoints(),
    delivery::put_endpoint(),
    delivery::endpoint(),
    delivery::delete_endpoint(),
    delivery::enable("/v1/endpoints/{endpoint}/enable", "enableEndpoint"),
    delivery::disable("/v1/endpoints/{endpoint}/disable", "disableEndpoint"),
    delivery::rotate(),
    delivery::send(),
    delivery::messages(),
    delivery::message(),
    delivery::dead_letters(),
    delivery::redeliver(),
    delivery::abandon(),
    ledger::vaults(),
    ledger::put_vault(),
    ledger::vault(),
    ledger::delete_vault(),
    ledger::transact("/v1/vaults/{vault}/transactions", "vaultTransact"),
    ledger::batch("/v1/vaults/{vault}/batches", "vaultBatch"),
    ledger::run("/v1/vaults/{vault}/runs", "vaultRun"),
    ledger::client("/v1/vaults/{vault}/clients/{client}", "vaultClient"),
    ledger::hand_over("/v1/vaults/{vault}/clients/{client}/owner", "vaultHandOver"),
    ledger::entities("/v1/vaults/{vault}/entities", "vaultEntities"),
    ledger::entity("/v1/vaults/{vault}/entities/{key}", "vaultEntity"),
    ledger::history("/v1/vaults/{vault}/entities/{key}/history", "vaultHistory"),
    ledger::log("/v1/vaults/{vault}/transactions", "vaultTransactions"),
    ledger::transaction("/v1/vaults/{vault}/transactions/{height}", "vaultTransaction"),
    ledger::state("/v1/vaults/{vault}/state", "vaultState"),
    ledger::export("/v1/vaults/{vault}/export", "vaultExport"),
    ledger::events("/v1/vaults/{vault}/events", "vaultEvents"),
    ledger::transact("/v1/ledger/transactions", "ledgerTransact"),
    ledger::batch("/v1/ledger/batches", "ledgerBatch"),
    ledger::run("/v1/ledger/runs", "ledgerRun"),
    ledger::client("/v1/ledger/clients/{client}", "ledgerClient"),
    ledger::hand_over("/v1/ledger/clients/{client}/owner", "ledgerHandOver"),
    ledger::entities("/v1/ledger/entities", "ledgerEntities"),
    ledger::entity("/v1/ledger/entities/{key}", "ledgerEntity"),
    ledger::history("/v1/ledger/entities/{key}/history", "ledgerHistory"),
    ledger::log("/v1/ledger/transactions", "ledgerTransactions"),
    ledger::transaction("/v1/ledger/transactions/{height}", "ledgerTransaction"),
    ledger::state("/v1/ledger/state", "ledgerState"),
    ledger::export("/v1/ledger/export", "ledgerExport"),
    ledger::events("/v1/ledger/events", "ledgerEvents"),
    get("/v1/tokens", "listTokens", does!(access::list))
        .about("API keys, without their secrets")
        .needs(ADMIN)
        .answers(&[(200, json::<Tokens>())]),
    post("/v1/tokens", "createToken", does!(access::create))
        .about("Create an API key; its secret is shown only once")
        .needs(ADMIN)
        .body(Body::Json(of::<NewToken>))
        .answers(&[(201, json::<CreatedToken>())]),
    Route::new(Method::DELETE, "/v1/tokens/{token}", "revokeToken", does!(access::revoke))
        .about(
            "Revoke an API key; repeating it has no further effect, with or without an \
             idempotency key",
        )
        .needs(ADMIN)
        .answers(&[(200, json::<Token>())])
        .codes(&[Code::NotFound]),
    get("/v1/audit", "listAudit", does!(access::audit))
        .about("Who did what, newest first")
        .needs(ADMIN)
        .query(&[
            parameter("before", "Only entries before this time.", Form::Time),
            CURSOR,
            LIMITED,
        ])
        .answers(&[(200, json::<AuditPage>())]),
    get("/v1/backup", "backup", does!(backup::backup))
        .about("A consistent copy of everything in the store")
        .needs(ADMIN)
        .answers(&[(200, ResponseBody::Bytes)]),
    get("/v1/retention/clock", "getRetentionClock", does!(retention::clock))
        .about("The clock by which records and finished executions are deleted")
        .needs(ADMIN)
        .answers(&[(200, json::<RetentionClock>())]),
    post("/v1/retention/clock/confirm", "confirmRetentionClock", does!(retention::confirm))
        .about("Confirm that the server's wall clock is right: the retention clock is set to it")
        .needs(ADMIN)
        .headers(&[KEY])
        .body(Body::Json(of::<ConfirmClock>))
        .answers(&[(200, json::<Done>())])
        .codes(&[Code::WrongState, Code::Mismatch]),
    get("/v1/hold", "getHold", does!(hold::show))
        .about("Whether the server is on hold or closed to unknown keys, and what would go on")
        .needs(ADMIN)
        .answers(&[(200, json::<Hold>())]),
    post("/v1/hold/lift", "liftHold", does!(hold::lift))
        .about(
            "Let a server that is on hold go on, and one that was restored take unknown keys and \
             ids; repeating it has no further effect, with or without an idempotency key",
        )
        .needs(ADMIN)
        .body(Body::Json(of::<LiftHold>))
        .answers(&[(200, json::<Lifted>())]),
    get("/v1/whoami", "whoAmI", does!(access::who))
        .about("Whom the credential identifies")
        .needs(RequiredAccess::Credential)
        .answers(&[(200, json::<WhoAmI>())]),
    get("/v1/health", "health", does!(health::health))
        .about("Whether the process responds")
        .needs(RequiredAccess::Nothing)
        .answers(&[(200, json::<Done>())]),
    get("/v1/ready", "ready", does!(health::ready))
        .about("Whether the store can be written and unfinished executions have been resumed")
        .needs(RequiredAccess::Nothing)
        .answers(&[(200, json::<Ready>())])
        .codes(&[Code::OnHold]),
    get("/v1/openapi.json", "openapi", does!(openapi::serve))
        .about("This document")
        .needs(RequiredAccess::Nothing)
        .answers(&[(200, ResponseBody::Document)]),
    get("/metrics", "metrics", does!(health::metrics))
        .about("Metrics of the server, for Prometheus")
        .needs(RequiredAccess::Credential)
        .answers(&[(200, ResponseBody::Text)]),
];
