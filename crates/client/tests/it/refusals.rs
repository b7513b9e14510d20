//! Every code of the API, and which error it becomes.

use indelible_client::api::call::Failed;
use indelible_client::api::{Code, Problem};
use indelible_client::{CallError, Error, IfInFlight, StartError};
use serde_json::{Value, json};

use crate::support::{ATTEMPTS_MAX, Peer, problem};

/// A problem of each code, as often as a client asks.
async fn peer(code: Code) -> Peer {
    let mut document = Problem::new(code, "because");
    let error =
        Failed { kind: "Trap".into(), message: "oops".into(), detail: Some(json!({"a": 1})) };
    document.error = (document.status == 424).then_some(error);
    Peer::start(vec![problem(&document); 2 * usize::try_from(ATTEMPTS_MAX).unwrap()]).await
}

fn name_of_call(error: &CallError<Value>) -> &'static str {
    match error {
        CallError::Function(_) => "Function",
        CallError::Cancelled(_) => "Cancelled",
        CallError::Indeterminate(_) => "Indeterminate",
        CallError::Conflict(_) => "Conflict",
        CallError::Mismatch(_) => "Mismatch",
        CallError::Expired(_) => "Expired",
        CallError::InFlight(_) => "InFlight",
        CallError::Refused(_) => "Refused",
        CallError::Transport(_) => "Transport",
        other => panic!("{other:?}"),
    }
}

fn name_of_start(error: &StartError) -> &'static str {
    match error {
        StartError::Indeterminate(_) => "Indeterminate",
        StartError::Conflict(_) => "Conflict",
        StartError::Mismatch(_) => "Mismatch",
        StartError::Expired(_) => "Expired",
        StartError::InFlight(_) => "InFlight",
        StartError::Refused(_) => "Refused",
        StartError::Transport(_) => "Transport",
        other => panic!("{other:?}"),
    }
}

fn name_of_read(error: &Error) -> &'static str {
    match error {
        Error::Mismatch(_) => "Mismatch",
        Error::Expired(_) => "Expired",
        Error::Refused(_) => "Refused",
        Error::Transport(_) => "Transport",
        other => panic!("{other:?}"),
    }
}

/// V-9, V-33, V-35, V-59, V-73: Indeterminate, a failure of the function's own, a conflict, an
/// expired id, a cancel and an answer that never came are six different errors; only what may
/// succeed later is asked for again.
#[tokio::test]
async fn each_code_is_its_own_error() {
    for code in Code::ALL {
        let call = match code {
            Code::FunctionFailed => "Function",
            Code::Cancelled => "Cancelled",
            Code::Indeterminate => "Indeterminate",
            Code::Conflict => "Conflict",
            Code::Mismatch => "Mismatch",
            Code::Expired => "Expired",
            Code::InFlight => "InFlight",
            Code::RequestTimeout
            | Code::TooManySignals
            | Code::Internal
            | Code::Damaged
            | Code::Busy
            | Code::OnHold
            | Code::Restored
            | Code::Stopping
            | Code::StoreStopped => "Transport",
            _ => "Refused",
        };
        let waits_for_a_person = matches!(code, Code::OnHold | Code::Restored);
        let is_final = matches!(code, Code::Internal | Code::Damaged) || waits_for_a_person;
        let again = call == "Transport" && !is_final;
        let attempts = usize::try_from(if again { ATTEMPTS_MAX } else { 1 }).unwrap();

        let server = peer(code).await;
        let error = server.function().call(&json!(1)).await.unwrap_err();
        assert_eq!(name_of_call(&error), call, "{code}");
        assert_eq!(server.seen().len(), attempts, "{code}");

        let server = peer(code).await;
        let error = server.function().start(&json!(1)).await.unwrap_err();
        let start = if matches!(call, "Function" | "Cancelled") { "Refused" } else { call };
        assert_eq!(name_of_start(&error), start, "{code}");
        assert_eq!(server.seen().len(), attempts, "{code}");

        let server = peer(code).await;
        let error = server.client().execution("abab").await.unwrap_err();
        let read =
            if matches!(start, "Mismatch" | "Expired" | "Transport") { start } else { "Refused" };
        assert_eq!(name_of_read(&error), read, "{code}");
        assert_eq!(server.seen().len(), attempts, "{code}");
    }
}

/// What a function says of its failure comes through whole.
#[tokio::test]
async fn a_functions_own_error() {
    let server = peer(Code::FunctionFailed).await;
    let error = server.function().call(&json!(1)).await.unwrap_err();
    let CallError::Function(error) = error else { panic!("{error:?}") };
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("Trap", "oops"));
    assert_eq!(error.detail, Some(json!({"a": 1})));
}

/// C-2: who does not want to be attached says so in a header, and learns at once that the operation
/// goes on.
#[tokio::test]
async fn in_flight_at_once() {
    let server = peer(Code::InFlight).await;
    let call = server.function().call(&json!(1)).if_in_flight(IfInFlight::Conflict);
    let error = call.await.unwrap_err();
    let CallError::InFlight(error) = error else { panic!("{error:?}") };
    assert_eq!(error.retry_after, Some(std::time::Duration::ZERO));
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("indelible-if-in-flight"), Some("conflict"));
}
