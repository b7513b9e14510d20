//! How a command ends, and how that is told.

use std::fmt;
use std::io;

/// How a command that ran to its end found things.
pub(crate) enum Verdict {
    /// All is well.
    Well,
    /// What was asked for was done, and something is wrong with the data.
    Wrong(Failure),
}

/// What is told on stderr: errors, a list if it helps, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    errors: Vec<String>,
    list: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self { errors: vec![error.into()], list: Vec::new(), hint: None }
    }

    pub(crate) fn many(errors: Vec<String>) -> Self {
        Self { errors, list: Vec::new(), hint: None }
    }

    pub(crate) fn list(self, list: Vec<String>) -> Self {
        Self { list, ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Stdout could not be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        Self::new(format!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {error}"))?;
        self.list.iter().try_for_each(|item| writeln!(f, "  {item}"))?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A reader that has seen enough (`| head`) is no error: go on quietly, the verdict still counts.
pub(crate) fn quiet(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
