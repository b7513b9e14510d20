//! What the server and its clients say to each other over HTTP: the types of bodies, the names of
//! headers, the codes of errors.
//!
//! These are wire types: a promise to the authors of clients. The crates behind the server have
//! types of their own, and the server converts. This crate is pure and knows no server; of the ledger
//! it has the names and numbers, and its JSON. Requests are read strictly; answers may get further
//! fields, which older clients ignore.
//!
//! - [`call`]: starting functions, and what comes of them.
//! - [`execution`]: what is shown of executions.
//! - [`log`]: what functions logged.
//! - [`control`]: signals, cancels, and what people decide.
//! - [`component`]: what is deployed.
//! - [`delivery`]: endpoints, messages, dead letters.
//! - [`ledger`]: vaults, transactions, and what is read of them.
//! - [`access`]: API keys, roles, and the record of who did what.
//! - [`problem`]: what an error looks like. [`code`]: which there are, each with its page.
//! - [`header`]: the names of headers.

pub mod access;
pub mod call;
pub mod code;
pub mod component;
pub mod control;
pub mod delivery;
pub mod execution;
pub mod header;
pub mod ledger;
pub mod log;
pub mod problem;
pub mod unresolved;

pub use self::code::Code;
pub use self::problem::Problem;

/// The version of the API: the first segment of every path.
pub const VERSION: &str = "v1";
