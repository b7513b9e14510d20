//! The paths of the ledger. Those that are about one scope are there twice, by one function each: for
//! a vault, and for the namespace itself. (`const { … }`: what a function refers to is made at compile
//! time only if it says so.)

use http::Method;
use indelible_api::Code;
use indelible_api::access::Role;
use indelible_api::control::Done;
use indelible_api::ledger::{
    ClientState, Committed, CommittedRun, DeletedVault, Entities, EntityAt, HandOver, History, Log,
    LogEntry, StateAt, Transact, TransactBatch, TransactRun, Vault, VaultSettings, Vaults,
};

use super::{
    KEY, LAST_EVENT_ID, LIMITED, NAMESPACE, OPERATE, OPERATION_ID, get, json, of, parameter, post,
};
use crate::routes::ledger::{read, stream, transact, vaults};
use crate::routes::{Body, Form, Parameter, RequiredAccess, ResponseBody, Route};

const READ: RequiredAccess = RequiredAccess::Role(&[Role::Read, Role::Write, Role::Operate]);
const WRITE: RequiredAccess = RequiredAccess::Role(&[Role::Write]);

const AT: Parameter = parameter(
    "at",
    "At this height; by default at the latest. Heights that the log has forgotten are gone.",
    Form::Number(0, u64::MAX),
);
const INCARNATION: Parameter =
    parameter("incarnation", "Only if the vault of this name is this one.", Form::Text(36));

const WRITES: &[Code] = &[
    Code::KeyAndOperationId,
    Code::OperationIdFromTheFuture,
    Code::InvalidInput,
    Code::ForeignClient,
    Code::NoSuchVault,
    Code::NoSuchComponent,
    Code::NoSuchFunction,
    Code::Conflict,
    Code::SequenceGap,
    Code::SequenceExhausted,
    Code::StaleAttempt,
    Code::OtherIncarnation,
    Code::Expired,
    Code::KeyExists,
    Code::KeyNotFound,
    Code::VersionMismatch,
    Code::ValueMismatch,
    Code::BelowMin,
    Code::AboveMax,
    Code::UnitMismatch,
    Code::AmountOverflow,
    Code::ResultTooLarge,
    Code::Mismatch,
    Code::SequenceMismatch,
    Code::OnHold,
    Code::Restored,
];
const READS: &[Code] = &[Code::NoSuchVault, Code::NotFound, Code::Compacted];

pub(super) const fn put_vault() -> Route {
    Route::new(Method::PUT, "/v1/vaults/{vault}", "putVault", does!(vaults::put))
        .about(
            "Make a vault, or give one that is there these settings; repeating it has no further \
             effect, with or without an idempotency key",
        )
        .needs(OPERATE)
        .query(&[NAMESPACE])
        .body(Body::OptionalJson(of::<VaultSettings>))
        .answers(const { &[(200, json::<Vault>()), (201, json::<Vault>())] })
        .codes(&[Code::VaultNameTaken, Code::OnHold])
}

pub(super) const fn vaults() -> Route {
    get("/v1/vaults", "listVaults", does!(vaults::list))
        .about("The vaults of a namespace, by name")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter(
                        "after",
                        "After this name: `next` of the previous page.",
                        Form::Text(64),
                    ),
                    LIMITED,
                ]
            },
        )
        .answers(const { &[(200, json::<Vaults>())] })
}

pub(super) const fn vault() -> Route {
    get("/v1/vaults/{vault}", "getVault", does!(vaults::show))
        .about("A vault: its height, its head, its settings")
        .needs(READ)
        .query(&[NAMESPACE])
        .answers(const { &[(200, json::<Vault>())] })
        .codes(&[Code::NoSuchVault])
}

pub(super) const fn delete_vault() -> Route {
    Route::new(Method::DELETE, "/v1/vaults/{vault}", "deleteVault", does!(vaults::delete))
        .about(
            "Delete a vault and everything in it, for good; repeating it has no further effect, with \
             or without an idempotency key",
        )
        .needs(OPERATE)
        .query(
            const {
                &[
                    NAMESPACE,
                    INCARNATION,
                    parameter("reason", "Why: kept in the audit record.", Form::Text(1024)),
                ]
            },
        )
        .answers(const { &[(200, json::<DeletedVault>())] })
        .codes(&[Code::NoSuchVault, Code::OtherIncarnation, Code::VaultNameTaken, Code::OnHold])
}

pub(super) const fn transact(path: &'static str, name: &'static str) -> Route {
    post(path, name, does!(transact::transaction))
        .about(
            "Apply a transaction, whole or not at all, once: under a client's sequence, an \
             idempotency key or an operation id",
        )
        .needs(WRITE)
        .query(&[NAMESPACE])
        .headers(&[KEY, OPERATION_ID])
        .body(Body::Json(of::<Transact>))
        .answers(const { &[(200, json::<Committed>())] })
        .codes(WRITES)
}

