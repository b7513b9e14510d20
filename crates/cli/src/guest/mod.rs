//! `indelible new` and `indelible build`: a project of durable functions, and components from it.
//!
//! - `new`, `build`: the two commands. `component`: the component to run or deploy.
//! - `bench`: the component that benchmarks call.
//! - `files`: the files of a new project, with the SDK's sources.

mod bench;
mod build;
mod component;
mod files;
mod new;

pub(crate) use self::bench::component as bench_component;
pub(crate) use self::build::{Build, components};
pub(crate) use self::component::{Built, component};
pub(crate) use self::new::New;
