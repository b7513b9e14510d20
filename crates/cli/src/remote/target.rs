//! Which execution is meant: an id, the beginning of one, or the newest.

use indelible_client::Filter;
use indelible_client::api::execution::Execution;

use super::connection::Remote;
use super::errors::short;
use crate::failure::Failure;

/// The digits of a root hash.
const DIGITS: usize = 64;
/// Fewer digits would match too many executions.
const DIGITS_MIN: usize = 6;
/// Names the newest execution.
const LAST: &str = "last";
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
}

/// For clap: parses an EXECUTION.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let (root, path) = text.split_at(text.find('.').unwrap_or(text.len()));
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let root = match root {
        LAST => Root::Last,
        root if root.len() > DIGITS || !root.chars().all(hex) => {
            return Err(format!(
                "give the beginning of an execution's id (such as {}), or `{LAST}`",
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
            Root::Last | Root::Prefix(_) => None,
        }
    }
}

impl Remote {
    /// The whole id of the execution that is meant.
    pub(crate) fn find(&self, target: &Target) -> Result<String, Failure> {
        let root = match &target.root {
            Root::Whole(root) => root.clone(),
            Root::Last => match self.some(&Filter::all(), 1)?.pop() {
                Some(newest) => newest.execution_id,
                None => {
                    return Err(Failure::new("there are no executions yet").hint(
                        "start one with `indelible call FUNCTION`, or choose another namespace \
                         with --namespace",
                    ));
                }
            },
            Root::Prefix(prefix) => {
                let mut found = self.some(&Filter::all().id_prefix(prefix.as_str()), LISTED_MAX)?;
                match (found.pop(), found.is_empty()) {
                    (Some(one), true) => one.execution_id,
                    (None, _) => {
                        return Err(Failure::new(format!("no execution begins with {prefix}"))
                            .hint(
                                "`indelible ps` lists them; choose another namespace with \
                                 --namespace",
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
        for good in ["last", "last.0", "9c4f1a", "9c4f1a2b.0.12", &whole, &format!("{whole}.3")] {
            assert!(target(good).is_ok(), "{good}");
        }
        let long = format!("{whole}a");
        for bad in ["", "9c4f1", "LAST", "9C4F1A2B", "9c4f1a.", "9c4f1a.x", "order-1", ".0", &long]
        {
            assert!(target(bad).is_err(), "{bad}");
        }
        assert_eq!(target("last.0.1").unwrap().path, ".0.1");
    }
}
