//! The transaction around a handler: begun, and ended in one of three ways.
//!
//! The middleware is the caller that owns the transaction (I-14); the store only runs statements in
//! it.

use sqlx::Transaction;

use super::config::Config;
use super::database::LayerDatabase;
use super::error::LayerError;
use super::tx::LentTransaction;
use crate::json::Json;
use crate::key::IdempotencyKey;
use crate::outcome::{Attempt, Outcome};
use crate::request::Request;
use crate::store::{RawOutcome, StoreError};

/// How often a request is begun, each time in a new transaction, when the database could not order
/// the one before among others. The handler has not run by then; more tries would burden a database
/// that is busy already.
const BEGINS_MAX: u32 = 3;

impl<DB: LayerDatabase> Config<DB> {
    /// A transaction, and what `begin` found in it.
    pub(super) async fn begin(
        &self,
        key: &IdempotencyKey,
        request: &Request,
    ) -> Result<(Transaction<'static, DB>, RawOutcome), LayerError> {
        let mut begins = 1;
        loop {
            let mut transaction = DB::open(&self.pool).await.map_err(LayerError::Open)?;
            let begun = self.factory.in_connection(&mut transaction).begin(key, request).await;
            match begun {
                Ok(outcome) => return Ok((transaction, outcome)),
                Err(error) => {
                    self.roll_back(transaction).await;
                    if !matches!(error, StoreError::RetryTransaction(_)) || begins == BEGINS_MAX {
                        return Err(LayerError::Begin(error));
                    }
                    begins += 1;
                }
            }
        }
    }

    /// Records the response and commits it together with the handler's work.
    pub(super) async fn keep(
        &self,
        mut transaction: Transaction<'static, DB>,
        attempt: &Attempt,
        response: &Json,
    ) -> Result<(), LayerError> {
        DB::settle(&mut transaction).await;
        let committed =
            self.factory.in_connection(&mut transaction).commit(attempt, response).await;
        if let Err(error) = committed {
            self.roll_back(transaction).await;
            return Err(LayerError::Record(error));
        }
        transaction.commit().await.map_err(LayerError::Commit)
    }

    /// Records the response alone, in a transaction of its own. If another request has taken the
    /// key meanwhile, that request's record counts.
    pub(super) async fn keep_alone(
        &self,
        key: &IdempotencyKey,
        request: &Request,
        response: &Json,
    ) -> Result<(), LayerError> {
        let (transaction, outcome) = self.begin(key, request).await?;
        match outcome {
            Outcome::FreshAttempt(attempt) => self.keep(transaction, &attempt, response).await,
            _ => {
                self.roll_back(transaction).await;
                Ok(())
            }
        }
    }

    /// Undoes what a handler did.
    pub(super) async fn give_up(&self, lent: LentTransaction<DB>) {
        match lent.take_back() {
            Some(transaction) => self.roll_back(transaction).await,
            None => self.report(&LayerError::TransactionHeld),
        }
    }

    /// Rolls back before the caller is answered, so that an immediate repetition finds the key
    /// fresh. If it fails, the connection is unusable, and the database rolls back by itself.
    pub(super) async fn roll_back(&self, mut transaction: Transaction<'static, DB>) {
        DB::settle(&mut transaction).await;
        if let Err(error) = transaction.rollback().await {
            self.report(&LayerError::Rollback(error));
        }
    }
}
