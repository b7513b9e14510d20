//! `indelible new` and `indelible build`: a project of durable functions, and components from it.
//!
//! - `new`, `build`: the two commands. `component`: what somebody names to be run or deployed.
//! - `bench`: the component that benchmarks call.
//! - `files`: what a new project consists of, the SDK's sources among them.

mod bench;
mod build;
mod component;
mod files;
mod new;

pub(crate) use self::bench::component as bench_component;
pub(crate) use self::build::{Build, components};
pub(crate) use self::component::{Built, component};
pub(crate) use self::new::New;
