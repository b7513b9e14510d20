//! Which server is meant, and who asks: flags, then the environment, then a context, then this
//! machine.
#![expect(clippy::disallowed_methods, reason = "the environment and the named files are read here")]

use std::env;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use indelible_client::{BuildError, Client, Error, Repeat, Retries};

use super::contexts::{Context, Contexts};
use super::errors::{Asked, Explained, root};
use crate::failure::Failure;
use crate::print;

/// Where a server listens unless somebody says otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:7070";

/// Which server, and in which namespace.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Connection {
    #[command(flatten)]
    server: Server,
    /// In which namespace; else INDELIBLE_NAMESPACE, or the context's
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Which server: for what belongs to no namespace.
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

/// What the flags and the environment say.
#[derive(Debug, Default)]
struct Said {
    url: Option<String>,
    context: Option<String>,
    namespace: Option<String>,
    token: Option<Token>,
}

/// A token, and in words where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) secret: String,
    pub(super) from: String,
}

/// What is meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) url: String,
    pub(super) namespace: Option<String>,
    pub(super) token: Option<Token>,
    pub(super) ca: Option<PathBuf>,
    /// The context that it comes from.
    pub(super) context: Option<String>,
}

/// Flags come before the environment, the environment before contexts. A url stands for itself: the
/// token of a context is for that context's server alone, and goes to no other. And who names a
/// context by a flag means all of it: what the environment says is for another server.
fn place(
    flags: Said,
    environment: Said,
    contexts: impl FnOnce() -> Result<Contexts, Failure>,
) -> Result<Place, Failure> {
    // Of the two ways to name a server, a flag beats the environment whichever it is.
    let by_flag = flags.context.is_some();
    let (url, name) = match (flags.url, flags.context) {
        (None, None) => (environment.url, environment.context),
        flags => flags,
    };
    if let Some(url) = url {
        let namespace = flags.namespace.or(environment.namespace);
        let token = flags.token.or(environment.token);
        return Ok(Place { url, namespace, token, ca: None, context: None });
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
    Ok(Place {
        url: context.url,
        namespace: flags.namespace.or(namespace),
        token: flags.token.or(token),
        ca: context.ca,
        context: name,
    })
}

/// A server that can be asked.
pub(crate) struct Remote {
    /// Asks it.
    pub(crate) client: Client,
    /// Where it is, and what it is asked with.
    pub(crate) at: Asked,
    runtime: tokio::runtime::Runtime,
}

impl Connection {
    /// Finds the server, and that it answers: whoever waits for a server that is not there should
    /// know at once.
    pub(crate) fn connect(&self) -> Result<Remote, Failure> {
        self.server.find(Scope::Namespace(self.namespace.as_deref()), Silence::IsTold)
    }

    /// The same, for what is drawn in place: who draws says by itself that there is no answer.
    pub(crate) fn connect_to_draw(&self) -> Result<Remote, Failure> {
        self.server.find(Scope::Namespace(self.namespace.as_deref()), Silence::IsDrawn)
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// Something of a namespace: this one, if it was said.
    Namespace(Option<&'a str>),
    /// Something of the server's, whatever the environment says of namespaces.
    Server,
}

/// What becomes of a server's silence, while it is asked again and again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// It is told, once.
    IsTold,
    /// It is drawn by whoever asks.
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
        let flags = Said {
            url: self.url.clone(),
            context: self.context.clone(),
            namespace: match scope {
                Scope::Namespace(name) => name.map(str::to_owned),
                Scope::Server => None,
            },
            token: file.map(token_in).transpose()?,
        };
        let environment = Said {
            url: variable("INDELIBLE_URL"),
            context: variable("INDELIBLE_CONTEXT"),
            namespace: variable("INDELIBLE_NAMESPACE"),
            token: variable("INDELIBLE_TOKEN")
                .map(|secret| Token { secret, from: "in INDELIBLE_TOKEN".to_owned() }),
        };
        let mut place = place(flags, environment, Contexts::load)?;
        if let Scope::Server = scope {
            place.namespace = None;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
        let client = client(&place, silence)?;
        let key_from = place.token.map(|token| token.from);
        Ok(Remote { client, at: Asked { url: place.url, key_from }, runtime })
    }
}

/// So many attempts without an answer are no blip: who waits wants to know what for.
const ATTEMPTS_UNTOLD: u32 = 3;

/// Says once that there is no answer; asking goes on.
fn tell_silence(url: &str, repeat: &Repeat<'_>) {
    if repeat.attempts == ATTEMPTS_UNTOLD {
        let (why, seconds) = (root(repeat.cause), Retries::default().total.as_secs());
        print::tell(&format!("no answer from {url}: {why}; asking again for {seconds} seconds"));
    }
}

/// Whether a client could be made of it.
pub(super) fn check(place: &Place) -> Result<(), Failure> {
    client(place, Silence::IsDrawn).map(drop)
}

fn client(place: &Place, silence: Silence) -> Result<Client, Failure> {
    let url = &place.url;
    let unusable = |error: BuildError| {
        let why = match &error {
            // In its own words it speaks to who writes programs.
            BuildError::TokenInTheOpen => {
                "a token is not sent over plain http to a host that is not this machine".to_owned()
            }
            error => error.to_string(),
        };
        let failure = Failure::new(format!("the server {url} cannot be used: {why}"));
        match (error, &place.context) {
            (BuildError::Address(_), Some(context)) => failure
                .hint(format!("it is the context {context}: `indelible context add` changes it")),
            (BuildError::Address(_), None) => {
                failure.hint("it looks like http://127.0.0.1:7070 or https://indelible.example.com")
            }
            (BuildError::TokenInTheOpen, _) => failure.hint(
                "name the server with https://; over plain http anybody on the way could read the \
                 token",
            ),
            (BuildError::Token, _) => failure.hint(
                "an API key begins with ind_: look at INDELIBLE_TOKEN, --token-file, or the context",
            ),
            (BuildError::Namespace, _) => failure
                .hint("look at --namespace, INDELIBLE_NAMESPACE, or that of the context"),
            (BuildError::Roots(_), _) => {
                failure.hint("--ca of `indelible context add` takes certificates as PEM")
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
                .hint("--ca of `indelible context add` says where they are")
        })?;
        builder = builder.roots_pem(&pem).map_err(unusable)?;
    }
    builder.build().map_err(unusable)
}

/// The token in a file; a line end behind it does not belong to it.
pub(super) fn token(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("cannot read the token in {}: {error}", file.display()))
            .hint("--token-file names a file with the API key and nothing else")
    })?;
    Ok(text.trim().to_owned())
}

