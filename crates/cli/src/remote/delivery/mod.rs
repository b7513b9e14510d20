//! Delivery: endpoints, the messages that are sent to them, and dead letters.
//!
//! - `endpoint`, `message`, `dead`: a command each, with what belongs to it.
//! - `words`: how endpoints and deliveries stand, for people.

pub(crate) mod dead;
pub(crate) mod endpoint;
pub(crate) mod message;
mod words;

use std::future::IntoFuture;

use clap::Args;
use indelible_client::api::Code;
use indelible_client::api::delivery::{MessageDetail, Messages};
use indelible_client::{Error, Pages};

use super::connection::Remote;
use super::errors::Explained as _;
use crate::failure::Failure;

/// The most messages on a page of the server.
const PAGE: u32 = 200;

/// How many messages are listed.
#[derive(Args, Clone, Copy)]
struct Limit {
    /// How many messages; 0 is all of them
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u32,
}

impl Limit {
    /// Calls this with each message, the newest first.
    fn each(
        self,
        remote: &Remote,
        pages: Result<Pages<Messages>, Error>,
        mut one: impl FnMut(MessageDetail) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut left = if self.limit == 0 { u32::MAX } else { self.limit };
        let mut pages = remote.asked(pages)?.limit(left.min(PAGE));
        while left > 0
            && let Some(page) = remote.run(pages.next())?
        {
            for message in page.messages.into_iter().take(left as usize) {
                one(message)?;
                left -= 1;
            }
        }
        Ok(())
    }
}

/// Asks, and explains an error with a hint that fits messages.
fn ask<T>(
    remote: &Remote,
    asked: impl IntoFuture<Output = Result<T, Error>>,
) -> Result<T, Failure> {
    let error = match remote.wait(asked.into_future()) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let hint = match &error {
        Error::Refused(problem) => match problem.code {
            Code::NotFound => Some(
                "`indelible message ls` lists messages, as long as they are kept; choose another \
                 namespace with --namespace",
            ),
            Code::WrongState => Some(
                "`indelible message show MESSAGE` says how its deliveries stand; `indelible dead ls` \
                 lists dead letters",
            ),
            _ => None,
        },
        _ => None,
    };
    let failure = error.explain(&remote.at);
    Err(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The same for a request that is sent once. If its answer is lost, `look` says what to do.
fn ask_once<T>(
    remote: &Remote,
    asked: impl IntoFuture<Output = Result<T, Error>>,
    look: &str,
) -> Result<T, Failure> {
    let error = match remote.wait(asked.into_future()) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    let is_riddle = match &error {
        Error::Transport(lost) => lost.may_have_arrived,
        Error::Malformed(_) => true,
        _ => false,
    };
    match ask(remote, std::future::ready(Err(error))) {
        Err(failure) if is_riddle => Err(failure.hint(look)),
        answer => answer,
    }
}
