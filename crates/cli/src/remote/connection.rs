//! Which server is meant, and with which credential: flags go before the environment, that before a
//! context, and this machine is the default.
#![expect(clippy::disallowed_methods, reason = "the environment and the named files are read here")]

use std::env;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use indelible_client::{BuildError, Client, Error, Repeat, Retries};

use super::contexts::{Context, Contexts};
use super::errors::{Explained, ServerRequest, root};
use crate::failure::{Exit, Failure};
use crate::print;

/// The address of a server with default settings.
const URL_DEFAULT: &str = "http://127.0.0.1:7070";

/// Stands for all namespaces.
const EVERYWHERE: &str = "*";

/// Which server, and in which namespace.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Connection {
    #[command(flatten)]
    server: Server,
    /// In which namespace; else INDELIBLE_NAMESPACE, or the context's. `*`, where executions are
    /// looked for, is all that the key may see
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Which server, for commands that concern no namespace.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// Where the server is; else INDELIBLE_URL, the context, or http://127.0.0.1:7070
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A server that `indelible context` remembers; else INDELIBLE_CONTEXT, or the one in use
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    context: Option<String>,
    /// A file with the API key or session token; else INDELIBLE_TOKEN, or the context's
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// What the flags, or the environment, say.
#[derive(Debug, Default)]
struct ConnectionFlags {
    url: Option<String>,
    context: Option<String>,
    namespace: Option<String>,
    token: Option<Token>,
}

/// A token, and where it comes from, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) secret: String,
    pub(super) from: String,
}

/// The server that is meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    pub(super) url: String,
    pub(super) namespace: Option<String>,
    pub(super) token: Option<Token>,
    pub(super) ca: Option<PathBuf>,
    /// The context that it was taken from.
    pub(super) context: Option<String>,
}

/// Combines the sources. A server named by a URL never gets a context's token, which belongs to the
/// context's own server. For a context named by a flag, its own token and namespace go before the
/// environment's, which may be meant for another server; for the context in use, the environment's
/// go first.
fn place(
    flags: ConnectionFlags,
    environment: ConnectionFlags,
    contexts: impl FnOnce() -> Result<Contexts, Failure>,
) -> Result<ServerAddress, Failure> {
    // A flag that names a server goes before the environment, whether by URL or by context.
    let by_flag = flags.context.is_some();
    let (url, name) = match (flags.url, flags.context) {
        (None, None) => (environment.url, environment.context),
        flags => flags,
    };
    if let Some(url) = url {
        let namespace = flags.namespace.or(environment.namespace);
        let token = flags.token.or(environment.token);
        return Ok(ServerAddress { url, namespace, token, ca: None, context: None });
    }
    let contexts = contexts()?;
    let (name, context) = match name {
        Some(name) => match contexts.get(&name) {
            Some(context) => (Some(name), context.clone()),
            None => return Err(contexts.unknown(&name)),
        },
        None => match contexts.current() {
            Some((name, context)) => (Some(name.to_owned()), context.clone()),
            None => (None, Context { url: URL_DEFAULT.to_owned(), ..Context::default() }),
        },
    };
    let from = format!("of the context {}", name.as_deref().unwrap_or_default());
    let token = context.token.map(|secret| Token { secret, from });
    let (namespace, token) = match by_flag {
        true => (context.namespace.or(environment.namespace), token.or(environment.token)),
        false => (environment.namespace.or(context.namespace), environment.token.or(token)),
    };
    Ok(ServerAddress {
        url: context.url,
        namespace: flags.namespace.or(namespace),
        token: flags.token.or(token),
        ca: context.ca,
        context: name,
    })
}

/// A server, ready to be asked.
pub(crate) struct Remote {
    pub(crate) client: Client,
    /// Executions are looked for in all namespaces.
    pub(super) everywhere: bool,
    /// The namespace that was named; `None`: the credential's.
    pub(crate) namespace: Option<String>,
    /// The server's URL and the source of its key, for messages.
    pub(crate) at: ServerRequest,
    runtime: tokio::runtime::Runtime,
}

impl Connection {
    /// Connects, and checks that the server answers: a user should not wait for a server that is
    /// not there.
    pub(crate) fn connect(&self) -> Result<Remote, Failure> {
        let remote = self.connect_to_find()?;
        match remote.everywhere {
            true => Err(Failure::new("this command works in one namespace, not in all of them")
                .hint("name it with --namespace; `indelible ps` takes '*'")
                .exit(Exit::Usage)),
            false => Ok(remote),
        }
    }

    /// The same for a command that looks for executions, which may be in any namespace.
    pub(crate) fn connect_to_find(&self) -> Result<Remote, Failure> {
        self.server.find(Scope::Namespace(self.namespace.as_deref()), Silence::IsTold)
    }

