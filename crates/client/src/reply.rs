//! What a function returned, with what the server says about it.

use indelible_api::call::{Payload, Returned, Verdict};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::Malformed;
use crate::send::Answer;

/// What a function returned, before it is read as a type, and what it belongs to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The execution that returned it.
    pub execution_id: String,
    /// The operation that led to it; `None` if the execution was asked for by its id and is not a
    /// root.
    pub operation_id: Option<String>,
    /// Whether the request was new, or this is the result of an earlier one. `None` if the
    /// execution was asked for by its id.
    pub verdict: Option<Verdict>,
    /// The result, if it is JSON: the text as it is. `None` is JSON's null, unless there is a
    /// `payload`.
    pub result: Option<Box<RawValue>>,
    /// The result, if it is not JSON.
    pub payload: Option<Payload>,
}

impl Reply {
    /// Reads the answer to a call, or to a request for an execution's outcome.
    pub(crate) fn of(answer: &Answer) -> Result<Self, Malformed> {
        let verdict = answer.verdict();
        let Returned { execution_id, operation_id, result, result_payload } = answer.read()?;
        Ok(Self { execution_id, operation_id, verdict, result, payload: result_payload })
    }

    /// The result as a type. `Err` says why it does not fit.
    pub fn read<Out: DeserializeOwned>(&self) -> Result<Out, String> {
        if let Some(payload) = &self.payload {
            return Err(format!("the value has codec {:?}, not JSON", payload.codec));
        }
        // A missing result is JSON's null.
        let text = self.result.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}
