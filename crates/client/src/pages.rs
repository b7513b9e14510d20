//! Lists, a page at a time.

use std::fmt::Display;

use indelible_api::access::AuditPage;
use indelible_api::delivery::Messages;
use indelible_api::execution::{Events, Executions, State};
use indelible_api::ledger::{Entities, History, Log, Vaults};
use indelible_api::unresolved::{UnresolvedPage, UnresolvedState};
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::{Error, Malformed};
use crate::request::Request;

/// A page of a list. Only this crate implements it.
pub trait Page: DeserializeOwned + sealed::Paged {}

mod sealed {
    pub trait Paged {
        /// The name of the cursor in a query.
        const CURSOR: &'static str;

        /// Where the next page begins.
        fn following(&self) -> Option<String>;
    }
}

macro_rules! page {
    ($page:ty, $cursor:literal) => {
        page!($page, $cursor, ToString::to_string);
    };
    ($page:ty, $cursor:literal, $text:expr) => {
        impl Page for $page {}

        impl sealed::Paged for $page {
            const CURSOR: &'static str = $cursor;

            fn following(&self) -> Option<String> {
                self.next.as_ref().map($text)
            }
        }
    };
}

page!(Executions, "cursor");
page!(UnresolvedPage, "cursor");
page!(AuditPage, "cursor");
page!(Events, "from");
page!(Vaults, "after", |next| next.0.to_string());
page!(Entities, "after", |next| next.0.to_string());
page!(History, "before");
page!(Log, "from");
page!(Messages, "below");

/// The pages of a list.
#[derive(Debug)]
pub struct Pages<P> {
    client: Client,
    segments: Vec<String>,
    query: Vec<(&'static str, String)>,
    cursor: Option<String>,
    is_over: bool,
    page: std::marker::PhantomData<fn() -> P>,
}

impl<P: Page> Pages<P> {
    pub(crate) fn new(
        client: Client,
        segments: Vec<String>,
        query: Vec<(&'static str, String)>,
    ) -> Self {
        let page = std::marker::PhantomData;
        Self { client, segments, query, cursor: None, is_over: false, page }
    }

    /// The most entries of a page; the server has a bound of its own.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.query.push(("limit", limit.to_string()));
        self
    }

    /// Goes on where another left off: see [`Self::cursor`].
    #[must_use]
    pub fn starting_at(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Where the next page begins. `None`: at the beginning, or after the last page.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next page; `None` after the last. A page may be empty although more follow. After an
    /// error, the same page is asked for again.
    pub async fn next(&mut self) -> Result<Option<P>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut query = self.query.clone();
        query.extend(self.cursor.clone().map(|cursor| (P::CURSOR, cursor)));
        let segments: Vec<_> = self.segments.iter().map(String::as_str).collect();
        let request = Request::get(self.client.uri(&segments, &query)?);
        let page: P = self.client.fetch(&request).await?;
        let next = page.following();
        if next.is_some() && next == self.cursor {
            // The same cursor again would make the list endless.
            return Err(Error::Malformed(Malformed {
                status: http::StatusCode::OK,
                what: "the server returned the same page twice".to_owned(),
                identity: None,
            }));
        }
        self.is_over = next.is_none();
        self.cursor = next;
        Ok(Some(page))
    }
}

/// Which executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Filter {
    states: Vec<State>,
    function: Option<String>,
    created_from: Option<String>,
    created_before: Option<String>,
    id_prefix: Option<String>,
    labels: Vec<String>,
    key: Option<String>,
    latest_only: bool,
    pub(crate) everywhere: bool,
}

impl Filter {
    /// All of them.
    pub fn all() -> Self {
        Self::default()
    }

    /// Those in this state, or in another that was named.
    pub fn state(mut self, state: State) -> Self {
        self.states.push(state);
        self
    }

    /// Those of this function.
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Those started at this time or later, RFC 3339.
    pub fn created_from(mut self, time: impl Into<String>) -> Self {
        self.created_from = Some(time.into());
        self
    }

    /// Those started before this time, RFC 3339.
    pub fn created_before(mut self, time: impl Into<String>) -> Self {
        self.created_before = Some(time.into());
        self
    }

    /// Only those whose id begins with this: 6 hexadecimal digits or more.
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Only those with this label, and with the others that were named.
    pub fn label(mut self, name: &str, value: impl Display) -> Self {
        self.labels.push(format!("{name}={value}"));
        self
    }

    /// Only the one that was started under this idempotency key. The page says what the key was used
    /// for, even if that execution is no longer kept. It goes with no other filter.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Those of every namespace that the credential may see, whatever the client's own namespace.
    pub fn everywhere(mut self) -> Self {
        self.everywhere = true;
        self
    }

    /// Lists each execution once, by its last attempt. Without it every attempt is listed, also
    /// those that failed and were tried again.
    pub fn latest_only(mut self) -> Self {
        self.latest_only = true;
        self
    }

    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        let states: Vec<_> = self.states.iter().map(|state| word(*state)).collect();
        let states = (!states.is_empty()).then(|| states.join(","));
        [
            ("state", states),
            ("function", self.function.clone()),
            ("created_from", self.created_from.clone()),
            ("created_before", self.created_before.clone()),
            ("id_prefix", self.id_prefix.clone()),
            ("key", self.key.clone()),
            ("latest", self.latest_only.then(|| "true".to_owned())),
            ("namespace", self.everywhere.then(|| "*".to_owned())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .chain(self.labels.iter().map(|label| ("label", label.clone())))
        .collect()
    }
}

/// Which questions that are, or were, open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct UnresolvedFilter {
    with_settled: bool,
    state: Option<UnresolvedState>,
    function: Option<String>,
    host: Option<String>,
    tree: Option<String>,
    since: Option<String>,
    before: Option<String>,
}

impl UnresolvedFilter {
    /// All that are open.
    pub fn open() -> Self {
        Self::default()
    }

    /// Those that are settled, too, behind the others.
    pub fn with_settled(mut self) -> Self {
        self.with_settled = true;
        self
    }

    /// Those in this state.
    pub fn state(mut self, state: UnresolvedState) -> Self {
        self.state = Some(state);
        self
    }

    /// Those of this function.
    pub fn function(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Requests to this host.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Those of the tree of this execution.
    pub fn tree(mut self, execution_id: impl Into<String>) -> Self {
        self.tree = Some(execution_id.into());
        self
    }

    /// Those that arose at this time or later, RFC 3339.
    pub fn since(mut self, time: impl Into<String>) -> Self {
        self.since = Some(time.into());
        self
    }

    /// Those that arose before this time, RFC 3339.
    pub fn before(mut self, time: impl Into<String>) -> Self {
        self.before = Some(time.into());
        self
    }

    pub(crate) fn query(&self) -> Vec<(&'static str, String)> {
        [
            ("all", self.with_settled.then(|| "true".to_owned())),
            ("state", self.state.map(|state| state.word().to_owned())),
            ("function", self.function.clone()),
            ("host", self.host.clone()),
            ("tree", self.tree.clone()),
            ("since", self.since.clone()),
            ("before", self.before.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// The word of a state, as it stands in answers.
fn word(state: State) -> String {
    match serde_json::to_value(state) {
        Ok(serde_json::Value::String(word)) => word,
        _ => unreachable!("a state is a word"),
    }
}
