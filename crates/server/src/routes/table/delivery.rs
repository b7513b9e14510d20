//! The paths of endpoints, messages and dead letters. (`const { … }`: what a function refers to is made
//! at compile time only if it says so.)

use http::Method;
use indelible_api::Code;
use indelible_api::access::Role;
use indelible_api::control::{Done, Reason};
use indelible_api::delivery::{
    DeliveryDetail, EndpointDetail, EndpointPut, EndpointSettings, Endpoints, MessageAccepted,
    MessageDetail, Messages, Redeliver, RotateSecret, SecretRotated, SendMessage,
};

use super::{KEY, LIMITED, NAMESPACE, OPERATE, get, json, of, parameter, post};
use crate::routes::delivery as handlers;
use crate::routes::{Body, Form, Parameter, RequiredAccess, Route};

const SEE: RequiredAccess = RequiredAccess::Role(&[Role::Send, Role::Decide, Role::Operate]);
const SEND: RequiredAccess = RequiredAccess::Role(&[Role::Send]);
const DECIDE: RequiredAccess = RequiredAccess::Role(&[Role::Decide]);

const BELOW: Parameter = parameter(
    "below",
    "Only messages with a smaller number: `next` of the previous page.",
    Form::Number(0, u64::MAX),
);
const REASON: Parameter = parameter("reason", "Why, for the audit record.", Form::Text(1024));

pub(super) const fn put_endpoint() -> Route {
    Route::new(
        Method::PUT,
        "/v1/endpoints/{endpoint}",
        "putEndpoint",
        does!(handlers::put_endpoint),
    )
    .about("Make an endpoint, or give one that is there these settings")
    .needs(OPERATE)
    .query(&[NAMESPACE])
    .body(Body::Json(of::<EndpointSettings>))
    .answers(const { &[(200, json::<EndpointPut>()), (201, json::<EndpointPut>())] })
    .codes(&[Code::WrongState, Code::OnHold])
}

pub(super) const fn endpoints() -> Route {
    get("/v1/endpoints", "listEndpoints", does!(handlers::endpoints))
        .about("The endpoints of a namespace, and how they stand")
        .needs(SEE)
        .query(&[NAMESPACE])
        .answers(const { &[(200, json::<Endpoints>())] })
        .codes(&[Code::OnHold])
}

pub(super) const fn endpoint() -> Route {
    get("/v1/endpoints/{endpoint}", "getEndpoint", does!(handlers::endpoint))
        .about("An endpoint: its settings, its circuit breaker, what waits for it")
        .needs(SEE)
        .query(&[NAMESPACE])
        .answers(const { &[(200, json::<EndpointDetail>())] })
        .codes(&[Code::NoSuchEndpoint, Code::OnHold])
}

pub(super) const fn delete_endpoint() -> Route {
    Route::new(
        Method::DELETE,
        "/v1/endpoints/{endpoint}",
        "deleteEndpoint",
        does!(handlers::delete_endpoint),
    )
    .about("Delete an endpoint: what is not delivered to it becomes dead letters")
    .needs(OPERATE)
    .query(&[NAMESPACE, REASON])
    .answers(const { &[(200, json::<Done>())] })
    .codes(&[Code::NoSuchEndpoint, Code::OnHold])
}

pub(super) const fn enable(path: &'static str, name: &'static str) -> Route {
    post(path, name, does!(handlers::enable))
        .about("Send messages to an endpoint again, at once: its breaker is closed")
        .needs(OPERATE)
        .query(&[NAMESPACE])
        .body(Body::OptionalJson(of::<Reason>))
        .answers(const { &[(200, json::<EndpointDetail>())] })
        .codes(&[Code::NoSuchEndpoint, Code::OnHold])
}

pub(super) const fn disable(path: &'static str, name: &'static str) -> Route {
    post(path, name, does!(handlers::disable))
        .about("Let messages to an endpoint wait")
        .needs(OPERATE)
        .query(&[NAMESPACE])
        .body(Body::OptionalJson(of::<Reason>))
        .answers(const { &[(200, json::<EndpointDetail>())] })
        .codes(&[Code::NoSuchEndpoint, Code::OnHold])
}

pub(super) const fn rotate() -> Route {
    post("/v1/endpoints/{endpoint}/secrets", "rotateSecret", does!(handlers::rotate))
        .about("Sign messages with another secret; for a while, also with the earlier ones")
        .needs(OPERATE)
        .query(&[NAMESPACE])
        .body(Body::OptionalJson(of::<RotateSecret>))
        .answers(const { &[(200, json::<SecretRotated>())] })
        .codes(&[Code::NoSuchEndpoint, Code::OnHold])
}

pub(super) const fn send() -> Route {
    post("/v1/messages", "sendMessage", does!(handlers::send))
        .about("Send a message to every endpoint that wants it, once under its key")
        .needs(SEND)
        .query(&[NAMESPACE])
        .headers(&[KEY])
        .body(Body::Json(of::<SendMessage>))
        .answers(const { &[(202, json::<MessageAccepted>())] })
        .codes(&[Code::PayloadTooLarge, Code::Mismatch, Code::Busy, Code::Restored, Code::OnHold])
}

pub(super) const fn messages() -> Route {
    get("/v1/messages", "listMessages", does!(handlers::messages))
        .about("Messages of a namespace with their deliveries, newest first")
        .needs(SEE)
        .query(&[NAMESPACE, BELOW, LIMITED])
        .answers(const { &[(200, json::<Messages>())] })
}

pub(super) const fn message() -> Route {
    get("/v1/messages/{message}", "getMessage", does!(handlers::message))
        .about("A message with its deliveries, and every attempt that failed")
        .needs(SEE)
        .query(&[NAMESPACE])
        .answers(const { &[(200, json::<MessageDetail>())] })
        .codes(&[Code::NotFound])
}

pub(super) const fn dead_letters() -> Route {
    get("/v1/dead-letters", "listDeadLetters", does!(handlers::dead_letters))
        .about("Messages with a delivery that waits for a decision, newest first")
        .needs(SEE)
        .query(&[NAMESPACE, BELOW, LIMITED])
        .answers(const { &[(200, json::<Messages>())] })
}

pub(super) const fn redeliver() -> Route {
    post(
        "/v1/messages/{message}/endpoints/{endpoint}/redeliver",
        "redeliver",
        does!(handlers::redeliver),
    )
    .about("Send a dead letter again, under its id")
    .needs(DECIDE)
    .query(&[NAMESPACE])
    .body(Body::Json(of::<Redeliver>))
    .answers(const { &[(200, json::<DeliveryDetail>())] })
    .codes(&[Code::NotFound, Code::NoSuchEndpoint, Code::WrongState, Code::OnHold])
}

pub(super) const fn abandon() -> Route {
    post("/v1/messages/{message}/endpoints/{endpoint}/abandon", "abandon", does!(handlers::abandon))
        .about("Give a dead letter up")
        .needs(DECIDE)
        .query(&[NAMESPACE])
        .body(Body::Json(of::<Reason>))
        .answers(const { &[(200, json::<DeliveryDetail>())] })
        .codes(&[Code::NotFound, Code::NoSuchEndpoint, Code::WrongState, Code::OnHold])
}
