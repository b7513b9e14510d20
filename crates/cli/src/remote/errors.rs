//! Errors of a server, or its silence, in words for people: what is wrong, and what to do.

use std::error::Error as StdError;
use std::fmt;

use indelible_client::api::{Code, Problem};
use indelible_client::{
    CallError, Cause, Error, Identity, Lost, Malformed, SequencedError, StartError, StateFileError,
    StopReason,
};

use super::name::flag;
use crate::failure::{Exit, Failure};

/// Which server was asked, and with which key.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerRequest {
    pub(crate) url: String,
    /// Where the API key comes from, in words; none if there is no key.
    pub(crate) key_from: Option<String>,
}

impl fmt::Display for ServerRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// An error that a person can act on.
pub(crate) trait Explained {
    /// The error in words.
    fn explain(self, asked: &ServerRequest) -> Failure;
}

impl Explained for Failure {
    fn explain(self, _: &ServerRequest) -> Failure {
        self
    }
}

impl Explained for Error {
    fn explain(self, asked: &ServerRequest) -> Failure {
        // A command mints its key, which the user cannot give again, so the hint names none. A
        // request that only reads has no key, and repeating it is harmless.
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
            failure.hint("the request may have been accepted: check before you repeat it")
        } else {
            failure
        }
    }
}

/// Whether a request without an answer may have changed something.
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
    fn explain(self, asked: &ServerRequest) -> Failure {
        CallError::<()>::from(self).explain(asked)
    }
}

