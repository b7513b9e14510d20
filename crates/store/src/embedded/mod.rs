//! The embedded backend: fjall under the commit pipeline.

#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "whoever opens the engine will call it")
)]
mod preflight;
