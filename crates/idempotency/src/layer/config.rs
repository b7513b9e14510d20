//! What the middleware is set up with.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use sqlx::Pool;

use super::database::LayerDatabase;
use super::error::LayerError;
use super::problem::Problem;
use crate::key::{IdempotencyKey, parse_key};
use crate::minter::KeyMinter;
use crate::namespace::ConsumerNamespace;
use crate::store::IdempotencyStoreFactory;

/// The default bound of a body: 1 MiB. Far beyond an ordinary request; each request in flight may
/// take so much memory.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Which callers share keys. Two callers that send the same key must not get each other's
/// responses, so there is no default.
#[derive(Clone)]
pub enum Scope {
    /// All callers share one space of keys: for a service with a single client, for example.
    Shared,
    /// Each text that the function returns has its own space of keys. See [`Scope::by`].
    By(Arc<Whose>),
}

/// Names the owner of a request's key.
pub type Whose = dyn Fn(&Parts) -> Option<String> + Send + Sync;

impl Scope {
    /// A space of keys for each text that this function returns, such as the id of an authenticated
    /// user or tenant that an outer layer has put into the extensions. The stored key is minted
    /// from that text and the caller's key. If it returns `None` or a blank text, the request is
    /// refused with 403.
    pub fn by(whose: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::By(Arc::new(whose))
    }

    /// The key to record under.
    pub(super) fn key(
        &self,
        namespace: &ConsumerNamespace,
        parts: &Parts,
        text: &str,
    ) -> Result<IdempotencyKey, Problem> {
        let key = parse_key(namespace, Some(text))
            .map_err(|why| Problem::KeyInvalid(why.to_string()))?
            .expect("there is a text");
        match self {
            Self::Shared => Ok(key),
            Self::By(whose) => {
                let scope = whose(parts).ok_or(Problem::ScopeUnknown)?;
                let minter = KeyMinter::new(namespace.clone());
                minter.mint([scope.as_str(), key.value()]).map_err(|_| Problem::ScopeUnknown)
            }
        }
    }
}

/// What becomes of a handler's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// It is recorded, and what the handler did in the transaction is kept.
    WithEffects,
    /// It is recorded, and what the handler did in the transaction is undone: a refusal.
    WithoutEffects,
    /// It is not recorded, and what the handler did is undone: the next request with the key runs
    /// the handler again.
    Not,
}

impl Recording {
    /// The default: successes and redirections are kept; refusals are recorded without effects,
    /// except those that time or credentials may change (401, 403, 408, 409, 425, 429); all else is
    /// not recorded.
    pub fn by_status(status: StatusCode) -> Self {
        match status.as_u16() {
            200..=399 => Self::WithEffects,
            401 | 403 | 408 | 409 | 425 | 429 => Self::Not,
            400..=499 => Self::WithoutEffects,
            _ => Self::Not,
        }
    }
}

pub(super) type OnError = dyn Fn(&LayerError) + Send + Sync;

pub(super) struct Config<DB: LayerDatabase> {
    pub(super) pool: Pool<DB>,
    pub(super) factory: IdempotencyStoreFactory<DB::Client>,
    pub(super) scope: Scope,
    pub(super) is_required: bool,
    pub(super) request_bytes_max: usize,
    pub(super) response_bytes_max: usize,
    pub(super) recording: fn(StatusCode) -> Recording,
    pub(super) on_error: Option<Arc<OnError>>,
}

impl<DB: LayerDatabase> Config<DB> {
    pub(super) fn new(
        pool: Pool<DB>,
        factory: IdempotencyStoreFactory<DB::Client>,
        scope: Scope,
    ) -> Self {
        Self {
            pool,
            factory,
            scope,
            is_required: false,
            request_bytes_max: BODY_BYTES_MAX,
            response_bytes_max: BODY_BYTES_MAX,
            recording: Recording::by_status,
            on_error: None,
        }
    }

    pub(super) fn report(&self, error: &LayerError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

impl<DB: LayerDatabase> Clone for Config<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            factory: self.factory.clone(),
            scope: self.scope.clone(),
            on_error: self.on_error.clone(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_by_status() {
        let by = |status: u16| Recording::by_status(StatusCode::from_u16(status).unwrap());
        for status in [200, 201, 202, 204, 206, 301, 303, 307] {
            assert_eq!(by(status), Recording::WithEffects, "{status}");
        }
        for status in [400, 402, 404, 405, 410, 413, 415, 422, 451] {
            assert_eq!(by(status), Recording::WithoutEffects, "{status}");
        }
        for status in [100, 101, 401, 403, 408, 409, 425, 429, 500, 502, 503, 599, 999] {
            assert_eq!(by(status), Recording::Not, "{status}");
        }
    }
}
