//! API keys in a data folder that no process has open.

use std::path::Path;

use indelible_api::access::{CreatedToken, NewToken, Token};
use indelible_records::TABLES;
use indelible_runtime::Actor;
use indelible_runtime::world::{Clock as _, System};
use indelible_server::auth::{TokenError, Tokens};
use indelible_store::embedded;

use super::unknown;
use crate::failure::{Failure, unopened, unopened_store};

/// Makes a key, and the folder if it is missing.
pub(super) fn create(folder: &Path, new: &NewToken) -> Result<CreatedToken, Failure> {
    crate::serve::folder::check(folder)?;
    let tokens = open(folder)?;
    wait(tokens.create(new, System.now(), &actor()))?.map_err(|error| refused(&error))
}

/// All keys.
pub(super) fn list(folder: &Path) -> Result<Vec<Token>, Failure> {
    wait(existing(folder)?.list())?.map_err(|error| refused(&error))
}

/// Revokes a key once `sure` has confirmed it.
pub(super) fn revoke(
    folder: &Path,
    id: &str,
    sure: impl FnOnce() -> Result<(), Failure>,
) -> Result<Token, Failure> {
    let tokens = existing(folder)?;
    let id = id.parse().map_err(|_| unknown())?;
    sure()?;
    let token = wait(tokens.revoke(id, System.now(), &actor()))?;
    token.map_err(|error| refused(&error))?.ok_or_else(unknown)
}

/// Write access to the folder is the only credential here, so the actor names this program.
fn actor() -> Actor {
    Actor::new("system:cli")
}

fn refused(error: &TokenError) -> Failure {
    Failure::new(error.to_string()).hint("nothing has changed")
}

fn wait<F: Future>(future: F) -> Result<F::Output, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(future))
}

fn existing(folder: &Path) -> Result<Tokens, Failure> {
    if !folder.join("store").exists() {
        return Err(Failure::new(format!("there is no data folder {}", folder.display()))
            .hint("give the data folder with --data"));
    }
    open(folder)
}

fn open(folder: &Path) -> Result<Tokens, Failure> {
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default());
    let store = store.map_err(|error| unopened_store(folder, &error))?;
    Tokens::open(store).map_err(|error| unopened(folder, &error))
}
