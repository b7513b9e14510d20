//! The `oip` profile: the tables of the delivery specification, to the letter.

mod error;

pub use error::{Disposition, ErrorCode};
