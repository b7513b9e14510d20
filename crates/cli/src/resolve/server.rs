//! What is unknown on a server.

use std::time::Duration;

use indelible_client::api::Code;
use indelible_client::api::unresolved::{Resolution, Unresolved, UnresolvedDetail};
use indelible_client::{Error, UnresolvedFilter};
use indelible_journal::{Micros, Timestamp};
use tokio::time::{sleep, timeout};

use super::{Decision, OutcomeWord};
use crate::failure::Failure;
use crate::print;
use crate::remote::{Connection, Explained as _, Remote, Target};

/// How long `--follow` waits before it asks again.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How far back `--follow` asks: something that arose earlier may become durable later.
const OVERLAP: Micros = Micros::from_secs(60);

/// Passes what is unknown to `tell`; with `follow`, also what becomes unknown, until the reader of
/// stdout is gone. Returns the namespace, if only one was looked at.
pub(super) fn list(
    connection: &Connection,
    filter: &UnresolvedFilter,
    follow: bool,
    tell: &mut impl FnMut(Unresolved) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let remote = connect(connection)?;
    let mut filter = filter.clone();
    loop {
        let mut newest = None::<Timestamp>;
        let mut pages = remote.asked(remote.client.unresolved(&filter))?;
        while let Some(page) = remote.run(pages.next())? {
            for listed in page.unresolved {
                newest = newest.max(listed.since.parse().ok());
                tell(listed)?;
            }
        }
        if !follow || remote.wait(is_reader_gone()) {
            return Ok(remote.namespace);
        }
        if let Some(newest) = newest {
            let from = newest.as_micros().saturating_sub(OVERLAP.get());
            filter = filter.since(Timestamp::from_micros(from).unwrap_or(newest).to_string());
        }
    }
}

/// Waits for the poll interval, then reports whether the reader of stdout is gone.
async fn is_reader_gone() -> bool {
    sleep(POLL_INTERVAL).await;
    timeout(POLL_INTERVAL, print::is_reader_gone()).await.unwrap_or(false)
}

/// The evidence for one question.
pub(super) fn detail(
    connection: &Connection,
    promise: &Target,
) -> Result<UnresolvedDetail, Failure> {
    let remote = connect(connection)?;
    let promise = named(&remote, promise)?;
    remote.run(remote.client.unresolved_detail(&promise))
}

/// Settles a question once `sure` has confirmed it, and returns the whole id of the promise.
pub(super) fn resolve(
    connection: &Connection,
    promise: &Target,
    decision: &Decision,
    sure: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let remote = connect(connection)?;
    let promise = named(&remote, promise)?;
    sure(&promise)?;
    let resolution = match &decision.ended {
        OutcomeWord::Happened { status, body } => {
            Resolution::Happened { status: *status, headers: Vec::new(), body: body.clone() }
        }
        OutcomeWord::DidNotHappen => Resolution::DidNotHappen {},
        OutcomeWord::RunAgain => Resolution::RunAgain {},
        OutcomeWord::AcceptUnknown => Resolution::AcceptUnknown {},
    };
    let Decision { attempt, reason, .. } = decision;
    let resolved = remote.client.resolve_attempt(&promise, *attempt, resolution, reason);
    remote.wait(resolved.into_future()).map_err(|error| {
        let refused = matches!(
            &error,
            Error::Refused(problem) if matches!(problem.code, Code::NotFound | Code::WrongState)
        );
        let failure = error.explain(&remote.at);
        match refused {
            true => failure
                .hint("nothing has changed; `indelible unresolved` lists what can be resolved"),
            false => failure,
        }
    })?;
    Ok(promise)
}

/// The whole id of the promise that is meant. The first digits may be those of a tree that is
/// deleted: then no execution has them, and the question does.
fn named(remote: &Remote, promise: &Target) -> Result<String, Failure> {
    let asked = promise.prefix().map(|text| remote.wait(remote.client.unresolved_detail(&text)));
    match asked {
        Some(Ok(detail)) => Ok(detail.unresolved.promise_id),
        Some(Err(_)) | None => remote.find(promise),
    }
}

fn connect(connection: &Connection) -> Result<Remote, Failure> {
    connection.connect_to_find().map_err(Failure::or_a_folder)
}
