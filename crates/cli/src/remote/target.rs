//! Which execution is meant: an id, the beginning of one, an operation, a key, or the newest that
//! was started from here.

use indelible_client::api::call::Operation;
use indelible_client::api::execution::{Execution, UsedFor};
use indelible_client::{Filter, OperationId};
use indelible_journal::Attempts;

use super::connection::Remote;
use super::errors::short;
use super::newest;
use crate::failure::{Exit, Failure};
use crate::print;

/// The digits of a root hash.
const DIGITS: usize = 64;
/// Fewer digits would match too many executions.
const DIGITS_MIN: usize = 6;
/// Names the newest execution that was started from here.
const LAST: &str = "last";
/// Begins the name of an execution by the idempotency key of its start.
const KEY: &str = "key:";
/// How many executions an error lists if several match.
const LISTED_MAX: u32 = 20;

/// An execution as users name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    root: Root,
    /// The path of a child, with a dot before each number.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Root {
    Last,
    Prefix(String),
    Whole(String),
    Operation(OperationId),
    Key(String),
}

/// What was started under an idempotency key.
pub(super) enum Keyed {
    /// The whole id of an execution that the server has.
    Execution(String),
    /// Its execution is no longer kept.
    Gone(Box<Operation>),
}

/// For clap: parses an EXECUTION.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let own = |root| Ok(Target { root, path: String::new() });
    if let Some(key) = text.strip_prefix(KEY) {
        return match key.trim().is_empty() {
            true => Err(format!("give a key, as in {KEY}order-7")),
            false => own(Root::Key(key.to_owned())),
        };
    }
    if let Ok(operation) = text.parse::<OperationId>() {
        return own(Root::Operation(operation));
    }
    // Journals, logs and the audit record name an attempt behind the id.
    let text = match text.split_once('@') {
        Some((execution, attempts)) if attempts.parse::<Attempts>().is_ok() => execution,
        _ => text,
    };
    let (root, path) = text.split_at(text.find('.').unwrap_or(text.len()));
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let root = match root {
        LAST => Root::Last,
        root if root.len() > DIGITS || !root.chars().all(hex) => {
            return Err(format!(
                "give the beginning of an execution's id ({}), an operation id, {KEY} and a key, \
                 or `{LAST}`",
                "`indelible ps` lists them"
            ));
        }
        root if root.len() == DIGITS => Root::Whole(root.to_owned()),
        root if root.len() < DIGITS_MIN => {
            return Err(format!("give at least {DIGITS_MIN} digits of it, or `{LAST}`"));
        }
        root => Root::Prefix(root.to_owned()),
    };
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !path.split('.').skip(1).all(number) {
        return Err("only numbers can follow the id, as in 9c4f1a2b.0.2".to_owned());
    }
    Ok(Target { root, path: path.to_owned() })
}

impl Target {
    /// The whole id, if it was given.
    pub(crate) fn whole(&self) -> Option<String> {
        match &self.root {
            Root::Whole(root) => Some(format!("{root}{}", self.path)),
            Root::Last | Root::Prefix(_) | Root::Operation(_) | Root::Key(_) => None,
        }
    }

    /// The first digits and the path, if that is how it is named.
    pub(crate) fn prefix(&self) -> Option<String> {
        match &self.root {
            Root::Prefix(prefix) => Some(format!("{prefix}{}", self.path)),
            Root::Last | Root::Whole(_) | Root::Operation(_) | Root::Key(_) => None,
        }
    }

    /// The idempotency key that it names.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.root {
            Root::Key(key) => Some(key),
            _ => None,
        }
    }
}

impl Remote {
    /// The whole id of the execution that is meant.
    pub(crate) fn find(&self, target: &Target) -> Result<String, Failure> {
        let root = match &target.root {
            Root::Whole(root) => root.clone(),
            Root::Operation(id) => self.run(self.client.operation(&id.to_string()))?.execution_id,
            Root::Key(key) => match self.keyed(key)? {
                Keyed::Execution(id) => id,
                Keyed::Gone(_) => {
                    return Err(Failure::new(format!(
                        "the execution that was started under the key {key:?} is no longer kept"
                    ))
                    .hint("`indelible show --key` shows its outcome"));
                }
            },
            Root::Last => self.newest()?,
            Root::Prefix(prefix) => {
                // An id says by itself which execution is meant, in whatever namespace.
                let filter = Filter::all().everywhere().id_prefix(prefix.as_str());
                let mut found = self.some(&filter, LISTED_MAX)?;
                match (found.pop(), found.is_empty()) {
                    (Some(one), true) => one.execution_id,
                    (None, _) => {
                        return Err(Failure::new(format!("no execution begins with {prefix}"))
                            .hint(
                                "`indelible ps --namespace '*'` lists all that the key may see",
                            ));
                    }
                    (Some(last), false) => {
                        found.push(last);
                        let line = |execution: &Execution| {
                            format!("{}  {}", execution.execution_id, execution.function)
                        };
                        return Err(Failure::new(format!(
                            "several executions begin with {prefix}"
                        ))
                        .list(found.iter().map(line).collect())
                        .hint("give more digits"));
                    }
                }
            }
        };
        Ok(format!("{root}{}", target.path))
    }

