//! What functions have logged, and what they log from now on.

use indelible_api::log::Logs as Page;

use crate::client::Client;
use crate::error::Error;
use crate::request::Request;

/// Lines of an execution and of everything that it called, a page at a time. There is no last page:
/// a caller that follows the log asks again.
///
/// ```no_run
/// # async fn follow(client: indelible_client::Client) -> Result<(), indelible_client::Error> {
/// let mut logs = client.logs("…")?;
/// loop {
///     let page = logs.next().await?;
///     for line in &page.lines {
///         println!("{} {}", line.at, line.message);
///     }
///     if !page.more {
///         // There are no more lines yet.
///         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Logs {
    client: Client,
    execution_id: String,
    limit: Option<u32>,
    cursor: Option<String>,
}

impl Logs {
    pub(crate) fn new(client: Client, execution_id: String) -> Self {
        Self { client, execution_id, limit: None, cursor: None }
    }

    /// The most lines of a page; the server has a bound of its own.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Goes on where another left off: see [`Self::cursor`].
    #[must_use]
    pub fn starting_at(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Where the next page begins. `None`: with the oldest line that is kept.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next page. [`more`](Page::more) says whether to ask again at once. After an error, the
    /// same page is asked for again.
    pub async fn next(&mut self) -> Result<Page, Error> {
        let limit = self.limit.map(|limit| ("limit", limit.to_string()));
        let from = self.cursor.clone().map(|cursor| ("from", cursor));
        let query: Vec<_> = limit.into_iter().chain(from).collect();
        let uri = self.client.uri(&["executions", &self.execution_id, "logs"], &query)?;
        let page: Page = self.client.fetch(&Request::get(uri)).await?;
        self.cursor = Some(page.next.clone());
        Ok(page)
    }
}
