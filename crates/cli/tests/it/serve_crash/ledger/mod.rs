//! A vault whose clients go on while its server is killed and started again.
//!
//! - `kit`: writes under a name, and clients who send the same bytes until they are answered.
//! - `register`: what a key of a vault is to a checker of histories. `linear`: what 32 clients saw.
//! - `money`: transfers between accounts.

mod kit;
mod linear;
mod money;
mod register;
