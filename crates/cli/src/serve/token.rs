//! `indelible token`: API keys, in a data folder that no process has open. The first one is made
//! like this; a running server makes them over HTTP.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use indelible_api::access::{NewToken, Role};
use indelible_runtime::Actor;
use indelible_runtime::world::{Clock as _, System};
use indelible_server::auth::{TokenError, Tokens};
use indelible_store::embedded;
use indelible_store::rows::TABLES;

use super::unopened;
use crate::failure::{Failure, Verdict, quiet};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make an API key, and print its secret, this once
    Create(Create),
    /// List API keys, without their secrets
    List(List),
    /// Revoke an API key
    Revoke(Revoke),
}

#[derive(Args)]
pub(crate) struct Create {
    /// What it is for; the actor is client:NAME
    name: String,
    /// What it may do: call, operate, deploy, admin
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
    roles: Vec<Role>,
    /// In which namespaces; * is all of them
    #[arg(long = "namespace", value_name = "NAME", default_value = "*")]
    namespaces: Vec<String>,
    /// When it ends, as 2027-01-01T00:00:00Z; never, if not given
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct Revoke {
    /// Its id: `indelible token list` shows it
    id: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Place {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "indelible-data")]
    data: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn role(text: &str) -> Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| "one of call, operate, deploy, admin".to_owned())
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<Verdict, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    // Whoever can write the folder can make keys: there is no credential to derive an actor from.
    let actor = Actor::new("system:cli");
    let refused = |error: TokenError| Failure::new(error.to_string());
    let text = match command {
        Command::Create(create) => {
            let tokens = tokens(&create.place.data, true)?;
            let new = NewToken {
                name: create.name,
                roles: create.roles,
                namespaces: create.namespaces,
                expires_at: create.expires_at,
            };
            let made = runtime.block_on(tokens.create(&new, System.now(), &actor));
            let made = made.map_err(refused)?;
            if create.place.json { json(&made) } else { format!("{}\n", made.secret) }
        }
        Command::List(list) => {
            let all = runtime.block_on(tokens(&list.place.data, false)?.list()).map_err(refused)?;
            let line = |token: &indelible_api::access::Token| {
                let roles: Vec<_> = token.roles.iter().map(|role| role.as_str()).collect();
                let ended = match (&token.revoked_at, &token.expires_at) {
                    (Some(at), _) => format!("revoked {at}"),
                    (None, Some(at)) => format!("until {at}"),
                    (None, None) => "for ever".to_owned(),
                };
                let (id, name) = (&token.id, &token.name);
                let (roles, namespaces) = (roles.join(","), token.namespaces.join(","));
                format!("{id}  {name}  {roles}  {namespaces}  {ended}\n")
            };
            if list.place.json { json(&all) } else { all.iter().map(line).collect() }
        }
        Command::Revoke(revoke) => {
            let none =
                || Failure::new("there is no such API key").hint("indelible token list shows them");
            let id = revoke.id.parse().map_err(|_| none())?;
            let tokens = tokens(&revoke.place.data, false)?;
            let token = runtime.block_on(tokens.revoke(id, System.now(), &actor));
            let token = token.map_err(refused)?.ok_or_else(none)?;
            if revoke.place.json { json(&token) } else { format!("revoked {}\n", token.id) }
        }
    };
    quiet(out.write_all(text.as_bytes())).map_err(|error| Failure::output(&error))?;
    Ok(Verdict::Well)
}

fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("wire types are JSON");
    format!("{text}\n")
}

/// The keys in a data folder; whether it may be made.
fn tokens(folder: &Path, make: bool) -> Result<Tokens, Failure> {
    let store = folder.join("store");
    if !make && !store.exists() {
        return Err(Failure::new(format!("there is no data folder {}", folder.display()))
            .hint("--data names it"));
    }
    let store = embedded::open(&store, &TABLES, &embedded::Options::default());
    let store = store.map_err(|error| unopened(folder, &error))?;
    Tokens::open(store).map_err(|error| unopened(folder, &error))
}
