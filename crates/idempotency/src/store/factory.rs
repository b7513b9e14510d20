//! Where stores come from: settings once, then a store for each connection (I-15).

use super::client::Client;
use super::error::{ShapeError, StoreError};
use super::raw::RawIdempotencyStore;
use super::settings::Settings;

/// Makes stores on the caller's connections. It holds no connection and no state: make one when
/// the service starts, [check](Self::check) the table, and share it.
///
/// `with_tx`, for a transaction of the client's own type, is on each client's factory.
#[derive(Debug, Clone)]
pub struct IdempotencyStoreFactory<C> {
    pub(super) client: C,
    pub(super) settings: Settings,
}

impl<C: Client> IdempotencyStoreFactory<C> {
    /// A factory over any client.
    pub fn with_client(client: C, settings: Settings) -> Self {
        Self { client, settings }
    }

    /// What it was set up with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the table is there, in the shape that the statements need (I-20). Every difference is
    /// named at once. Call it when the service starts.
    pub async fn check(&self, connection: &mut C::Connection) -> Result<(), ShapeError> {
        self.client.check(connection).await
    }

    /// A store on a connection that must have an active transaction, and fails if it has none.
    pub async fn in_transaction<'c>(
        &'c self,
        connection: &'c mut C::Connection,
    ) -> Result<RawIdempotencyStore<'c, C>, StoreError> {
        if self.client.is_in_transaction(connection).await.map_err(StoreError::from)? {
            Ok(self.in_connection(connection))
        } else {
            Err(StoreError::NoTransaction)
        }
    }

    /// A store on a connection in any state. Without a transaction each call is one of its own, so
    /// other transactions see a row in progress at once.
    pub fn in_connection<'c>(
        &'c self,
        connection: &'c mut C::Connection,
    ) -> RawIdempotencyStore<'c, C> {
        RawIdempotencyStore::new(self, connection)
    }
}
