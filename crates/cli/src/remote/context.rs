//! `indelible context`: remembering servers, and choosing between them.

use std::io::{self, Read as _, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::confirm::{Confirmation, confirm};
use super::connection::{self, ServerAddress, Token, token};
use super::contexts::{Context, Contexts};
use crate::failure::{Exit, Failure};
use crate::print::{self, tell};

const HELP: &str = "\
Contexts are kept in ~/.config/indelible/contexts.toml (or under XDG_CONFIG_HOME), which only you
can read. A token is sent to the server of its context and to no other.

Adding a context that exists changes what you give and keeps the rest. But if the URL changes, the
token is removed, because it was for the old server.

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
    /// Choose the server that commands speak to by default
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
    /// Print a JSON object
    #[arg(long)]
    json: bool,
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
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// Which
    name: String,
    #[command(flatten)]
    sure: Confirmation,
    /// Print a JSON object: what was remembered
    #[arg(long)]
    json: bool,
}

/// A context as it is listed, without its token.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    has_token: bool,
    current: bool,
}

pub(crate) fn run(command: Command, out: &mut impl Write) -> Result<(), Failure> {
    match command {
        Command::Add(add) => add.run(out),
        Command::List(list) => list.run(out),
        Command::Use(chosen) => chosen.run(out),
        Command::Remove(remove) => remove.run(out),
    }
}

impl Add {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let name = &self.name;
        if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Failure::new("the name of a context must not be empty or have spaces")
                .hint("indelible context add prod --url https://indelible.example.com")
                .exit(Exit::Usage));
        }
        let mut contexts = Contexts::load()?;
        let known = contexts.get(name).cloned().unwrap_or_default();
        let context = kept(self.given()?, &known);
        // A context is saved only if a client can be made for it.
        connection::check(&ServerAddress {
            url: context.url.clone(),
            namespace: context.namespace.clone(),
            token: context.token.clone().map(|secret| Token { secret, from: String::new() }),
            ca: context.ca.clone(),
            context: None,
        })?;
        let token_is_forgotten = known.token.is_some() && context.token.is_none();
        contexts.insert(name, context);
        contexts.save()?;
        if token_is_forgotten {
            tell(&format!("its token was removed: it was for {}", known.url));
        }
        let line = listed(&contexts, name)?;
        let then = match line.current {
            true => "it is the current context".to_owned(),
            false => format!(
                "hint: make it the current context with `indelible context use \
                 {name}`"
            ),
        };
        print::done(line, &format!("{name} is {}\n{then}", self.url), self.json, out)
    }

    /// The context that the arguments describe.
    fn given(&self) -> Result<Context, Failure> {
        let token = match (&self.token_file, self.token_stdin) {
            (Some(file), _) => Some(token(file)?),
            (None, true) => {
                let mut text = String::new();
                let read = io::stdin().take(TOKEN_BYTES_MAX).read_to_string(&mut text);
                read.map_err(|error| {
                    Failure::new(format!("cannot read the token: {error}"))
                        .hint("--token-stdin reads the API key and nothing else")
                })?;
                Some(text.trim().to_owned())
            }
            (None, false) => None,
        };
        // A relative path would mean another file in another folder.
        let ca = self.ca.as_deref().map(std::path::absolute).transpose();
        let ca = ca.map_err(|error| {
            Failure::new(format!("--ca: {error}")).hint("give a file with certificates in PEM")
        })?;
        Ok(Context { url: self.url.clone(), namespace: self.namespace.clone(), token, ca })
    }
}

/// The given context, completed from the known one. A token belongs to its server: at another URL
/// it is dropped.
fn kept(given: Context, known: &Context) -> Context {
    let known_token = known.token.clone().filter(|_| given.url == known.url);
    Context {
        url: given.url,
        namespace: given.namespace.or_else(|| known.namespace.clone()),
        token: given.token.or(known_token),
        ca: given.ca.or_else(|| known.ca.clone()),
    }
}

/// Longer than any token that a server accepts.
const TOKEN_BYTES_MAX: u64 = 16 << 10;

impl List {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let contexts = Contexts::load()?;
        for (name, context) in contexts.iter() {
            let line = line(&contexts, name, context);
            if self.json {
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
}

impl Use {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut contexts = Contexts::load()?;
        contexts.choose(&self.name)?;
        contexts.save()?;
        let words = format!("{} is now the current context", self.name);
        print::done(listed(&contexts, &self.name)?, &words, self.json, out)
    }
}

impl Remove {
    fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let known = Contexts::load()?;
        let mut contexts = known.clone();
        contexts.remove(&self.name)?;
        confirm(&self.sure, || Ok(format!("remove the context {} and its token?", self.name)))?;
        contexts.save()?;
        let words = format!("the context {} was removed", self.name);
        print::done(listed(&known, &self.name)?, &words, self.json, out)
    }
}

fn line<'a>(contexts: &Contexts, name: &'a str, context: &'a Context) -> Line<'a> {
    let Context { url, namespace, token, .. } = context;
    let current = contexts.current().is_some_and(|(current, _)| current == name);
    let (namespace, has_token) = (namespace.as_deref(), token.is_some());
    Line { name, url, namespace, has_token, current }
}

/// A known context, as it is listed.
fn listed<'a>(contexts: &'a Contexts, name: &'a str) -> Result<Line<'a>, Failure> {
    let context = contexts.get(name).ok_or_else(|| contexts.unknown(name))?;
    Ok(line(contexts, name, context))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(url: &str, token: Option<&str>, namespace: Option<&str>) -> Context {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let ca = namespace.map(PathBuf::from);
        Context { url: url.to_owned(), token: own(token), namespace: own(namespace), ca }
    }

    /// Values that are not given again are kept; a token stays with its server.
    #[test]
    fn what_is_not_given_again() {
        let known = context("https://a", Some("ind_a"), Some("eu"));
        let same = context("https://a", None, None);
        assert_eq!(kept(same, &known), known);
        let other = context("https://b", None, None);
        assert_eq!(kept(other, &known), context("https://b", None, Some("eu")));
        let all = context("https://b", Some("ind_b"), Some("us"));
        assert_eq!(kept(all.clone(), &known), all);
        assert_eq!(kept(all.clone(), &Context::default()), all);
    }
}
