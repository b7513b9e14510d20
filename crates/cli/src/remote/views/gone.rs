//! The outcome of an execution that is no longer kept: what the record of its operation has.

use std::io::Write;
use std::time::Duration;

use indelible_client::api::call::{Failed, Operation};
use indelible_client::{CallError, Handle, Reply};
use serde_json::value::RawValue;

use super::page::{paragraph, value};
use super::print;
use crate::columns::labelled;
use crate::failure::Failure;
use crate::outcome::{Document, End, Returned};
use crate::print::{object, plain};
use crate::remote::Remote;
use crate::remote::errors::Explained as _;
use crate::screen::{Screen, Tone};

/// How long the record of an outcome may take to come: it is there, and nothing is waited for.
const ANSWER: Duration = Duration::from_secs(30);

/// Shows the outcome of an operation.
pub(super) fn show(
    remote: &Remote,
    operation: &Operation,
    json: bool,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let handle: Handle<Box<RawValue>> = remote.client.attach_operation(operation);
    let ended = match remote.wait(handle.reply_within(ANSWER)) {
        Ok(reply) => Ok(reply),
        Err(error) => Err(failed(&error).ok_or_else(|| error.explain(&remote.at))?),
    };
    if json {
        let end = match &ended {
            Ok(reply) => End::from(&match &reply.payload {
                Some(payload) => Returned::payload(payload)?,
                None => Returned::json(reply.result.as_deref()),
            }),
            Err(failed) => End::Error(failed.clone()),
        };
        let document = Document {
            execution_id: Some(operation.execution_id.clone()),
            operation_id: Some(operation.operation_id.clone()),
            verdict: None,
            end: Some(end),
        };
        return object(document, out);
    }
    print(&lines(operation, ended.as_ref(), screen), out)
}

/// Why the function did not return, if that is what the error says.
fn failed<Out>(error: &CallError<Out>) -> Option<Failed> {
    match error {
        CallError::Function(error) => Some(Failed {
            kind: error.kind.clone(),
            message: error.message.clone(),
            detail: error.detail.clone(),
        }),
        CallError::Cancelled(problem) | CallError::Indeterminate(problem) => problem.error.clone(),
        _ => None,
    }
}

fn lines(operation: &Operation, ended: Result<&Reply, &Failed>, screen: Screen) -> Vec<String> {
    let kept = format!("{} (no longer kept)", plain(&operation.execution_id));
    let mut rows = vec![
        ("execution", vec![kept]),
        ("accepted", vec![plain(&operation.accepted_at)]),
        ("namespace", vec![plain(&operation.namespace)]),
        ("operation", vec![plain(&operation.operation_id)]),
    ];
    rows.push(match ended {
        Ok(reply) => ("result", value(reply.result.as_deref(), reply.payload.as_ref(), screen)),
        Err(Failed { kind, message, .. }) => {
            let text = paragraph(&format!("{kind}: {message}"), screen);
            ("error", text.iter().map(|line| screen.paint(Tone::Bad, line)).collect())
        }
    });
    rows.iter().flat_map(|(label, values)| labelled(label, values, screen)).collect()
}
