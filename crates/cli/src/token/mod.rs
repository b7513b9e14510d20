//! `indelible token`: API keys, of a server or in a data folder that no process has open. The first
//! key is made in the folder, because a server that demands keys takes no request without one.
//!
//! - `server`: asks a server. `folder`: opens the folder.

mod folder;
mod server;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use indelible_api::access::{CreatedToken, NewToken, Role, Token};

use crate::failure::Failure;
use crate::print::{self, plain};
use crate::remote::{Confirmation, Server, confirm};

const HELP: &str = "\
Prints only the secret to standard output. It is not stored: if you lose it, create another key.
A running server creates keys for an admin. Create the first key in the data folder, with --data,
before you start the server.

Examples:
  indelible token create ops --role admin --data indelible-data > ops.key
  indelible token create shop --role call --namespace eu --expires-at 2027-01-01T00:00:00Z
  indelible token create shop --role call | ssh shop 'cat > shop.key'";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create an API key and print its secret, which is shown only once
    #[command(after_long_help = HELP)]
    Create(Create),
    /// List API keys, without their secrets
    List(List),
    /// Revoke an API key
    Revoke(Revoke),
}

#[derive(Args)]
pub(crate) struct Create {
    /// The key's name; its requests have the actor client:NAME
    name: String,
    /// What it may do: call, operate, read, write, send, decide, deploy, admin
    #[arg(long = "role", value_name = "ROLE", required = true, value_parser = role)]
    roles: Vec<Role>,
    /// The namespaces that it may use; * stands for all
    #[arg(long = "namespace", value_name = "NAME", default_value = "*")]
    namespaces: Vec<String>,
    /// When it expires, such as 2027-01-01T00:00:00Z; by default never
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    #[command(flatten)]
    place: TokenTarget,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: TokenTarget,
}

#[derive(Args)]
pub(crate) struct Revoke {
    /// Its id: `indelible token list` shows it
    id: String,
    #[command(flatten)]
    sure: Confirmation,
    #[command(flatten)]
    place: TokenTarget,
}

/// A server, or a data folder.
#[derive(Args)]
struct TokenTarget {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A data folder that no server has open, instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "context", "token_file"])]
    data: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

fn role(text: &str) -> Result<Role, String> {
    let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| {
        let words = Role::ALL.map(Role::as_str);
        format!("use one of {}", words.join(", "))
    })
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Create(create) => {
            let Create { name, roles, namespaces, expires_at, place } = create;
            let new = NewToken { name, roles, namespaces, expires_at };
            let made = match &place.data {
                Some(folder) => folder::create(folder, &new)?,
                None => server::create(&place.server, &new)?,
            };
            created(&made, place.json, out)
        }
        Command::List(List { place }) => {
            let all = match &place.data {
                Some(folder) => folder::list(folder)?,
                None => server::list(&place.server)?,
            };
            all.iter().try_for_each(|token| match place.json {
                true => print::object(token, out),
                false => print::text(&format!("{}\n", line(token)), out),
            })
        }
        Command::Revoke(Revoke { id, sure, place }) => {
            let asked = || format!("revoke the API key {id}? Its users lose access at once");
            let sure = || confirm(&sure, || Ok(asked()));
            let token = match &place.data {
                Some(folder) => folder::revoke(folder, &id, sure)?,
                None => server::revoke(&place.server, &id, sure)?,
            };
            let words = format!("revoked {} ({})", token.id, token.name);
            print::done(&token, &words, place.json, out)
        }
    }
}

/// With `--json` everything; otherwise the secret on stdout, and what it is on stderr.
fn created(made: &CreatedToken, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    if json {
        return print::object(made, out);
    }
    print::text(&format!("{}\n", made.secret), out)?;
    print::tell(&line(&made.token));
    print::tell(
        "this key is shown only once; use it as INDELIBLE_TOKEN, with --token-file, or with\n  \
         indelible context add NAME --url URL --token-stdin",
    );
    Ok(())
}

fn line(token: &Token) -> String {
    let roles: Vec<_> = token.roles.iter().map(|role| role.as_str()).collect();
    let ended = match (&token.revoked_at, &token.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) => format!("until {at}"),
        (None, None) => "for ever".to_owned(),
    };
    let (id, name) = (&token.id, &token.name);
    let (roles, namespaces) = (roles.join(","), token.namespaces.join(","));
    plain(&format!("{id}  {name}  {roles}  {namespaces}  {ended}"))
}

/// There is none of this id.
fn unknown() -> Failure {
    Failure::new("no such API key").hint("`indelible token list` shows them")
}
