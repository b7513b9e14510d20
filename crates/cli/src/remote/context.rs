//! `indelible context`: remembering servers, and choosing between them.

use std::io::{self, Read as _, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::confirm::{Sure, confirm};
use super::connection::token;
use super::contexts::{Context, Contexts};
use crate::failure::{Failure, Verdict};
use crate::print::{self, tell};

const HELP: &str = "\
Contexts are in ~/.config/indelible/contexts.toml (or under XDG_CONFIG_HOME), which only you can
read. A token is sent to the server of its context, and to no other.

Examples:
  indelible context add prod --url https://indelible.example.com --token-file key.txt
  pass show indelible | indelible context add prod --url https://indelible.example.com --token-stdin
  indelible context use prod";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Remember a server, or change what is remembered of it
    #[command(after_long_help = HELP)]
    Add(Add),
    /// List the servers that are remembered
    List(List),
    /// Make a server the one that is meant when nobody says
    Use(Use),
    /// Forget a server
    Remove(Remove),
}

#[derive(Args)]
pub(crate) struct Add {
    /// What to call it
    name: String,
    /// Where it is
    #[arg(long, value_name = "URL")]
    url: String,
    /// In which namespace, unless a command says
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// A file with the API key or session token, which is copied
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Read the API key or session token from standard input
    #[arg(long, conflicts_with = "token_file")]
    token_stdin: bool,
    /// A file with the certificates to believe, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct List {
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Use {
    /// Which
    name: String,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Which
    name: String,
    #[command(flatten)]
    sure: Sure,
}

/// Without the token.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    has_token: bool,
    current: bool,
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<Verdict, Failure> {
    let mut contexts = Contexts::load()?;
    match command {
        Command::Add(add) => {
            contexts.insert(&add.name, context(&add)?);
            contexts.save()?;
            tell(&format!("{} is {}", add.name, add.url));
            if contexts.current().is_some_and(|(name, _)| name == add.name) {
                tell("it is the one in use");
            } else {
                tell(&format!(
                    "hint: `indelible context use {}` makes it the one in use",
                    add.name
                ));
            }
        }
        Command::List(list) => {
            write(&contexts, list.json, out)?;
        }
        Command::Use(chosen) => {
            contexts.choose(&chosen.name)?;
            contexts.save()?;
            tell(&format!("{} is the one in use", chosen.name));
        }
        Command::Remove(remove) => {
            contexts.remove(&remove.name)?;
            confirm(&remove.sure, || Ok(format!("forget {} and its token?", remove.name)))?;
            contexts.save()?;
            tell(&format!("{} is forgotten", remove.name));
        }
    }
    Ok(Verdict::Well)
}

/// What is to be remembered, if a client could use it.
fn context(add: &Add) -> Result<Context, Failure> {
    if add.name.is_empty() || add.name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Failure::new("a context has a name without spaces")
            .hint("indelible context add prod --url https://indelible.example.com"));
    }
    let token = match (&add.token_file, add.token_stdin) {
        (Some(file), _) => Some(token(file)?),
        (None, true) => {
            let mut text = String::new();
            let read = io::stdin().take(TOKEN_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| Failure::new(format!("cannot read the token: {error}")))?;
            Some(text.trim().to_owned())
        }
        (None, false) => None,
    };
    let mut builder = indelible_client::Client::builder(&add.url);
    if let Some(token) = &token {
        builder = builder.token(token);
    }
    if let Some(namespace) = &add.namespace {
        builder = builder.namespace(namespace);
    }
    builder.build().map_err(|error| {
        Failure::new(format!("that cannot be used: {error}")).hint("nothing was changed")
    })?;
    // A relative path would mean something else in another folder.
    let ca = add.ca.as_deref().map(std::path::absolute).transpose();
    let ca = ca.map_err(|error| Failure::new(format!("--ca: {error}")))?;
    Ok(Context { url: add.url.clone(), namespace: add.namespace.clone(), token, ca })
}

/// The longest token that a server takes is shorter.
const TOKEN_BYTES_MAX: u64 = 16 << 10;

fn write(contexts: &Contexts, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let current = contexts.current().map(|(name, _)| name);
    for (name, context) in contexts.iter() {
        let Context { url, namespace, token, .. } = context;
        let (namespace, has_token) = (namespace.as_deref(), token.is_some());
        let line = Line { name, url, namespace, has_token, current: current == Some(name) };
        if json {
            print::object(line, out)?;
            continue;
        }
        let mark = if line.current { "*" } else { " " };
        let token = if line.has_token { "with a token" } else { "without a token" };
        let namespace = line.namespace.map(|name| format!(", namespace {name}"));
        let namespace = namespace.unwrap_or_default();
        print::text(&format!("{mark} {name}  {}  {token}{namespace}\n", line.url), out)?;
    }
    Ok(())
}