    /// The same for a view that is redrawn: it shows by itself that there is no answer.
    pub(crate) fn connect_to_draw(&self) -> Result<Remote, Failure> {
        self.server.find(Scope::Namespace(self.namespace.as_deref()), Silence::IsDrawn)
    }
}

/// What a command asks about.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// Something in a namespace: this one, if it was given.
    Namespace(Option<&'a str>),
    /// Something of the whole server: the environment's namespace is ignored.
    Server,
}

/// What happens while the server does not answer and is asked again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// A message is printed, once.
    IsTold,
    /// The view that asks shows it.
    IsDrawn,
}

impl Server {
    /// As [`Connection::connect`].
    pub(crate) fn connect(&self) -> Result<Remote, Failure> {
        self.find(Scope::Server, Silence::IsTold)
    }

    fn find(&self, scope: Scope<'_>, silence: Silence) -> Result<Remote, Failure> {
        let remote = self.remote(scope, silence)?;
        remote.run(remote.client.health())?;
        Ok(remote)
    }

    /// The server, whether it answers or not.
    fn remote(&self, scope: Scope<'_>, silence: Silence) -> Result<Remote, Failure> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let file = self.token_file.as_deref();
        let flags = ConnectionFlags {
            url: self.url.clone(),
            context: self.context.clone(),
            namespace: match scope {
                Scope::Namespace(name) => name.map(str::to_owned),
                Scope::Server => None,
            },
            token: file.map(token_in).transpose()?,
        };
        let environment = ConnectionFlags {
            url: variable("INDELIBLE_URL"),
            context: variable("INDELIBLE_CONTEXT"),
            namespace: variable("INDELIBLE_NAMESPACE"),
            token: variable("INDELIBLE_TOKEN")
                .map(|secret| Token { secret, from: "in INDELIBLE_TOKEN".to_owned() }),
        };
        let mut place = place(flags, environment, Contexts::load)?;
        let everywhere = place.namespace.as_deref() == Some(EVERYWHERE);
        if everywhere || matches!(scope, Scope::Server) {
            place.namespace = None;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
        let client = client(&place, silence)?;
        let key_from = place.token.map(|token| token.from);
        let (namespace, at) = (place.namespace, ServerRequest { url: place.url, key_from });
        Ok(Remote { client, everywhere, namespace, at, runtime })
    }
}

/// After so many attempts without an answer, the waiting user is told why.
const ATTEMPTS_UNTOLD: u32 = 3;

/// Says once that there is no answer; the client goes on asking.
fn tell_silence(url: &str, repeat: &Repeat<'_>) {
    if repeat.attempts == ATTEMPTS_UNTOLD {
        let (why, seconds) = (root(repeat.cause), Retries::default().total.as_secs());
        print::tell(&format!("no response from {url}: {why}; retrying for {seconds} seconds"));
    }
}

/// Whether a client can be made for this server.
pub(super) fn check(place: &ServerAddress) -> Result<(), Failure> {
    client(place, Silence::IsDrawn).map(drop)
}

fn client(place: &ServerAddress, silence: Silence) -> Result<Client, Failure> {
    let url = &place.url;
    let unusable = |error: BuildError| {
        let why = match &error {
            // The library's message addresses programmers.
            BuildError::TokenInTheOpen => {
                "a token is not sent over plain http to another machine".to_owned()
            }
            error => error.to_string(),
        };
        let failure = Failure::new(format!("the server {url} cannot be used: {why}"));
        match (error, &place.context) {
            (BuildError::Address(_), Some(context)) => failure.hint(format!(
                "its URL comes from the context {context}: change it with `indelible \
                     context add`"
            )),
            (BuildError::Address(_), None) => failure.hint(
                "give a URL such as http://127.0.0.1:7070 or \
                     https://indelible.example.com",
            ),
            (BuildError::TokenInTheOpen, _) => failure.hint(
                "use https:// for the server; over plain http the network could read the token",
            ),
            (BuildError::Token, _) => failure.hint(
                "an API key begins with ind_: check INDELIBLE_TOKEN, --token-file, or the context",
            ),
            (BuildError::Namespace, _) => failure
                .hint("check --namespace, INDELIBLE_NAMESPACE, or the namespace of the context"),
            (BuildError::Roots(_), _) => {
                failure.hint("give certificates in PEM with --ca of `indelible context add`")
            }
            _ => failure,
        }
    };
    let mut builder = Client::builder(url);
    if silence == Silence::IsTold {
        let url = url.clone();
        builder = builder.on_repeat(move |repeat| tell_silence(&url, repeat));
    }
    if let Some(token) = &place.token {
        builder = builder.token(&token.secret);
    }
    if let Some(namespace) = &place.namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(file) = &place.ca {
        let pem = fs::read(file).map_err(|error| {
            Failure::new(format!("cannot read the certificates {}: {error}", file.display()))
                .hint("set their path with --ca of `indelible context add`")
        })?;
        builder = builder.roots_pem(&pem).map_err(unusable)?;
    }
    builder.build().map_err(unusable)
}

/// The token in a file, without the line end after it.
pub(super) fn token(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("cannot read the token in {}: {error}", file.display()))
            .hint("--token-file needs a file with the API key and nothing else")
    })?;
    Ok(text.trim().to_owned())
}

