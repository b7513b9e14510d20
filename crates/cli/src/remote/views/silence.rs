//! Asking a server again and again: while it does not answer, the view says so and waits.

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

/// How long to wait for an answer before the view says that there is none.
pub(super) const ANSWER: Duration = Duration::from_secs(2);

/// Since when the server has not answered.
#[derive(Default)]
pub(super) struct Silence(Option<Timestamp>);

impl Silence {
    /// Asks, and waits for [`ANSWER`] at most. None: no answer, and the view stays as it is.
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

    /// The line below the view.
    pub(super) fn line(&self, screen: Screen) -> Option<String> {
        self.0
            .map(|since| screen.paint(Tone::Warn, &format!("no response since {}", second(since))))
    }
}
