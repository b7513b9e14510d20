//! Asking a server again and again: one that does not answer is waited for, and that is drawn.

use std::future::Future;
use std::time::Duration;

use indelible_client::Error;
use indelible_journal::Timestamp;
use tokio::time::timeout;

use super::now;
use super::time::second;
use crate::failure::Failure;
use crate::remote::Remote;
use crate::remote::errors::Explained as _;
use crate::screen::{Screen, Tone};

/// For how long an answer is waited for before it is said that there is none.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// Since when there is no answer.
#[derive(Default)]
pub(super) struct Silence(Option<Timestamp>);

impl Silence {
    /// Asks, for a moment. None: there is no answer, and what was known before stays.
    pub(super) async fn ask<T>(
        &mut self,
        remote: &Remote,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Failure> {
        match timeout(ANSWER, asked).await {
            Ok(Ok(answer)) => {
                self.0 = None;
                Ok(Some(answer))
            }
            Ok(Err(Error::Transport(_))) | Err(_) => {
                self.0 = self.0.or_else(|| Some(now()));
                Ok(None)
            }
            Ok(Err(error)) => Err(error.explain(&remote.at)),
        }
    }

    /// What is drawn below the rest.
    pub(super) fn line(&self, screen: Screen) -> Option<String> {
        self.0.map(|since| screen.paint(Tone::Warn, &format!("no answer since {}", second(since))))
    }
}
