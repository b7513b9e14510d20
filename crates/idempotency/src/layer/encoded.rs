//! Bytes in JSON, without a loss: readable where they are text.

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

/// Bytes as `{"text": …}` where they are UTF-8, as `{"base64": …}` where they are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoded {
    Text(String),
    Base64(String),
}

impl Encoded {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }

    pub(super) fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64(text) => BASE64.decode(text.as_bytes()).map_err(|why| why.to_string()),
        }
    }
}
