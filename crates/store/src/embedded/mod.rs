//! The embedded backend: fjall under the commit pipeline.
