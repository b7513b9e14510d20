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
    /// The operation that led to it; none where the execution was asked for, and is no root.
    pub operation_id: Option<String>,
    /// What the request met: whether it was new, or this is the result of an earlier one. None where
    /// the execution was asked for by its id.
    pub verdict: Option<Verdict>,
    /// What it returned, if that is JSON: the text as it is. None is JSON's null, unless there is a
    /// `payload`.
    pub result: Option<Box<RawValue>>,
    /// What it returned, if that is something else.
    pub payload: Option<Payload>,
}

impl Reply {
    /// Reads the answer of a call, or what an execution's outcome was answered with.
    pub(crate) fn of(answer: &Answer) -> Result<Self, Malformed> {
        let verdict = answer.verdict();
        let Returned { execution_id, operation_id, result, result_payload } = answer.read()?;
        Ok(Self { execution_id, operation_id, verdict, result, payload: result_payload })
    }

    /// What it returned, as a type. Err: why it is none of that type.
    pub fn read<Out: DeserializeOwned>(&self) -> Result<Out, String> {
        if let Some(payload) = &self.payload {
            return Err(format!("bytes of codec {:?}, not JSON", payload.codec));
        }
        // JSON's null and nothing at all are one.
        let text = self.result.as_deref().map_or("null", RawValue::get);
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}
