//! API keys of a server.

use indelible_api::access::{CreatedToken, NewToken, Token};
use indelible_client::Error;
use indelible_client::api::Code;

use super::unknown;
use crate::failure::Failure;
use crate::remote::{Explained as _, Remote, Server};

/// Makes a key. The request is sent once only, because its answer alone has the secret.
pub(super) fn create(server: &Server, new: &NewToken) -> Result<CreatedToken, Failure> {
    let remote = connect(server)?;
    remote.wait(remote.client.make_token(new)).map_err(|error| {
        // The request has no idempotency key, so the client never repeats it.
        let lost = match &error {
            Error::Malformed(_) => true,
            Error::Transport(lost) => lost.may_have_arrived,
            _ => false,
        };
        let failure = error.explain(&remote.at);
        if lost {
            failure.hint(
                "the key may have been created, but its secret is lost: find it with `indelible \
                 token list` and revoke it",
            )
        } else {
            failure
        }
    })
}

/// All keys.
pub(super) fn list(server: &Server) -> Result<Vec<Token>, Failure> {
    let remote = connect(server)?;
    Ok(remote.run(remote.client.tokens())?.tokens)
}

/// Revokes a key once `sure` has confirmed it.
pub(super) fn revoke(
    server: &Server,
    id: &str,
    sure: impl FnOnce() -> Result<(), Failure>,
) -> Result<Token, Failure> {
    let remote = connect(server)?;
    sure()?;
    remote.wait(remote.client.revoke_token(id).into_future()).map_err(|error| match error {
        Error::Refused(problem) if problem.code == Code::NotFound => unknown(),
        error => error.explain(&remote.at),
    })
}

fn connect(server: &Server) -> Result<Remote, Failure> {
    server.connect().map_err(Failure::or_a_folder)
}
