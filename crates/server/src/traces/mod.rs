//! OpenTelemetry traces: what executions did, under the caller's span.
//!
//! Spans are made from journals when an execution is over, not while it runs. So a replay makes no
//! second span, a span says what is recorded, and a crash loses at most what was not sent yet. The
//! price is that nothing is seen of an execution before its end.
//!
//! - [`spans`]: from a journal to spans. Pure.
//! - `otlp`: spans as OTLP's JSON. Pure.
//! - `post`: one HTTP request to a collector.
//! - [`Exporter`]: a bounded queue of journals, and the task that tells a collector of them.
//! - [`TracingObserver`]: fills the queue.
//!
//! OTLP is written here rather than taken from `opentelemetry-otlp`: its exporter wants the spans of
//! its own SDK, which makes the ids itself and knows a span before its end, and brings Protocol
//! Buffers and an HTTP client with it. What is needed of the format is one nested JSON object.

mod exporter;
mod observer;
mod otlp;
mod post;
pub mod spans;

pub use exporter::{Config, ConfigError, Counters, Exporter};
pub use observer::TracingObserver;
pub use post::EndpointError;
