//! The effects of a server.

use indelible_client::Error;
use indelible_client::api::Code;
use indelible_client::api::control::Resolution;

use super::{Line, OutcomeWord, state};
use crate::failure::Failure;
use crate::remote::{Connection, Explained as _, Remote, Target};

/// Passes every unresolved effect to `tell`.
pub(super) fn list(
    connection: &Connection,
    tell: &mut impl FnMut(Line) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let remote = connect(connection)?;
    let mut pages = remote.asked(remote.client.unresolved())?;
    while let Some(page) = remote.run(pages.next())? {
        for effect in page.effects {
            tell(Line {
                promise: effect.promise_id,
                execution: effect.execution_id,
                attempt: effect.attempt,
                since: effect.since,
                label: effect.label,
                why: effect.why,
                state: state(effect.held),
            })?;
        }
    }
    Ok(())
}

/// Resolves an effect once `sure` has confirmed it, and returns the effect's whole id.
pub(super) fn resolve(
    connection: &Connection,
    promise: &Target,
    ended: OutcomeWord,
    reason: &str,
    sure: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let remote = connect(connection)?;
    let promise = remote.find(promise)?;
    sure(&promise)?;
    let resolution = match ended {
        OutcomeWord::Happened { status, body } => {
            Resolution::Happened { status, headers: Vec::new(), body }
        }
        OutcomeWord::DidNotHappen => Resolution::DidNotHappen {},
        OutcomeWord::RunAgain => Resolution::RunAgain {},
    };
    let resolved = remote.client.resolve(&promise, resolution, reason).into_future();
    remote.wait(resolved).map_err(|error| {
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

fn connect(connection: &Connection) -> Result<Remote, Failure> {
    connection.connect().map_err(Failure::or_a_folder)
}
