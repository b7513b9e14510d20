//! What a server refuses, or does not answer, in words for people: what is wrong, and what to do.

use std::error::Error as StdError;

use indelible_client::api::{Code, Problem};
use indelible_client::{CallError, Cause, Error, Identity, Lost, Malformed, StartError};

use crate::failure::{Exit, Failure};

/// An error that people can do something about.
pub(crate) trait Explained {
    /// In words; `url` is the server that was asked.
    fn explain(self, url: &str) -> Failure;
}

impl Explained for Failure {
    fn explain(self, _: &str) -> Failure {
        self
    }
}

impl Explained for Error {
    fn explain(self, url: &str) -> Failure {
        match self {
            Self::Mismatch(problem) | Self::Expired(problem) | Self::Refused(problem) => {
                refused(&problem)
            }
            Self::Transport(lost) => {
                let failure = unanswered(&lost, url);
                // Commands mint their keys, which nobody can give again. What only reads has none.
                match (&lost.identity, &lost.source) {
                    (Some(_), Cause::Broken(_) | Cause::TimedOut(_)) => {
                        failure.hint("it may have arrived: look before you ask again")
                    }
                    _ => failure,
                }
            }
            Self::Malformed(malformed) => misunderstood(&malformed, url),
            Self::Invalid(invalid) => Failure::new(invalid.to_string()),
            error => unknown(&error),
        }
    }
}

impl Explained for StartError {
    fn explain(self, url: &str) -> Failure {
        match self {
            Self::Indeterminate(problem) => refused(&problem).exit(Exit::Indeterminate),
            Self::InFlight(in_flight) => refused(&in_flight.problem).exit(Exit::GoesOn),
            Self::Conflict(problem)
            | Self::Mismatch(problem)
            | Self::Expired(problem)
            | Self::Refused(problem) => refused(&problem),
            Self::Transport(lost) => unanswered(&lost, url),
            Self::Malformed(malformed) => misunderstood(&malformed, url),
            Self::Invalid(invalid) => Failure::new(invalid.to_string()),
            error => unknown(&error),
        }
    }
}

impl<Out> Explained for CallError<Out> {
    fn explain(self, url: &str) -> Failure {
        match self {
            Self::Function(error) => {
                let failure = Failure::new(format!("it failed: {}: {}", error.kind, error.message));
                let failure = match &error.execution_id {
                    Some(id) => failure
                        .hint(format!("`indelible show {}` says how it came to that", short(id))),
                    None => failure,
                };
                failure.exit(Exit::Function)
            }
            Self::Cancelled(problem) => {
                Failure::new(format!("it was cancelled: {}", problem.detail)).exit(Exit::Function)
            }
            Self::Indeterminate(problem) => {
                let failure =
                    Failure::new(format!("nobody knows whether it happened: {}", problem.detail));
                failure
                    .hint("look at the other side; the same again does nothing, and says the same")
                    .exit(Exit::Indeterminate)
            }
            Self::StillRunning(handle) => {
                let id = short(handle.execution_id());
                Failure::new(format!("the wait is over, and execution {id} goes on"))
                    .hint(format!("`indelible show {id}` says what it waits for"))
                    .exit(Exit::GoesOn)
            }
            Self::Output(what) => Failure::new(format!("what it returned cannot be shown: {what}")),
            Self::InFlight(in_flight) => refused(&in_flight.problem).exit(Exit::GoesOn),
            Self::Conflict(problem)
            | Self::Mismatch(problem)
            | Self::Expired(problem)
            | Self::Refused(problem) => refused(&problem),
            Self::Transport(lost) => unanswered(&lost, url),
            Self::Malformed(malformed) => misunderstood(&malformed, url),
            Self::Invalid(invalid) => Failure::new(invalid.to_string()),
            error => unknown(&error),
        }
    }
}

/// As many digits of an id as people need; the path of a child stays whole.
pub(crate) fn short(id: &str) -> String {
    const DIGITS: usize = 8;
    let (root, path) = id.split_at(id.find('.').unwrap_or(id.len()));
    let root = root.get(..DIGITS).unwrap_or(root);
    format!("{root}{path}")
}