fn token_in(file: &Path) -> Result<Token, Failure> {
    Ok(Token { secret: token(file)?, from: format!("in {}", file.display()) })
}

impl Remote {
    /// Waits for an answer, and says in words why there is none.
    pub(crate) fn run<T, E>(
        &self,
        asked: impl IntoFuture<Output = Result<T, E>>,
    ) -> Result<T, Failure>
    where
        E: Explained,
    {
        self.wait(asked.into_future()).map_err(|error| error.explain(&self.at))
    }

    /// What can be asked, or in words why not.
    pub(crate) fn asked<T>(&self, asked: Result<T, Error>) -> Result<T, Failure> {
        asked.map_err(|error| error.explain(&self.at))
    }

    /// Waits for anything.
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

    fn said(url: Option<&str>, context: Option<&str>, token: Option<&str>) -> Said {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let token = own(token).map(|secret| Token { secret, from: "said".to_owned() });
        Said { url: own(url), context: own(context), namespace: None, token }
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
        // Whoever names a server needs no file that remembers others, and none that is broken.
        let broken = || Err(Failure::new("broken"));
        assert!(place(environment(), none(), broken).is_ok());
        assert!(place(none(), none(), broken).is_err());
    }

    /// The token of a context is told to nobody else, and nobody else's to a context that is named.
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
            let environment = Said { namespace: Some("tests".to_owned()), ..none() };
            let flags = Said { namespace: namespace.map(str::to_owned), ..flags };
            place(flags, environment, || Ok(contexts())).unwrap().namespace
        };
        assert_eq!(eu(None).as_deref(), Some("shop"));
        assert_eq!(eu(Some("mine")).as_deref(), Some("mine"));
    }
}
