//! The store in the service's own types (I-16).

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::client::Client;
use super::error::StoreError;
use super::judge::RawOutcome;
use super::raw::RawIdempotencyStore;
use super::settings::OnLapse;
use crate::error::{AppError, ReplayableError};
use crate::json::{Json, JsonError};
use crate::key::IdempotencyKey;
use crate::outcome::{Attempt, DecodeError, Mismatch, Outcome};
use crate::request::Request;

/// Computes the part of a request that is compared.
pub type Hashed<Req> = fn(&Req) -> Result<Json, JsonError>;

/// One logical operation of a service: its name, the types of its request, result and error, which
/// part of a request is compared, and whether it may be done twice. It is wired once (I-26), most
/// simply as a constant.
///
/// The name is compared together with the request: a refund under the key of a charge is another
/// request, though it may have the same fields. It is part of stored hashes, so it must not change.
///
/// `Req` and `Res` are read back for as long as records are replayed: new fields need a default,
/// and a new release must not change what is hashed. [`Operation::hashing`] keeps the hash apart
/// from the type.
pub struct Operation<Req, Res, E = AppError> {
    name: &'static str,
    hashed: Option<Hashed<Req>>,
    on_lapse: Option<OnLapse>,
    types: PhantomData<fn(Req, E) -> Res>,
}

impl<Req, Res, E> Operation<Req, Res, E> {
    /// An operation of this name, of which the whole request counts, and whose lapsed attempts are
    /// left as the settings say.
    pub const fn new(name: &'static str) -> Self {
        Self { name, hashed: None, on_lapse: None, types: PhantomData }
    }

    /// Compares requests by what this makes of them (I-25), and not by the whole.
    pub const fn hashing(mut self, hashed: Hashed<Req>) -> Self {
        self.hashed = Some(hashed);
        self
    }

    /// Declares it harmless to do twice: a `begin` that finds its owner's lease lapsed takes over
    /// (C-34).
    pub const fn idempotent(mut self) -> Self {
        self.on_lapse = Some(OnLapse::Restart);
        self
    }
}

impl<Req: Serialize, Res, E> Operation<Req, Res, E> {
    /// A request of this operation, as [`IdempotencyStore::begin`] makes it: what is recorded is
    /// the request, what is compared `{"operation": name, "request": what counts of it}`.
    pub fn request(&self, request: &Req) -> Result<Request, JsonError> {
        let json = Json::of(request)?;
        let counts = match self.hashed {
            Some(hashed) => hashed(request)?,
            None => json.clone(),
        };
        Ok(Request::hashed_as(json, &counts.of_operation(self.name)))
    }
}

impl<Req, Res, E> Clone for Operation<Req, Res, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Req, Res, E> Copy for Operation<Req, Res, E> {}

impl<Req, Res, E> fmt::Debug for Operation<Req, Res, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .field("hashed", &self.hashed.is_some())
            .field("on_lapse", &self.on_lapse)
            .finish()
    }
}

/// A store on one connection of the caller's, in its own types.
pub struct IdempotencyStore<'c, C: Client, Req, Res, E = AppError> {
    raw: RawIdempotencyStore<'c, C>,
    operation: Operation<Req, Res, E>,
}

impl<'c, C: Client, Req, Res, E> IdempotencyStore<'c, C, Req, Res, E> {
    pub(super) fn new(raw: RawIdempotencyStore<'c, C>, operation: Operation<Req, Res, E>) -> Self {
        let raw = match operation.on_lapse {
            Some(on_lapse) => raw.on_lapse(on_lapse),
            None => raw,
        };
        Self { raw, operation }
    }

    /// The store in JSON: for `lookup` and `purge_expired`, which have no types.
    pub fn raw(&mut self) -> &mut RawIdempotencyStore<'c, C> {
        &mut self.raw
    }
}

impl<C, Req, Res, E> IdempotencyStore<'_, C, Req, Res, E>
where
    C: Client,
    Req: Serialize + DeserializeOwned,
    Res: Serialize + DeserializeOwned,
    E: ReplayableError,
{
    /// Begins a request under its key. See [`RawIdempotencyStore::begin`].
    pub async fn begin(
        &mut self,
        key: &IdempotencyKey,
        request: &Req,
    ) -> Result<Outcome<Req, Res, E>, StoreError> {
        let request = self.operation.request(request)?;
        decode(self.raw.begin(key, &request).await?)
    }

    /// Begins a request, in the place of an owner whose lease has lapsed if need be. See
    /// [`RawIdempotencyStore::take_over`].
    pub async fn take_over(
        &mut self,
        key: &IdempotencyKey,
        request: &Req,
    ) -> Result<Outcome<Req, Res, E>, StoreError> {
        let request = self.operation.request(request)?;
        decode(self.raw.take_over(key, &request).await?)
    }

    /// Records the result of an attempt. See [`RawIdempotencyStore::commit`].
    pub async fn commit(&mut self, attempt: &Attempt, result: &Res) -> Result<(), StoreError> {
        let result = Json::of(result)?;
        self.raw.commit(attempt, &result).await
    }

    /// Records that an attempt failed for good. See [`RawIdempotencyStore::fail_permanent`].
    pub async fn fail_permanent(&mut self, attempt: &Attempt, error: &E) -> Result<(), StoreError> {
        self.raw.fail_permanent(attempt, &error.to_stored()).await
    }

    /// Forgets an attempt that failed for now. See [`RawIdempotencyStore::fail_transient`].
    pub async fn fail_transient(&mut self, attempt: &Attempt) -> Result<(), StoreError> {
        self.raw.fail_transient(attempt).await
    }

    /// Extends the lease of an attempt. See [`RawIdempotencyStore::renew`].
    pub async fn renew(&mut self, attempt: &Attempt) -> Result<(), StoreError> {
        self.raw.renew(attempt).await
    }
}

/// A recorded outcome in the operation's types. A result that cannot be decoded is a bug that an
/// operator must know of (I-17); a recorded request that cannot be decoded is not (I-18).
fn decode<Req, Res, E>(outcome: RawOutcome) -> Result<Outcome<Req, Res, E>, StoreError>
where
    Req: DeserializeOwned,
    Res: DeserializeOwned,
    E: ReplayableError,
{
    Ok(match outcome {
        Outcome::FreshAttempt(attempt) => Outcome::FreshAttempt(attempt),
        Outcome::InFlight(in_flight) => Outcome::InFlight(in_flight),
        Outcome::PriorResult(result) => Outcome::PriorResult(read("result", &result)?),
        Outcome::PriorError(error) => Outcome::PriorError(E::replay(error)),
        Outcome::Mismatch(Mismatch { recorded_request, recorded_hash, submitted_hash }) => {
            let recorded_request = recorded_request.and_then(|json| read("request", &json));
            Outcome::Mismatch(Mismatch { recorded_request, recorded_hash, submitted_hash })
        }
    })
}

fn read<T: DeserializeOwned>(what: &'static str, json: &Json) -> Result<T, DecodeError> {
    json.decode().map_err(|why| DecodeError::new(what, &why))
}