    /// The newest execution that was started from here.
    fn newest(&self) -> Result<String, Failure> {
        let all = "`indelible ps` lists all executions";
        if self.everywhere {
            return Err(Failure::new(format!("`{LAST}` belongs to one namespace"))
                .hint(format!("name it with --namespace; {all}"))
                .exit(Exit::Usage));
        }
        let found = newest::find(&self.at.url, self.namespace.as_deref()).map_err(|error| {
            Failure::new(format!("cannot read which execution is the `{LAST}`: {error}")).hint(all)
        })?;
        found.ok_or_else(|| {
            let namespace = self.namespace.as_ref().map(|name| format!(", namespace {name}"));
            let at = format!("{}{}", self.at.url, namespace.unwrap_or_default());
            Failure::new(format!("no execution was started from here at {at}")).hint(format!(
                "`{LAST}` is what `indelible start` or `indelible call` started last; {all}"
            ))
        })
    }

    /// From now on `last` is this execution.
    pub(super) fn remember(&self, execution: &str) {
        let (url, namespace) = (&self.at.url, self.namespace.as_deref());
        if let Err(error) = newest::remember(url, namespace, execution) {
            let id = short(execution);
            print::tell(&format!("warning: `{LAST}` does not name execution {id}: {error}"));
        }
    }

    /// What was started under an idempotency key.
    pub(super) fn keyed(&self, key: &str) -> Result<Keyed, Failure> {
        if self.everywhere {
            return Err(Failure::new("a key belongs to one namespace")
                .hint("name it with --namespace")
                .exit(Exit::Usage));
        }
        let filter = Filter::all().idempotency_key(key);
        let mut pages = self.asked(self.client.executions(&filter))?;
        let page = self.run(pages.next())?;
        let found = page.and_then(|page| Some((page.executions, page.key?)));
        let Some((executions, used)) = found else {
            return Err(Failure::new(format!("nothing was asked for under the key {key:?}"))
                .hint("choose another namespace with --namespace"));
        };
        let what = match (used.used_for, used.operation) {
            (UsedFor::Start, Some(operation)) => {
                // An execution that goes on and is not in the list is in memory alone.
                let kept = !executions.is_empty() || operation.in_progress;
                return Ok(match kept {
                    true => Keyed::Execution(operation.execution_id),
                    false => Keyed::Gone(Box::new(operation)),
                });
            }
            (UsedFor::Signal, _) => "a signal",
            (UsedFor::Cancel, _) => "a cancel",
            (UsedFor::Deploy, _) => "a deployment",
            (UsedFor::Start | UsedFor::Command, _) => "a command",
        };
        Err(Failure::new(format!(
            "the key {key:?} was used for {what}, which has no execution of its own"
        ))
        .hint("`indelible audit` shows who did what"))
    }

    /// The executions of the namespace, or of all.
    pub(super) fn scope(&self) -> Filter {
        if self.everywhere { Filter::all().everywhere() } else { Filter::all() }
    }

    /// A short description, for a question whether this is the right execution.
    pub(crate) fn describe(&self, execution_id: &str) -> Result<String, Failure> {
        let execution = self.run(self.client.execution(execution_id))?.execution;
        let (function, state) = (execution.function, format!("{:?}", execution.state));
        Ok(format!("{} ({function}, {})", short(execution_id), state.to_lowercase()))
    }

    /// The first executions of a list, newest first.
    fn some(&self, filter: &Filter, limit: u32) -> Result<Vec<Execution>, Failure> {
        let mut pages = self.asked(self.client.executions(filter))?.limit(limit);
        // A page may be empty although more follow.
        while let Some(page) = self.run(pages.next())? {
            if !page.executions.is_empty() {
                return Ok(page.executions);
            }
        }
        Ok(Vec::new())
    }
}

/// The name of an execution in text for people.
pub(crate) fn name(execution_id: &str) -> String {
    short(execution_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_execution_may_look_like() {
        let whole = "ab".repeat(32);
        let attempt = format!("{whole}.3@1.2");
        for good in ["last", "last.0", "9c4f1a", "9c4f1a2b.0.12", &whole, &attempt] {
            assert!(target(good).is_ok(), "{good}");
        }
        let long = format!("{whole}a");
        for bad in ["", "9c4f1", "LAST", "9C4F1A2B", "9c4f1a.", "9c4f1a.x", "order-1", ".0", &long]
        {
            assert!(target(bad).is_err(), "{bad}");
        }
        for bad in ["key:", "key: ", "9c4f1a@", "9c4f1a@x", "9c4f1a@1.0"] {
            assert!(target(bad).is_err(), "{bad}");
        }
        assert_eq!(target(&attempt).unwrap(), target(&format!("{whole}.3")).unwrap());
        assert_eq!(target("key:a.0 @1").unwrap().key(), Some("a.0 @1"));
        let operation = "01234567-89ab-7fff-bfff-ffffffffffff";
        let meant = Root::Operation(operation.parse().unwrap());
        assert_eq!(target(operation).unwrap().root, meant);
        assert_eq!(target("last.0.1").unwrap().path, ".0.1");
    }
}
