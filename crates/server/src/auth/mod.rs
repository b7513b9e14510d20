//! Who may do what: credentials, and what they give.
//!
//! Nothing here speaks HTTP: header values and the time come in, a [`Caller`] or a refusal comes
//! out. The actor of whatever a request changes is the caller's, so it is derived from the
//! credential and never from what the request says (Q-18, D11).
//!
//! - [`caller`]: who is calling, their roles and namespaces.
//! - [`tokens`]: API keys, for programs.
//! - [`sessions`]: signed session tokens, for people.
//! - [`local`]: no web page can drive a server.

pub mod caller;
pub mod local;
pub mod sessions;
pub mod tokens;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use indelible_journal::Timestamp;

pub use self::caller::{ALL_NAMESPACES, Caller, Grant, GrantError, Namespaces, Roles};
pub use self::local::{Foreign, OwnHosts};
pub use self::sessions::{SessionAlgorithm, SessionKeys, SessionKeysError};
pub(crate) use self::tokens::audited;
pub use self::tokens::{TokenError, TokenId, Tokens};

/// Who is let in.
#[derive(Debug)]
pub enum Access {
    /// Every request, as [`Caller::local`]. For a server that listens on loopback alone; each
    /// request has to pass [`OwnHosts::check_host`] too, or any web page could send requests.
    Open,
    /// Requests with a good credential.
    Required {
        /// The API keys.
        tokens: Arc<Tokens>,
        /// How session tokens are verified, if there are any.
        sessions: Option<SessionKeys>,
    },
}

/// A request without a good credential. The answer does not say what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// There is none.
    #[error(
        "the request has no credential: send `Authorization: Bearer` with an API key or a session \
         token"
    )]
    Missing,
    /// There is one, or something like it.
    #[error("the credential is unknown, expired or revoked")]
    NotGood,
}

impl Access {
    /// Whether requests need no credential.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Who is calling, by the one `Authorization` header of their request.
    pub fn authenticate(
        &self,
        authorization: Option<&HeaderValue>,
        now: Timestamp,
    ) -> Result<Caller, Unauthenticated> {
        let Self::Required { tokens, sessions } = self else { return Ok(Caller::local()) };
        let presented = bearer(authorization.ok_or(Unauthenticated::Missing)?);
        let caller = presented.and_then(|presented| {
            if presented.starts_with(tokens::KEY_PREFIX) {
                tokens.check(presented, now)
            } else {
                sessions.as_ref()?.check(presented, now)
            }
        });
        caller.ok_or(Unauthenticated::NotGood)
    }

    /// The same for all headers of a request. Two `Authorization` headers are refused, since either
    /// could be the one that is meant.
    pub fn authenticate_request(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Caller, Unauthenticated> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (_, Some(_)) if !self.is_open() => Err(Unauthenticated::NotGood),
            (one, _) => self.authenticate(one, now),
        }
    }
}

/// What is presented: behind `Bearer`, in any case, and a space.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, presented) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(presented)
}
