//! What a component offers: its functions, checked when it is deployed and stored with it.

mod check;
mod stored;

use std::sync::Arc;

use indelible_journal::{FunctionName, RetryPolicy};
use indelible_records::manifests;

pub(super) use check::check;
pub use indelible_records::manifests::MANIFEST_VERSION;

/// The functions of a component; at least one, each name once, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    functions: Vec<FunctionSpec>,
}

/// A function that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSpec {
    /// Its name.
    pub name: FunctionName,
    /// For people; may be empty.
    pub description: String,
    /// Its retry policy, which all its calls share.
    pub retry_policy: Arc<RetryPolicy>,
    /// A JSON schema of its input: JSON text.
    pub input_schema: Option<Arc<str>>,
    /// A JSON schema of what it returns: JSON text.
    pub output_schema: Option<Arc<str>>,
}

impl Manifest {
    /// The functions, in the order of their names.
    pub fn functions(&self) -> &[FunctionSpec] {
        &self.functions
    }

    /// The function with this name.
    pub fn function(&self, name: &str) -> Option<&FunctionSpec> {
        let found = self.functions.binary_search_by(|function| function.name.as_str().cmp(name));
        found.ok().map(|index| &self.functions[index])
    }

    /// As it is stored: JSON, with its version.
    pub fn to_json(&self) -> String {
        stored::write(self)
    }

    /// Reads what [`Manifest::to_json`] of this version of Indelible or an earlier one wrote. It is
    /// checked as if it were new.
    pub fn from_json(json: &[u8]) -> Result<Self, ManifestError> {
        Self::from_stored(manifests::decode(json).map_err(ManifestError::Stored)?)
    }

    pub(crate) fn from_stored(stored: Vec<manifests::Function>) -> Result<Self, ManifestError> {
        stored::read(stored)
    }
}

/// Why a component's description of itself is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It has no functions.
    #[error("it has no functions")]
    Empty,
    /// It has too many functions.
    #[error("it has {count} functions; at most {max} are allowed")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The functions together are too long.
    #[error("the description of its functions has {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// How long.
        bytes: usize,
        /// How long they may be.
        max: usize,
    },
    /// Two functions have the same name.
    #[error("two of its functions are named `{0}`")]
    Duplicate(FunctionName),
    /// A function's name is invalid. It is shown cut and escaped.
    #[error("`{name}` cannot be the name of a function: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A function's description is invalid.
    #[error("function `{function}`: {problem}")]
    Function {
        /// Which function.
        function: FunctionName,
        /// What is wrong with it.
        problem: String,
    },
    /// The stored manifest cannot be read.
    #[error("the stored manifest cannot be read: {0}")]
    Stored(String),
}
