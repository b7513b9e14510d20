//! What a server refuses, or does not answer, in words for people: what is wrong, and what to do.

use std::error::Error as StdError;
use std::fmt;

use indelible_client::api::{Code, Problem};
use indelible_client::{CallError, Cause, Error, Identity, Lost, Malformed, StartError};

use super::name::flag;
use crate::failure::{Exit, Failure};

/// Which server was asked, and with what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) url: String,
    /// Where the API key is from, in words; none if there is no key.
    pub(crate) key_from: Option<String>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// An error that people can do something about.
pub(crate) trait Explained {
    /// In words.
    fn explain(self, asked: &Asked) -> Failure;
}

impl Explained for Failure {
    fn explain(self, _: &Asked) -> Failure {
        self
    }
}

impl Explained for Error {
    fn explain(self, asked: &Asked) -> Failure {
        // Commands mint their keys, which nobody can give again. What only reads has none.
        let riddle = self.may_have_arrived();
        let failure = match self {
            Self::Mismatch(problem) | Self::Expired(problem) | Self::Refused(problem) => {
                refused(&problem, asked)
            }
            Self::Transport(lost) => unanswered(&lost, asked),
            Self::Malformed(malformed) => misunderstood(&malformed, asked),
            Self::Invalid(invalid) => unsent(&invalid),
            error => unknown(&error),
        };
        if riddle {
            failure.hint("it may have arrived: look before you ask again")
        } else {
            failure
        }
    }
}

/// Of what changes something: whether that may have happened, although there is no answer.
pub(crate) trait MayHaveArrived {
    fn may_have_arrived(&self) -> bool;
}

impl MayHaveArrived for Error {
    fn may_have_arrived(&self) -> bool {
        match self {
            Self::Transport(lost) => lost.identity.is_some() && lost.may_have_arrived,
            Self::Malformed(malformed) => malformed.identity.is_some(),
            _ => false,
        }
    }
}

impl Explained for StartError {
    fn explain(self, asked: &Asked) -> Failure {
        CallError::<()>::from(self).explain(asked)
    }
}

impl<Out> Explained for CallError<Out> {
    fn explain(self, asked: &Asked) -> Failure {
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
                let failure = Failure::new(format!("it was cancelled: {}", problem.detail));
                let failure = match &problem.execution_id {
                    Some(id) => {
                        failure.hint(format!("`indelible show {}` says how far it came", short(id)))
                    }
                    None => failure,
                };
                failure.exit(Exit::Function)
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
            Self::Output(what) => Failure::new(format!("what it returned cannot be shown: {what}"))
                .hint("--json prints it as it came"),
            Self::InFlight(in_flight) => refused(&in_flight.problem, asked).exit(Exit::GoesOn),
            Self::Conflict(problem)
            | Self::Mismatch(problem)
            | Self::Expired(problem)
            | Self::Refused(problem) => refused(&problem, asked),
            Self::Transport(lost) => {
                let riddle = lost.identity.as_ref().filter(|_| lost.may_have_arrived);
                once(unanswered(&lost, asked), riddle)
            }
            Self::Malformed(malformed) => {
                once(misunderstood(&malformed, asked), malformed.identity.as_ref())
            }
            Self::Invalid(invalid) => unsent(&invalid),
            error => unknown(&error),
        }
    }
}

/// Whether it arrived is not known: under the same name it takes effect once all the same.
fn once(failure: Failure, riddle: Option<&Identity>) -> Failure {
    match riddle {
        Some(identity) => failure.hint(format!(
            "it may have arrived; asked again with {}, it is done once",
            flag(identity)
        )),
        None => failure,
    }
}

/// As many digits of an id as people need; the path of a child stays whole.
pub(crate) fn short(id: &str) -> String {
    const DIGITS: usize = 8;
    let (root, path) = id.split_at(id.find('.').unwrap_or(id.len()));
    let root = root.get(..DIGITS).unwrap_or(root);
    format!("{root}{path}")
}

fn refused(problem: &Problem, asked: &Asked) -> Failure {
    let code = problem.code;
    let hint = match code {
        Code::Unauthenticated => match &asked.key_from {
            Some(from) => format!(
                "the key {from} is unknown there, has ended or was revoked; an admin makes one with \
                 `indelible token create`"
            ),
            None => "the server wants an API key: INDELIBLE_TOKEN, --token-file or `indelible \
                     context add` give it"
                .to_owned(),
        },
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
        Code::Damaged => "the server's log says what is damaged; stop it, keep a copy of its data \
                          folder, and restore a backup: `indelible explain damaged`"
            .to_owned(),
        Code::WrongState => "`indelible show EXECUTION` says how it stands".to_owned(),
        code => format!("`indelible explain {code}` says more"),
    };
    Failure::new(format!("{} ({code})", problem.detail)).hint(hint)
}