fn refused(problem: &Problem) -> Failure {
    let code = problem.code;
    let hint = match code {
        Code::Unauthenticated => {
            "the server wants an API key that it knows and that has not ended: \
                                  INDELIBLE_TOKEN, --token-file or `indelible context add` give it"
                .to_owned()
        }
        Code::NoSuchComponent => "`indelible components` lists what is deployed".to_owned(),
        Code::NoSuchFunction => "`indelible functions` lists what can be called".to_owned(),
        Code::NotFound => {
            "`indelible ps` lists executions; --namespace names another namespace".to_owned()
        }
        Code::InvalidComponent => {
            "`indelible build` compiles a project with the SDK that this version knows".to_owned()
        }
        Code::Forbidden => {
            "an admin makes a key that may: `indelible token create NAME --role ROLE`".to_owned()
        }
        Code::Mismatch | Code::Conflict => {
            format!("whatever is new takes a name of its own; `indelible explain {code}` says more")
        }
        Code::WrongState => "`indelible show EXECUTION` says how it stands".to_owned(),
        code => format!("`indelible explain {code}` says more"),
    };
    Failure::new(format!("{} ({code})", problem.detail)).hint(hint)
}

fn unanswered(lost: &Lost, url: &str) -> Failure {
    let why = chain(&lost.source);
    let failure = match &lost.source {
        Cause::Connect(_) => {
            Failure::new(format!("no server answers at {url}: {}", root(&lost.source)))
                .hint("`indelible serve` starts one; --url or --context name another")
        }
        Cause::Unavailable { problem: Some(problem), .. } | Cause::Refused(problem) => {
            refused(problem)
        }
        Cause::Broken(cause) if is_no_http(&**cause) => {
            return Failure::new(format!(
                "{url} does not answer as an Indelible server does: {why}"
            ))
            .hint("look at the address, and at what stands between")
            .exit(Exit::NoAnswer);
        }
        _ => Failure::new(format!("no answer from {url}: {why}"))
            .hint("look at the address, and whether the server is well"),
    };
    // Whether it arrived is not known: under the same name it takes effect once all the same.
    let failure = match &lost.identity {
        Some(Identity::Key(key)) if !matches!(lost.source, Cause::Connect(_)) => failure
            .hint(format!("it may have arrived; asked again with --key '{key}', it is done once")),
        Some(Identity::Operation(id)) if !matches!(lost.source, Cause::Connect(_)) => failure
            .hint(format!("it may have arrived; asked again with --id {id}, it is done once")),
        _ => failure,
    };
    failure.exit(Exit::NoAnswer)
}

/// Whether something answered that does not speak HTTP.
fn is_no_http(error: &(dyn StdError + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(cause) = error {
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
            return true;
        }
        error = cause.source();
    }
    false
}

fn misunderstood(malformed: &Malformed, url: &str) -> Failure {
    Failure::new(format!("{url} does not answer as an Indelible server does: {malformed}"))
        .hint("look at the address, and at what stands between")
        .exit(Exit::NoAnswer)
}

fn unknown(error: &dyn StdError) -> Failure {
    Failure::new(chain(error))
}

/// What it all comes from: of a connection that was refused, nobody needs to know by whom that was
/// told to whom.
fn root(error: &dyn StdError) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// An error and its causes.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(identity: Option<Identity>, source: Cause) -> Lost {
        Lost { attempts: 3, identity, source }
    }

    /// Of what may have arrived, the name is told under which it can be asked again, and done once.
    #[test]
    fn no_answer_names_the_call() {
        let explain = |identity: Identity| {
            let lost = lost(Some(identity), Cause::TimedOut(std::time::Duration::from_secs(1)));
            CallError::<()>::Transport(lost).explain("http://x")
        };
        let failure = explain(Identity::Key("o-1".to_owned()));
        assert_eq!(
            failure.to_string(),
            "error: no answer from http://x: no answer within 1s\n\
             hint: it may have arrived; asked again with --key 'o-1', it is done once\n"
        );
        assert_eq!(failure.code(), 5);
        let id = "01234567-89ab-7fff-bfff-ffffffffffff";
        let failure = explain(Identity::Operation(id.parse().unwrap())).to_string();
        assert!(failure.contains(&format!("asked again with --id {id}")), "{failure}");
    }

    /// What did not arrive is no riddle; a command that may have is, and has no name to give again.
    #[test]
    fn no_answer_to_a_command() {
        let refused = || Box::new(std::io::Error::other("refused"));
        let key = || Some(Identity::Key("minted".to_owned()));
        let explain = |identity, source| {
            Error::Transport(lost(identity, source)).explain("http://x").to_string()
        };
        let away = explain(key(), Cause::Connect(refused()));
        assert!(away.contains("no server answers at http://x") && away.contains("indelible serve"));
        let broken = explain(key(), Cause::Broken(refused()));
        assert!(broken.contains("look before you ask again") && !broken.contains("minted"));
        let read = explain(None, Cause::Broken(refused()));
        assert!(!read.contains("may have arrived"), "{read}");
    }

    #[test]
    fn ids_are_shortened_for_people() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(short(&id), "01234567");
        assert_eq!(short(&format!("{id}.0.12")), "01234567.0.12");
        assert_eq!(short("abc"), "abc");
    }
}
