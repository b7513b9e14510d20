//! `indelible new` and `indelible build`: a project of durable functions, and components from it.
//!
//! - `new`, `build`: the two commands.
//! - `files`: what a new project consists of, the SDK's sources among them.

mod build;
mod files;
mod new;

pub(crate) use self::build::Build;
pub(crate) use self::new::New;
