//! `indelible new`, `indelible sdk` and `indelible build`: a project of durable functions, its SDK, and
//! components from it.
//!
//! - `new`, `sdk`, `build`: the three commands. `component`: the component to run or deploy.
//! - `bench`: the component that benchmarks call.
//! - `files`: the files of a new project. `sources`: those of the SDK in it.

mod bench;
mod build;
mod component;
mod files;
mod new;
mod sdk;
mod sources;

pub(crate) use self::bench::component as bench_component;
pub(crate) use self::build::{Build, components};
pub(crate) use self::component::{Built, component};
pub(crate) use self::new::New;
pub(crate) use self::sdk::Sdk;
