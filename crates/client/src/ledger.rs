//! The ledger of a namespace or of a vault: transactions, and what is read of them.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use http::Method;
use indelible_api::control::Done;
use indelible_api::ledger::{
    ClientState, Committed, DeletedVault, Entities, EntityAt, HandOver, History, Log, LogEntry,
    StateAt, Vault, VaultSettings, Vaults,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::command::{Command, body};
use crate::download::Export;
use crate::error::{Error, Invalid};
use crate::id::{Identity, OperationId};
use crate::ledger_watch::LedgerWatch;
use crate::pages::Pages;
use crate::request::Request;
use crate::sequenced::OpenSequenced;
use crate::sequenced::state::Body;

/// The ledger of a namespace, from [`Client::ledger`], or of a vault in it, from [`Client::vault`].
#[derive(Debug, Clone)]
pub struct Ledger {
    pub(crate) client: Client,
    pub(crate) vault: Option<String>,
}

impl Client {
    /// The ledger of the namespace itself.
    pub fn ledger(&self) -> Ledger {
        Ledger { client: self.clone(), vault: None }
    }

    /// The ledger of a vault. Whether there is one shows when it is asked.
    pub fn vault(&self, name: impl Into<String>) -> Ledger {
        Ledger { client: self.clone(), vault: Some(name.into()) }
    }

    /// Makes a vault, or gives one that is there these settings.
    pub fn put_vault(&self, name: &str, settings: &VaultSettings) -> Command<Vault> {
        let request = self
            .uri(&["vaults", name], &self.scoped(Vec::new()))
            .and_then(|uri| Ok(Request::change(Method::PUT, uri).json(body(settings)?)));
        self.command(request)
    }

    /// Deletes a vault with everything in it; if an incarnation is given, only that one. The reason is
    /// kept in the audit record.
    pub fn delete_vault(
        &self,
        name: &str,
        incarnation: Option<&str>,
        reason: &str,
    ) -> Command<DeletedVault> {
        let incarnation = incarnation.map(|incarnation| ("incarnation", incarnation.to_owned()));
        let reason = Some(("reason", reason.to_owned())).filter(|(_, text)| !text.is_empty());
        let query = incarnation.into_iter().chain(reason).collect();
        let uri = self.uri(&["vaults", name], &self.scoped(query));
        self.command(uri.map(|uri| Request::change(Method::DELETE, uri)))
    }

    /// The vaults of the namespace, by name.
    pub fn vaults(&self) -> Result<Pages<Vaults>, Error> {
        self.pages(&["vaults"], self.scoped(Vec::new()))
    }

    /// One vault, with its settings.
    pub async fn vault_info(&self, name: &str) -> Result<Vault, Error> {
        self.read(&["vaults", name], &self.scoped(Vec::new())).await
    }
}

impl Ledger {
    /// The namespace; `None` is the credential's only one.
    pub fn namespace(&self) -> Option<&str> {
        self.client.namespace.as_deref()
    }

    /// The vault; `None` is the namespace's own ledger.
    pub fn vault(&self) -> Option<&str> {
        self.vault.as_deref()
    }

    /// A transaction: `operations` is what the API takes as such, as a [`serde_json::Value`] or as
    /// types of [`api::ledger`](crate::api::ledger) or the program's own. Say under which name, then
    /// `.await`.
    ///
    /// ```no_run
    /// # async fn pay(client: indelible_client::Client) -> Result<(), indelible_client::Error> {
    /// let operations = serde_json::json!([
    ///     {"transfer": {"from": "ann", "to": "bob", "quantity": 500, "min": 0}}
    /// ]);
    /// client.vault("wallets").transact(&operations).idempotency_key("payment 7").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<O: Serialize + ?Sized>(&self, operations: &O) -> Transaction {
        Transaction {
            ledger: self.clone(),
            operations: raw(operations),
            name: None,
            attempt: None,
            incarnation: None,
        }
    }

    /// A writer that numbers its transactions, and keeps the number in this file, so that none is
    /// applied twice and none is lost, whatever crashes. Options, then `.await`.
    pub fn sequenced(
        &self,
        client_id: impl Into<String>,
        file: impl Into<std::path::PathBuf>,
    ) -> OpenSequenced {
        OpenSequenced::new(self.clone(), client_id.into(), file.into())
    }

    /// The height, the head of the chain and the hash of all entities; of now, or at a height.
    pub async fn state(&self, at: Option<u64>) -> Result<StateAt, Error> {
        self.read(&["state"], at_height(at)).await
    }

    /// What is under a key; now, or at a height.
    pub async fn entity(&self, key: &str, at: Option<u64>) -> Result<EntityAt, Error> {
        self.read(&["entities", key], at_height(at)).await
    }

    /// The entities whose keys begin with this, by keys; now, or at a height.
    pub fn entities(&self, prefix: &str, at: Option<u64>) -> Result<Pages<Entities>, Error> {
        let mut query = at_height(at);
        query.push(("prefix", prefix.to_owned()));
        self.pages(&["entities"], query)
    }

    /// What a key held, newest first.
    pub fn history(&self, key: &str) -> Result<Pages<History>, Error> {
        self.pages(&["entities", key, "history"], Vec::new())
    }

    /// The transactions from this height on, oldest first.
    pub fn transactions(&self, from: u64) -> Result<Pages<Log>, Error> {
        Ok(self.pages(&["transactions"], Vec::new())?.starting_at(from.to_string()))
    }

    /// The transaction at a height.
    pub async fn transaction(&self, height: u64) -> Result<LogEntry, Error> {
        self.read(&["transactions", &height.to_string()], Vec::new()).await
    }

    /// The transactions above this height, as they are committed, each once and in order.
    pub fn watch(&self, above: u64) -> Result<LedgerWatch, Error> {
        LedgerWatch::new(self, above)
    }

    /// The log with its proofs, as JSON Lines: `docs/formats/ledger.md`.
    pub async fn export(&self) -> Result<Export, Error> {
        Export::open(&self.client, self.uri(&["export"], Vec::new())?).await
    }

    /// How a client's stream stands, and the receipt of one of its numbers.
    pub async fn client_state(
        &self,
        client_id: &str,
        sequence: Option<u64>,
    ) -> Result<ClientState, Error> {
        let query = sequence.map(|sequence| ("sequence", sequence.to_string()));
        self.read(&["clients", client_id], query.into_iter().collect()).await
    }

    /// Gives a client id to another owner: `user:…`, `client:…` or `system:…`. For operators.
    pub fn hand_over(&self, client_id: &str, owner: &str, reason: &str) -> Command<Done> {
        let over = HandOver { owner: owner.to_owned(), reason: reason.to_owned() };
        let request = self
            .uri(&["clients", client_id, "owner"], Vec::new())
            .and_then(|uri| Ok(Request::change(Method::PUT, uri).json(body(&over)?)));
        self.client.command(request)
    }

    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        rest: &[&str],
        query: Vec<(&'static str, String)>,
    ) -> Result<T, Error> {
        self.client.fetch(&Request::get(self.uri(rest, query)?)).await
    }

    fn pages<P: crate::pages::Page>(
        &self,
        rest: &[&str],
        query: Vec<(&'static str, String)>,
    ) -> Result<Pages<P>, Error> {
        self.client.pages(&self.segments(rest), self.client.scoped(query))
    }

    pub(crate) fn uri(
        &self,
        rest: &[&str],
        query: Vec<(&'static str, String)>,
    ) -> Result<http::Uri, Invalid> {
        self.client.uri(&self.segments(rest), &self.client.scoped(query))
    }

    fn segments<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let scope = match &self.vault {
            Some(vault) => vec!["vaults", vault.as_str()],
            None => vec!["ledger"],
        };
        [&scope, rest].concat()
    }
}

fn at_height(at: Option<u64>) -> Vec<(&'static str, String)> {
    at.map(|at| ("at", at.to_string())).into_iter().collect()
}

/// The JSON of operations, once: every attempt sends the same bytes.
pub(crate) fn raw<O: Serialize + ?Sized>(operations: &O) -> Result<Box<RawValue>, Invalid> {
    serde_json::value::to_raw_value(operations)
        .map_err(|error| Invalid(format!("the operations are not JSON: {error}")))
}

/// Under which name a transaction goes.
#[derive(Debug, Clone)]
enum TransactionName {
    Identity(Identity),
    Numbered { client_id: String, sequence: u64 },
}

/// A transaction that has not been sent: a name, then `.await`.
///
/// Without a name of the caller's, an operation id is minted before the first attempt: then the
/// client can send it again, and the caller cannot.
#[must_use = "nothing is sent until it is awaited"]
pub struct Transaction {
    ledger: Ledger,
    operations: Result<Box<RawValue>, Invalid>,
    name: Option<TransactionName>,
    attempt: Option<u32>,
    incarnation: Option<String>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Transaction {
    /// Under the caller's own key.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.named(TransactionName::Identity(Identity::Key(key.into())))
    }

    /// Under this operation id, which the caller minted.
    pub fn operation_id(self, id: OperationId) -> Self {
        self.named(TransactionName::Identity(Identity::Operation(id)))
    }

    /// Under this number of a client's stream, which the caller keeps. [`Ledger::sequenced`] keeps it
    /// for the caller.
    pub fn sequence(self, client_id: impl Into<String>, sequence: u64) -> Self {
        let client_id = client_id.into();
        self.named(TransactionName::Numbered { client_id, sequence })
    }

    /// With the attempt of the number: one more after every refusal that the caller saw. Without it, a
    /// late copy of a refused transaction can be applied (see C-42).
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// For this incarnation of the vault and no other (see C-47).
    pub fn incarnation(mut self, incarnation: impl Into<String>) -> Self {
        self.incarnation = Some(incarnation.into());
        self
    }

    fn named(self, name: TransactionName) -> Self {
        Self { name: Some(name), ..self }
    }

    async fn send(self) -> Result<Committed, Error> {
        let uri = self.ledger.uri(&["transactions"], Vec::new())?;
        let minted = || TransactionName::Identity(Identity::Operation(OperationId::mint()));
        let name = self.name.unwrap_or_else(minted);
        let mut content = Body {
            incarnation: self.incarnation,
            operations: Some(self.operations?),
            ..Body::default()
        };
        let identity = match name {
            TransactionName::Identity(identity) => identity,
            TransactionName::Numbered { client_id, sequence } => {
                content.client_id = Some(client_id.clone());
                content.sequence = Some(sequence);
                content.attempt = self.attempt;
                Identity::Sequence { client_id, sequence }
            }
        };
        let request = Request::change(Method::POST, uri).json(content.text().into_bytes());
        self.ledger.client.fetch(&request.named(identity)?).await
    }
}

impl IntoFuture for Transaction {
    type Output = Result<Committed, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