fn token_in(file: &Path) -> Result<Token, Failure> {
    Ok(Token { secret: token(file)?, from: format!("in {}", file.display()) })
}

impl Remote {
    /// Waits for an answer; an error is explained in words.
    pub(crate) fn run<T, E>(
        &self,
        asked: impl IntoFuture<Output = Result<T, E>>,
    ) -> Result<T, Failure>
    where
        E: Explained,
    {
        self.wait(asked.into_future()).map_err(|error| error.explain(&self.at))
    }

    /// Explains an error in words.
    pub(crate) fn asked<T>(&self, asked: Result<T, Error>) -> Result<T, Failure> {
        asked.map_err(|error| error.explain(&self.at))
    }

    /// Waits for any future.
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts() -> Contexts {
        let text = "current = \"eu\"\n[contexts.eu]\nurl = \"https://eu.example\"\ntoken = \"ind_eu\"\n\
                    namespace = \"shop\"\n[contexts.us]\nurl = \"https://us.example\"\n";
        Contexts::parse(text).unwrap()
    }

    fn said(url: Option<&str>, context: Option<&str>, token: Option<&str>) -> ConnectionFlags {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let token = own(token).map(|secret| Token { secret, from: "said".to_owned() });
        ConnectionFlags { url: own(url), context: own(context), namespace: None, token }
    }

    /// Flags, then the environment, then the context in use, then this machine.
    #[test]
    fn the_nearest_word_counts() {
        let url = |flags, environment, contexts: &Contexts| {
            place(flags, environment, || Ok(contexts.clone())).map(|place| place.url).unwrap()
        };
        let none = || said(None, None, None);
        let known = contexts();
        assert_eq!(url(none(), none(), &Contexts::default()), URL_DEFAULT);
        assert_eq!(url(none(), none(), &known), "https://eu.example");
        assert_eq!(url(none(), said(None, Some("us"), None), &known), "https://us.example");
        assert_eq!(url(none(), said(Some("http://e"), Some("us"), None), &known), "http://e");
        let environment = || said(Some("http://e"), None, None);
        assert_eq!(url(said(None, Some("us"), None), environment(), &known), "https://us.example");
        assert_eq!(url(said(Some("http://f"), None, None), environment(), &known), "http://f");
        assert!(place(said(None, Some("mars"), None), none(), || Ok(known)).is_err());
        // If a server is named by its URL, the file of contexts is not read, so it may be broken.
        let broken = || Err(Failure::new("broken"));
        assert!(place(environment(), none(), broken).is_ok());
        assert!(place(none(), none(), broken).is_err());
    }

    /// A context's token goes to its server only. A named context prefers it to the environment's.
    #[test]
    fn a_token_stays_with_its_server() {
        let none = || said(None, None, None);
        let token = |flags, environment| {
            let place = place(flags, environment, || Ok(contexts())).unwrap();
            place.token.map(|token| token.secret)
        };
        assert_eq!(token(none(), none()).as_deref(), Some("ind_eu"));
        assert_eq!(token(said(Some("http://f"), None, None), none()), None);
        assert_eq!(token(none(), said(Some("http://e"), None, None)), None);
        assert_eq!(token(said(None, Some("us"), None), none()), None);
        assert_eq!(token(none(), said(None, None, Some("ind_me"))).as_deref(), Some("ind_me"));
        let both = token(said(None, None, Some("f")), said(None, None, Some("e")));
        assert_eq!(both.as_deref(), Some("f"));
        let other = said(Some("http://e"), None, Some("ind_e"));
        assert_eq!(token(said(None, Some("eu"), None), other).as_deref(), Some("ind_eu"));
        let eu = |namespace: Option<&str>| {
            let flags = said(None, Some("eu"), None);
            let environment = ConnectionFlags { namespace: Some("tests".to_owned()), ..none() };
            let flags = ConnectionFlags { namespace: namespace.map(str::to_owned), ..flags };
            place(flags, environment, || Ok(contexts())).unwrap().namespace
        };
        assert_eq!(eu(None).as_deref(), Some("shop"));
        assert_eq!(eu(Some("mine")).as_deref(), Some("mine"));
    }
}