fn unanswered(lost: &Lost, asked: &Asked) -> Failure {
    let why = chain(&lost.source);
    let failure = match &lost.source {
        Cause::Connect(_) => {
            Failure::new(format!("no server answers at {asked}: {}", root(&lost.source)))
                .hint("`indelible serve` starts one; --url or --context name another")
        }
        Cause::Unavailable { problem: Some(problem), .. } | Cause::Refused(problem) => {
            refused(problem, asked)
        }
        Cause::Broken(cause) if is_no_http(&**cause) => strange(asked, &why),
        _ => Failure::new(format!("no answer from {asked}: {why}"))
            .hint("look at the address, and whether the server is well"),
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

fn misunderstood(malformed: &Malformed, asked: &Asked) -> Failure {
    strange(asked, malformed).exit(Exit::NoAnswer)
}

fn strange(asked: &Asked, why: &impl fmt::Display) -> Failure {
    Failure::new(format!("{asked} does not answer as an Indelible server does: {why}"))
        .hint("look at the address, and at what stands between")
}

fn unsent(why: &impl fmt::Display) -> Failure {
    Failure::new(why.to_string()).hint("nothing was sent").exit(Exit::Usage)
}

fn unknown(error: &dyn StdError) -> Failure {
    Failure::new(chain(error))
}

/// What it all comes from: of a connection that was refused, nobody needs to know by whom that was
/// told to whom.
pub(super) fn root(error: &dyn StdError) -> String {
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
        let may_have_arrived = !matches!(source, Cause::Connect(_));
        Lost { attempts: 3, may_have_arrived, identity, source }
    }

    fn x() -> Asked {
        Asked { url: "http://x".to_owned(), key_from: None }
    }

    fn broken() -> Cause {
        Cause::Broken(Box::new(std::io::Error::other("reset")))
    }

    fn away() -> Cause {
        Cause::Connect(Box::new(std::io::Error::other("refused")))
    }

    /// Of what may have arrived, the name is told under which it can be asked again, and done once.
    #[test]
    fn no_answer_names_the_call() {
        let explain = |lost: Lost| CallError::<()>::Transport(lost).explain(&x());
        let key = || Some(Identity::Key("o-1".to_owned()));
        let failure = explain(lost(key(), Cause::TimedOut(std::time::Duration::from_secs(1))));
        assert_eq!(
            failure.to_string(),
            "error: no answer from http://x: no answer within 1s\n\
             hint: it may have arrived; asked again with --key 'o-1', it is done once\n"
        );
        assert_eq!(failure.code(), 5);
        let id = "01234567-89ab-7fff-bfff-ffffffffffff";
        let failure = explain(lost(Some(Identity::Operation(id.parse().unwrap())), broken()));
        assert!(failure.to_string().contains(&format!("asked again with --id {id}")), "{failure}");
        // The first attempt may have arrived, whatever became of the last.
        let crashed = Lost { may_have_arrived: true, ..lost(key(), away()) };
        let failure = explain(crashed).to_string();
        assert!(failure.contains("no server answers") && failure.contains("--key 'o-1'"));
        let failure = explain(lost(key(), away())).to_string();
        assert!(!failure.contains("--key") && failure.contains("indelible serve"), "{failure}");
    }

    /// What did not arrive is no riddle; a command that may have is, and has no name to give again.
    #[test]
    fn no_answer_to_a_command() {
        let key = || Some(Identity::Key("minted".to_owned()));
        let explain =
            |identity, source| Error::Transport(lost(identity, source)).explain(&x()).to_string();
        let gone = explain(key(), away());
        assert!(gone.contains("no server answers at http://x") && gone.contains("indelible serve"));
        let stopping = Some(Box::new(Problem::new(Code::Stopping, "it stops")));
        let unavailable =
            Cause::Unavailable { status: http::StatusCode::SERVICE_UNAVAILABLE, problem: stopping };
        for cause in [broken(), unavailable] {
            let told = explain(key(), cause);
            assert!(told.contains("look before you ask again") && !told.contains("minted"));
        }
        let read = explain(None, broken());
        assert!(!read.contains("may have arrived"), "{read}");
    }

    /// Whoever has a key that does not open is not told to get one, but which one it is.
    #[test]
    fn keys_that_do_not_open() {
        let refused = |key_from: Option<&str>| {
            let asked = Asked { key_from: key_from.map(str::to_owned), ..x() };
            refused(&Problem::new(Code::Unauthenticated, "no"), &asked).to_string()
        };
        assert!(refused(None).contains("the server wants an API key: INDELIBLE_TOKEN"));
        let wrong = refused(Some("of the context prod"));
        assert!(wrong.contains("the key of the context prod is unknown there"), "{wrong}");
    }

    #[test]
    fn ids_are_shortened_for_people() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(short(&id), "01234567");
        assert_eq!(short(&format!("{id}.0.12")), "01234567.0.12");
        assert_eq!(short("abc"), "abc");
    }
}
