//! Errors that are recorded and replayed: flat, with a tag that says which they were.

use serde::{Deserialize, Serialize};

use crate::key::KeyError;
use crate::minter::MintError;
use crate::namespace::NamespaceError;

/// An error as it is stored (I-21): a tag for its class, its message, and its cause as one line of
/// text, without causes of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredError {
    /// Which class of error: stable, for it is read by later versions of the service.
    pub class_tag: String,
    /// What is said about it.
    pub message: String,
    /// What was behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// An error of a service that `fail_permanent` records and a repeated request gets again.
///
/// ```
/// use indelible_idempotency::{ReplayableError, StoredError};
///
/// #[derive(Debug, PartialEq)]
/// enum ShopError {
///     OutOfStock(String),
///     Internal(String),
/// }
///
/// impl ReplayableError for ShopError {
///     fn to_stored(&self) -> StoredError {
///         let (class_tag, message) = match self {
///             Self::OutOfStock(item) => ("shop.out-of-stock", item),
///             Self::Internal(message) => ("shop.internal", message),
///         };
///         StoredError { class_tag: class_tag.into(), message: message.clone(), cause: None }
///     }
///
///     fn from_stored(stored: &StoredError) -> Option<Self> {
///         let message = stored.message.clone();
///         match stored.class_tag.as_str() {
///             "shop.out-of-stock" => Some(Self::OutOfStock(message)),
///             "shop.internal" => Some(Self::Internal(message)),
///             _ => None,
///         }
///     }
///
///     fn internal(stored: StoredError) -> Self {
///         Self::Internal(stored.message)
///     }
/// }
///
/// let stored = ShopError::OutOfStock("glass".into()).to_stored();
/// assert_eq!(ShopError::replay(stored), ShopError::OutOfStock("glass".into()));
/// ```
pub trait ReplayableError: Sized {
    /// The error as it is stored.
    fn to_stored(&self) -> StoredError;

    /// The error that was stored; none if this version does not know its tag.
    fn from_stored(stored: &StoredError) -> Option<Self>;

    /// What becomes of an error whose tag this version does not know: the service's internal error,
    /// with the message kept.
    fn internal(stored: StoredError) -> Self;

    /// The error that was stored, or the internal one in its place (I-21).
    fn replay(stored: StoredError) -> Self {
        Self::from_stored(&stored).unwrap_or_else(|| Self::internal(stored))
    }
}

/// Stored as it is: what a raw store deals in.
impl ReplayableError for StoredError {
    fn to_stored(&self) -> StoredError {
        self.clone()
    }

    fn from_stored(stored: &StoredError) -> Option<Self> {
        Some(stored.clone())
    }

    fn internal(stored: StoredError) -> Self {
        stored
    }
}

/// The specification's own errors, for a service that has none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// The request cannot be carried out as it is.
    #[error("{message}")]
    GeneralValidation {
        /// What is wrong with it.
        message: String,
        /// What was behind it.
        cause: Option<String>,
    },
    /// What is stored does not fit this version.
    #[error("{message}")]
    IncompatibleState {
        /// What does not fit.
        message: String,
        /// What was behind it.
        cause: Option<String>,
    },
    /// Something is wrong inside.
    #[error("{message}")]
    Implementation {
        /// What is wrong.
        message: String,
        /// What was behind it.
        cause: Option<String>,
    },
}

impl AppError {
    /// The class of the error, as it is stored.
    pub fn class_tag(&self) -> &'static str {
        match self {
            Self::GeneralValidation { .. } => "Invocation.GeneralValidation",
            Self::IncompatibleState { .. } => "Internal.IncompatibleState",
            Self::Implementation { .. } => "Internal.Implementation",
        }
    }
}

/// I-3, I-6: what a caller sent cannot be carried out.
macro_rules! general_validation {
    ($($error:ty),*) => {$(
        impl From<$error> for AppError {
            fn from(error: $error) -> Self {
                Self::GeneralValidation { message: error.to_string(), cause: None }
            }
        }
    )*};
}

general_validation!(KeyError, MintError, NamespaceError);

impl ReplayableError for AppError {
    fn to_stored(&self) -> StoredError {
        let (Self::GeneralValidation { message, cause }
        | Self::IncompatibleState { message, cause }
        | Self::Implementation { message, cause }) = self;
        StoredError {
            class_tag: self.class_tag().to_owned(),
            message: message.clone(),
            cause: cause.clone(),
        }
    }

    fn from_stored(stored: &StoredError) -> Option<Self> {
        let StoredError { class_tag, message, cause } = stored.clone();
        match class_tag.as_str() {
            "Invocation.GeneralValidation" => Some(Self::GeneralValidation { message, cause }),
            "Internal.IncompatibleState" => Some(Self::IncompatibleState { message, cause }),
            "Internal.Implementation" => Some(Self::Implementation { message, cause }),
            _ => None,
        }
    }

    fn internal(stored: StoredError) -> Self {
        Self::Implementation { message: stored.message, cause: stored.cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-21: a known tag gives its class again, an unknown one the internal error with the message.
    #[test]
    fn errors_come_back_by_their_tag() {
        let cause = Some("the card is blocked".to_owned());
        let message = "no".to_owned();
        for error in [
            AppError::GeneralValidation { message: message.clone(), cause: cause.clone() },
            AppError::IncompatibleState { message: message.clone(), cause: None },
            AppError::Implementation { message: message.clone(), cause: cause.clone() },
        ] {
            assert_eq!(AppError::replay(error.to_stored()), error);
        }
        let foreign = StoredError { class_tag: "Billing.Later".into(), message, cause };
        assert_eq!(
            AppError::replay(foreign.clone()),
            AppError::Implementation { message: "no".into(), cause: foreign.cause.clone() }
        );
        assert_eq!(StoredError::replay(foreign.clone()), foreign);
    }

    /// I-21: the stored form, letter by letter: it is read by later versions.
    #[test]
    fn the_stored_form() {
        let stored = AppError::GeneralValidation { message: "no".into(), cause: Some("x".into()) };
        assert_eq!(
            serde_json::to_string(&stored.to_stored()).unwrap(),
            r#"{"classTag":"Invocation.GeneralValidation","message":"no","cause":"x"}"#
        );
        let short: StoredError = serde_json::from_str(r#"{"classTag":"a","message":"b"}"#).unwrap();
        assert_eq!(short.cause, None);
    }
}