impl<Out> Explained for CallError<Out> {
    fn explain(self, asked: &ServerRequest) -> Failure {
        match self {
            Self::Function(error) => {
                let failure =
                    Failure::new(format!("the function failed: {}: {}", error.kind, error.message));
                let failure = match &error.execution_id {
                    Some(id) => {
                        failure.hint(format!("see its steps with `indelible show {}`", short(id)))
                    }
                    None => failure,
                };
                failure.exit(Exit::Function)
            }
            Self::Cancelled(problem) => {
                let failure =
                    Failure::new(format!("the execution was cancelled: {}", problem.detail));
                let failure = match &problem.execution_id {
                    Some(id) => {
                        failure.hint(format!("see its steps with `indelible show {}`", short(id)))
                    }
                    None => failure,
                };
                failure.exit(Exit::Function)
            }
            Self::Indeterminate(problem) => {
                let failure = Failure::new(format!("the outcome is unknown: {}", problem.detail));
                failure
                    .hint(
                        "`indelible unresolved` shows what was sent: check the other service, then \
                         record what happened; repeating the request does nothing and returns the \
                         same",
                    )
                    .exit(Exit::Indeterminate)
            }
            Self::StillRunning(handle) => {
                let id = short(handle.execution_id());
                Failure::new(format!("stopped waiting; execution {id} is still running"))
                    .hint(format!("see what it waits for with `indelible show {id}`"))
                    .exit(Exit::StillRunning)
            }
            Self::Output(what) => Failure::new(format!("the return value cannot be shown: {what}"))
                .hint("print it unchanged with --json"),
            Self::InFlight(in_flight) => {
                refused(&in_flight.problem, asked).exit(Exit::StillRunning)
            }
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

impl Explained for SequencedError {
    fn explain(self, asked: &ServerRequest) -> Failure {
        const AGAIN: &str =
            "run the same command again: it sends the same number, and is applied once";
        match self {
            Self::Refused(problem) => refused(&problem, asked),
            Self::Unsettled(problem) => {
                let hint = "the transaction may have been applied before; mend the cause, then run the \
                            same command again";
                refused(&problem, asked).hint(hint)
            }
            Self::Transport(lost) => unanswered(&lost, asked).hint(AGAIN),
            Self::Malformed(malformed) => misunderstood(&malformed, asked).hint(AGAIN),
            Self::Invalid(invalid) => unsent(&invalid),
            Self::FileMissing { .. } => Failure::new(self.to_string()).hint(
                "find the file; if it is lost, look at what it may have held (`indelible ledger \
                 client CLIENT`, `indelible ledger log`), then go on with --recover",
            ),
            Self::File(error) => {
                let hint = match &error {
                    StateFileError::InUse { .. } => "wait for it, or take another client id",
                    StateFileError::Torn { .. } => {
                        "remove it, look at what it may have held (`indelible ledger client CLIENT`), \
                         then go on with --recover"
                    }
                    StateFileError::Newer { .. } => "use the version of indelible that wrote it",
                    StateFileError::OtherKind { .. } | StateFileError::Foreign { .. } => {
                        "give each client of each vault a file of its own with --state-file"
                    }
                    _ => "check its folder, and the disk; nothing was sent",
                };
                Failure::new(chain(&error)).hint(hint)
            }
            Self::Stopped { reason, .. } => {
                let hint = match reason {
                    StopReason::Restored => {
                        "find out what was lost and whether it is to be done again; then remove the \
                         state file, and go on with --recover"
                    }
                    StopReason::OtherIncarnation => {
                        "check the vault and the server; for the new vault, use another --state-file"
                    }
                    StopReason::NumberTaken => {
                        "compare `indelible ledger log` with what this client has done; then remove \
                         the state file, and go on with --recover"
                    }
                    _ => "use another client id",
                };
                Failure::new(self.to_string()).hint(hint)
            }
            error => unknown(&error),
        }
    }
}

/// If the call may have arrived, the hint names its key, under which it takes effect once.
fn once(failure: Failure, riddle: Option<&Identity>) -> Failure {
    match riddle {
        Some(identity) => failure.hint(format!(
            "the request may have been accepted; repeat it with {}, and it is still done only once",
            flag(identity)
        )),
        None => failure,
    }
}

/// Shortens the root of an id to the digits that people need; the path of a child stays whole.
pub(crate) fn short(id: &str) -> String {
    const DIGITS: usize = 8;
    let (root, path) = id.split_at(id.find('.').unwrap_or(id.len()));
    let root = root.get(..DIGITS).unwrap_or(root);
    format!("{root}{path}")
}

fn refused(problem: &Problem, asked: &ServerRequest) -> Failure {
    let code = problem.code;
    let hint = match code {
        Code::Unauthenticated => match &asked.key_from {
            Some(from) => format!(
                "the key {from} is unknown, expired or revoked; an admin creates one with \
                 `indelible token create`"
            ),
            None => "the server needs an API key: set INDELIBLE_TOKEN, or use --token-file or \
                 `indelible context add`"
                .to_owned(),
        },
        Code::NoSuchComponent => "`indelible components` lists what is deployed".to_owned(),
        Code::BreakingChange => {
            "`indelible components COMPONENT` shows which versions are in use; \
             --force goes on all the same; nothing was changed"
                .to_owned()
        }
        Code::InvalidInput => {
            "`indelible functions` shows what it takes; nothing was started, and \
             the key is not used up"
                .to_owned()
        }
        Code::NoSuchFunction => "`indelible functions` lists what can be called".to_owned(),
        Code::NoSuchVault => {
            "`indelible vault ls` lists them, `indelible vault create NAME` makes one; choose \
             another namespace with --namespace"
                .to_owned()
        }
        Code::NoSuchEndpoint => {
            "`indelible endpoint ls` lists them, `indelible endpoint put NAME URL` makes one; \
             choose another namespace with --namespace"
                .to_owned()
        }
        Code::SequenceGap => {
            "`indelible ledger client CLIENT` shows the last number; send the next one, with \
             --attempt one higher"
                .to_owned()
        }
        Code::NotFound => {
            "`indelible ps` lists executions; choose another namespace with --namespace".to_owned()
        }
        Code::InvalidComponent => {
            "`indelible sdk` gives the project the SDK of this version; then build it again"
                .to_owned()
        }
        Code::Forbidden => {
            "an admin creates a key with the role: `indelible token create NAME --role ROLE`"
                .to_owned()
        }
        Code::Mismatch | Code::Conflict => {
            format!("use a new key or id for a new request; see `indelible explain {code}`")
        }
        Code::Damaged => "the server's log names the damage; stop the server, keep a copy of its \
             data folder, and restore a backup: see `indelible explain damaged`"
            .to_owned(),
        Code::OnHold => {
            "`indelible hold show` says why, and what is unfinished; an admin lets the \
             server go on with `indelible hold lift`"
                .to_owned()
        }
        Code::Restored => {
            "find out whether it was done before the restore; `indelible hold show` says from which \
             backup, and an admin opens the server to all keys with `indelible hold lift`"
                .to_owned()
        }
        Code::WrongState => "see its state with `indelible show EXECUTION`".to_owned(),
        code => format!("see `indelible explain {code}`"),
    };
    let failed = problem.refusal.as_ref().and_then(|refusal| refusal.operation.as_ref());
    let failed = failed.map(super::ledger::failed).into_iter().collect();
    Failure::new(format!("{} ({code})", problem.detail)).list(failed).hint(hint)
}

fn unanswered(lost: &Lost, asked: &ServerRequest) -> Failure {
    let why = chain(&lost.source);
    let failure = match &lost.source {
        Cause::Connect(_) => {
            Failure::new(format!("no server responds at {asked}: {}", root(&lost.source))).hint(
                "start a server with `indelible serve`, or choose another with --url or \
                     --context",
            )
        }
        Cause::Unavailable { problem: Some(problem), .. } | Cause::Refused(problem) => {
            refused(problem, asked)
        }
        Cause::Broken(cause) if is_no_http(&**cause) => strange(asked, &why),
        _ => Failure::new(format!("no response from {asked}: {why}"))
            .hint("check the address, and whether the server is healthy"),
    };
    failure.exit(Exit::NoAnswer)
}

/// Whether the answer came from a program that does not speak HTTP.
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

fn misunderstood(malformed: &Malformed, asked: &ServerRequest) -> Failure {
    strange(asked, malformed).exit(Exit::NoAnswer)
}

fn strange(asked: &ServerRequest, why: &impl fmt::Display) -> Failure {
    Failure::new(format!("{asked} does not respond like an Indelible server: {why}"))
        .hint("check the address, and any proxy in between")
}

fn unsent(why: &impl fmt::Display) -> Failure {
    Failure::new(why.to_string()).hint("nothing was sent").exit(Exit::Usage)
}

fn unknown(error: &dyn StdError) -> Failure {
    Failure::new(chain(error))
}

/// The innermost cause. The layers above it only repeat that a connection failed.
pub(super) fn root(error: &dyn StdError) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// An error followed by its causes.
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

    fn x() -> ServerRequest {
        ServerRequest { url: "http://x".to_owned(), key_from: None }
    }

    fn broken() -> Cause {
        Cause::Broken(Box::new(std::io::Error::other("reset")))
    }

    fn away() -> Cause {
        Cause::Connect(Box::new(std::io::Error::other("refused")))
    }

    /// If a call may have arrived, the error names the key under which to repeat it.
    #[test]
    fn no_answer_names_the_call() {
        let explain = |lost: Lost| CallError::<()>::Transport(lost).explain(&x());
        let key = || Some(Identity::Key("o-1".to_owned()));
        let failure = explain(lost(key(), Cause::TimedOut(std::time::Duration::from_secs(1))));
        assert_eq!(
            failure.to_string(),
            "error: no response from http://x: no response within 1s\n\
             hint: the request may have been accepted; repeat it with --key 'o-1', and it is \
             still done only once\n"
        );
        assert_eq!(failure.code(), 5);
        let id = "01234567-89ab-7fff-bfff-ffffffffffff";
        let failure = explain(lost(Some(Identity::Operation(id.parse().unwrap())), broken()));
        assert!(failure.to_string().contains(&format!("repeat it with --id {id}")), "{failure}");
        // An earlier attempt may have arrived, whatever became of the last.
        let crashed = Lost { may_have_arrived: true, ..lost(key(), away()) };
        let failure = explain(crashed).to_string();
        assert!(failure.contains("no server responds") && failure.contains("--key 'o-1'"));
        let failure = explain(lost(key(), away())).to_string();
        assert!(!failure.contains("--key") && failure.contains("indelible serve"), "{failure}");
    }

    /// Only a command that may have arrived gets the hint, which does not name its key.
    #[test]
    fn no_answer_to_a_command() {
        let key = || Some(Identity::Key("minted".to_owned()));
        let explain =
            |identity, source| Error::Transport(lost(identity, source)).explain(&x()).to_string();
        let gone = explain(key(), away());
        assert!(
            gone.contains("no server responds at http://x") && gone.contains("indelible serve")
        );
        let stopping = Some(Box::new(Problem::new(Code::Stopping, "it stops")));
        let unavailable =
            Cause::Unavailable { status: http::StatusCode::SERVICE_UNAVAILABLE, problem: stopping };
        for cause in [broken(), unavailable] {
            let told = explain(key(), cause);
            assert!(told.contains("check before you repeat it") && !told.contains("minted"));
        }
        let read = explain(None, broken());
        assert!(!read.contains("may have been accepted"), "{read}");
    }

    /// A caller whose key is refused is not told to get one, but where the refused key comes from.
    #[test]
    fn keys_that_do_not_open() {
        let refused = |key_from: Option<&str>| {
            let asked = ServerRequest { key_from: key_from.map(str::to_owned), ..x() };
            refused(&Problem::new(Code::Unauthenticated, "no"), &asked).to_string()
        };
        assert!(refused(None).contains("the server needs an API key: set INDELIBLE_TOKEN"));
        let wrong = refused(Some("of the context prod"));
        assert!(
            wrong.contains("the key of the context prod is unknown, expired or revoked"),
            "{wrong}"
        );
    }

    #[test]
    fn ids_are_shortened_for_people() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(short(&id), "01234567");
        assert_eq!(short(&format!("{id}.0.12")), "01234567.0.12");
        assert_eq!(short("abc"), "abc");
    }
}
