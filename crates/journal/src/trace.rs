//! Traces: W3C's `traceparent`, and the ids of spans.
//!
//! Span ids are computed from a step's place in its tree of calls. So caller and callee agree on
//! them without a message, a request can carry the id of a span that is reported much later, and a
//! span that is reported twice has the same id.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::ids::{Attempts, JournalKey, PromiseId};
use crate::names::TraceParent;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The defined flags; others are not passed on.
const FLAGS_KNOWN: u8 = 0b11;

/// How long a `traceparent` of version 0 is, and how long later ones are at least.
const TEXT_BYTES: usize = 55;

/// Separates the span ids of steps from others.
const STEP: &str = "indelible span: step";

/// Separates the span ids of executions from others.
const EXECUTION: &str = "indelible span: execution";

/// The id of a trace: everything that one request led to, here and elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a piece of a trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

/// A place in a trace, as a `traceparent` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: TraceId,
    parent: SpanId,
    flags: u8,
}

impl TraceContext {
    /// Parses a `traceparent`. None if it is not well formed: it then counts as absent.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, more) = text.as_bytes().split_at_checked(TEXT_BYTES)?;
        let [version] = hex(&text[..2])?;
        // Later versions may have more fields, behind another dash. 255 is not a version.
        if version == 0xff || (version == 0 && !more.is_empty()) {
            return None;
        }
        let dashes = [text[2], text[35], text[52], *more.first().unwrap_or(&b'-')];
        if dashes != [b'-'; 4] {
            return None;
        }
        let (trace_id, parent) = (TraceId(hex(&text[3..35])?), SpanId(hex(&text[36..52])?));
        let [flags] = hex(&text[53..])?;
        let zero = trace_id.0 == [0; 16] || parent.0 == [0; 8];
        (!zero).then_some(Self { trace_id, parent, flags: flags & FLAGS_KNOWN })
    }

    /// The place of an execution in a trace.
    pub fn of(trace_parent: &TraceParent) -> Option<Self> {
        Self::parse(trace_parent.as_str())
    }

    /// The trace.
    pub fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The span that is the parent of new spans.
    pub fn parent(&self) -> SpanId {
        self.parent
    }

    /// Whether the trace is recorded: no spans are reported for others.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags that are passed on with a span.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// The same trace under another span.
    pub fn under(self, parent: SpanId) -> Self {
        Self { parent, ..self }
    }
}

/// A `traceparent` of version 0.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.parent, self.flags)
    }
}

impl SpanId {
    /// The span of an execution: one attempt at it.
    pub fn of_execution(key: &JournalKey) -> Self {
        Self::derive(EXECUTION, key.execution_id().as_promise(), key.attempts())
    }

    /// The span of a step of an execution: a call, a request, a wait. All attempts at the step
    /// share it.
    pub fn of_step(promise: &PromiseId, execution: &Attempts) -> Self {
        Self::derive(STEP, promise, execution)
    }

    /// The span of the step that called an execution; none for a root.
    pub fn of_call(key: &JournalKey) -> Option<Self> {
        let (_, callers) = key.attempts().as_slice().split_last()?;
        let callers = Attempts::new(callers)?;
        Some(Self::of_step(key.execution_id().as_promise(), &callers))
    }

    fn derive(label: &str, promise: &PromiseId, attempts: &Attempts) -> Self {
        let text = format!("{label}\n{promise}\n{attempts}");
        let hash: [u8; 32] = Sha256::digest(text).into();
        let (first, _) = hash.split_first_chunk::<8>().expect("a hash has 32 bytes");
        // A span id of zeros means no span.
        Self(if *first == [0; 8] { [1; 8] } else { *first })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl TraceId {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

/// Lower-case digits only, as the specification has it.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (digits.len() == 2 * N && HEXLOWER.decode_mut(digits, &mut bytes).is_ok()).then_some(bytes)
}
