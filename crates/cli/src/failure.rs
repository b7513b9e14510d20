//! How a command ends, and how that is told.

use std::fmt;
use std::io;
use std::path::Path;

use indelible_store::embedded::{FolderError, OpenError};

use crate::print::{lines, plain};

/// How a command that ran to its end found things.
pub(crate) enum Verdict {
    /// All is well.
    Well,
    /// What was asked for was done, and something is wrong with the data.
    Wrong(Failure),
}

/// What a program that called this one can tell apart: `indelible --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nobody is left who reads it: all is well, and nothing more is to be done.
    Unheard = 0,
    /// It could not be done, was refused, or something was found wrong.
    Failed = 1,
    /// The arguments make no sense, as clap says of those that it does not understand.
    Usage = 2,
    /// The function failed or was cancelled.
    Function = 3,
    /// Nobody knows whether it happened.
    Indeterminate = 4,
    /// There is no answer from the server.
    NoAnswer = 5,
    /// The wait is over, and it goes on.
    GoesOn = 6,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

/// What is told on stderr: errors, a list if it helps, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    errors: Vec<String>,
    list: Vec<String>,
    hint: Option<String>,
    exit: Exit,
}

impl Failure {
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self::many(vec![error.into()])
    }

    pub(crate) fn many(errors: Vec<String>) -> Self {
        Self { errors, list: Vec::new(), hint: None, exit: Exit::Failed }
    }

    pub(crate) fn list(self, list: Vec<String>) -> Self {
        Self { list, ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Who speaks to no server may mean a folder.
    pub(crate) fn or_a_folder(self) -> Self {
        match self.exit {
            Exit::NoAnswer => self.hint(
                "`indelible serve` starts one, --url or --context name another; --data DIR takes a \
                 data folder that no server has open",
            ),
            _ => self,
        }
    }

    /// What the process ends with.
    pub(crate) fn code(&self) -> u8 {
        self.exit as u8
    }

    /// Stdout could not be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        Self::new(format!("cannot write to standard output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Others have their say in it: guests, and whatever answers at an address.
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {}", lines(error)))?;
        self.list.iter().try_for_each(|item| writeln!(f, "  {}", plain(item)))?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {}", plain(hint)),
            None => Ok(()),
        }
    }
}

/// A data folder that cannot be opened by somebody who could ask a server instead.
pub(crate) fn unopened(folder: &Path, error: &dyn fmt::Display) -> Failure {
    Failure::new(format!("cannot open {}: {error}", folder.display()))
        .hint("one process at a time may have a data folder; without --data, its server is asked")
}

/// The same for its store.
pub(crate) fn unopened_store(folder: &Path, error: &OpenError) -> Failure {
    match error {
        OpenError::Folder(FolderError::InUse { .. }) => unopened(folder, error),
        error => crate::serve::folder::unopened_store(folder, error),
    }
}

/// A reader that has seen enough (`| head`) is no error: go on quietly, the verdict still counts.
pub(crate) fn quiet(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// As [`quiet`], for what goes on as long as somebody reads it: a reader that is gone is its end, and
/// there is nothing to say.
pub(crate) fn heard(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(Failure::many(Vec::new()).exit(Exit::Unheard))
        }
        result => result.map_err(|error| Failure::output(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that is gone ends what goes on for it, and that is no failure; a full disk is one.
    #[test]
    fn a_reader_that_is_gone() {
        let kind = |kind: io::ErrorKind| heard(Err(kind.into())).unwrap_err();
        let gone = kind(io::ErrorKind::BrokenPipe);
        assert_eq!((gone.to_string().as_str(), gone.code()), ("", 0));
        assert_eq!(kind(io::ErrorKind::StorageFull).code(), 1);
        assert!(heard(Ok(())).is_ok());
    }

    /// Lines stay lines; nothing else moves a cursor.
    #[test]
    fn an_error_is_harmless() {
        let failure = Failure::new("a\u{1b}[2J\nb").list(vec!["\u{202e}c".into()]).hint("d\r");
        let told = "error: a\\u{1b}[2J\nb\n  \\u{202e}c\nhint: d\\r\n";
        assert_eq!(failure.to_string(), told);
    }
}