pub(super) const fn batch(path: &'static str, name: &'static str) -> Route {
    post(path, name, does!(transact::batch))
        .about("Apply several writes under one sequence, all or none")
        .needs(WRITE)
        .query(&[NAMESPACE])
        .body(Body::Json(of::<TransactBatch>))
        .answers(const { &[(200, json::<Committed>())] })
        .codes(WRITES)
}

pub(super) const fn run(path: &'static str, name: &'static str) -> Route {
    post(path, name, does!(transact::run))
        .about(
            "Apply consecutive transactions of a client, each by itself, up to the first refusal",
        )
        .needs(WRITE)
        .query(&[NAMESPACE])
        .body(Body::Json(of::<TransactRun>))
        .answers(const { &[(200, json::<CommittedRun>())] })
        .codes(WRITES)
}

pub(super) const fn client(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::client))
        .about("How a client's stream stands: its last committed sequence, its refused attempt")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter(
                        "sequence",
                        "Also the receipt of this sequence.",
                        Form::Number(1, u64::MAX),
                    ),
                ]
            },
        )
        .answers(const { &[(200, json::<ClientState>())] })
        .codes(&[Code::NoSuchVault, Code::ForeignClient])
}

pub(super) const fn hand_over(path: &'static str, name: &'static str) -> Route {
    Route::new(Method::PUT, path, name, does!(vaults::hand_over))
        .about(
            "Hand a client id over to another owner; repeating it has no further effect, with or \
             without an idempotency key",
        )
        .needs(OPERATE)
        .query(&[NAMESPACE])
        .body(Body::Json(of::<HandOver>))
        .answers(const { &[(200, json::<Done>())] })
        .codes(&[Code::NoSuchVault, Code::NotFound, Code::OnHold])
}

pub(super) const fn entities(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::entities))
        .about("Entities, by ascending keys (bytes)")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter("prefix", "Only those whose keys begin with this.", Form::Text(1024)),
                    AT,
                    parameter(
                        "after",
                        "After this key: `next` of the previous page.",
                        Form::Text(1024),
                    ),
                    LIMITED,
                ]
            },
        )
        .answers(const { &[(200, json::<Entities>())] })
        .codes(READS)
}

pub(super) const fn entity(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::entity))
        .about("What is under a key")
        .needs(READ)
        .query(&[NAMESPACE, AT])
        .answers(const { &[(200, json::<EntityAt>())] })
        .codes(READS)
}

pub(super) const fn history(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::history))
        .about("What a key held, newest first, as far as the log goes back")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter(
                        "before",
                        "Only versions below this height: `next` of the previous page.",
                        Form::Number(0, u64::MAX),
                    ),
                    LIMITED,
                ]
            },
        )
        .answers(const { &[(200, json::<History>())] })
        .codes(READS)
}

pub(super) const fn log(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::log))
        .about("Transactions, oldest first")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter(
                        "from",
                        "From this height on; by default from 1.",
                        Form::Number(0, u64::MAX),
                    ),
                    LIMITED,
                ]
            },
        )
        .answers(const { &[(200, json::<Log>())] })
        .codes(READS)
}

pub(super) const fn transaction(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::transaction))
        .about("A transaction, with its proof")
        .needs(READ)
        .query(&[NAMESPACE])
        .answers(const { &[(200, json::<LogEntry>())] })
        .codes(READS)
}

pub(super) const fn state(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(read::state_at))
        .about("Height, chain head and state hash")
        .needs(READ)
        .query(&[NAMESPACE, AT])
        .answers(const { &[(200, json::<StateAt>())] })
        .codes(READS)
}

pub(super) const fn export(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(stream::export))
        .about("The log as a file that proves itself: `docs/formats/ledger.md`")
        .needs(READ)
        .query(&[NAMESPACE])
        .answers(const { &[(200, ResponseBody::Lines)] })
        .codes(READS)
}

pub(super) const fn events(path: &'static str, name: &'static str) -> Route {
    get(path, name, does!(stream::events))
        .about("Transactions as they happen (server-sent events); the id of each is its height")
        .needs(READ)
        .query(
            const {
                &[
                    NAMESPACE,
                    parameter(
                        "from",
                        "From this height on; by default from the next transaction on.",
                        Form::Number(0, u64::MAX),
                    ),
                    INCARNATION,
                ]
            },
        )
        .headers(&[LAST_EVENT_ID])
        .answers(const { &[(200, ResponseBody::Events)] })
        .codes(&[Code::NoSuchVault, Code::NotFound, Code::Compacted, Code::OtherIncarnation])
}
