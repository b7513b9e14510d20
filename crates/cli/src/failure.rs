//! How a command ends, and how the end is reported.

use std::fmt;
use std::io;
use std::path::Path;

use indelible_store::embedded::{FolderError, OpenError};

use crate::print::{lines, plain};

/// The result of a command that ran to its end.
pub(crate) enum CommandEnd {
    /// All is well.
    Well,
    /// The command did what was asked, and found something wrong with the data.
    Wrong(Failure),
}

/// The exit codes, by which a calling program tells outcomes apart; `indelible --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader of stdout is gone (`| head`). That is not a failure; the command stops.
    ReaderGone = 0,
    /// The command could not be carried out, was refused, or found something wrong.
    Failed = 1,
    /// The arguments are invalid. clap uses the same code for arguments that it refuses.
    Usage = 2,
    /// The function failed or was cancelled.
    Function = 3,
    /// It is unknown whether the effect happened.
    Indeterminate = 4,
    /// The server did not answer.
    NoAnswer = 5,
    /// The wait is over; the execution is still running.
    StillRunning = 6,
    /// The user pressed Ctrl-C.
    Interrupted = 130,
}

/// What is written to stderr: errors, a list if it helps, and a hint.
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

    /// If no server answered, the hint adds that --data names a folder.
    pub(crate) fn or_a_folder(self) -> Self {
        match self.exit {
            Exit::NoAnswer => self.hint(
                "start a server with `indelible serve`, choose another with --url or --context, or \
                 open a data folder that no server uses with --data DIR",
            ),
            _ => self,
        }
    }

    /// The exit code of the process.
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
        // Guests and servers can put text into an error, so it must not move the cursor.
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {}", lines(error)))?;
        self.list.iter().try_for_each(|item| writeln!(f, "  {}", plain(item)))?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {}", plain(hint)),
            None => Ok(()),
        }
    }
}

/// A data folder cannot be opened. If a server has it open, the command can ask that server
/// instead.
pub(crate) fn unopened(folder: &Path, error: &dyn fmt::Display) -> Failure {
    Failure::new(format!("cannot open {}: {error}", folder.display())).hint(
        "only one process can open a data folder at a time; leave --data out to ask the server \
             that has it open",
    )
}

/// The same for the store in a data folder.
pub(crate) fn unopened_store(folder: &Path, error: &OpenError) -> Failure {
    match error {
        OpenError::Folder(FolderError::InUse { .. }) => unopened(folder, error),
        error => crate::serve::folder::unopened_store(folder, error),
    }
}

/// A reader of stdout that stops (`| head`) is not an error: the command's exit code still counts.
pub(crate) fn quiet(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// As [`quiet`], for output that is produced only while stdout is read: when the reader is gone,
/// the command ends without a message.
pub(crate) fn stop_when_unread(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(Failure::many(Vec::new()).exit(Exit::ReaderGone))
        }
        result => result.map_err(|error| Failure::output(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A closed pipe ends output that follows something, and is no failure; a full disk is one.
    #[test]
    fn a_reader_that_is_gone() {
        let kind = |kind: io::ErrorKind| stop_when_unread(Err(kind.into())).unwrap_err();
        let gone = kind(io::ErrorKind::BrokenPipe);
        assert_eq!((gone.to_string().as_str(), gone.code()), ("", 0));
        assert_eq!(kind(io::ErrorKind::StorageFull).code(), 1);
        assert!(stop_when_unread(Ok(())).is_ok());
    }

    /// Lines stay lines; nothing else moves a cursor.
    #[test]
    fn an_error_is_harmless() {
        let failure = Failure::new("a\u{1b}[2J\nb").list(vec!["\u{202e}c".into()]).hint("d\r");
        let told = "error: a\\u{1b}[2J\nb\n  \\u{202e}c\nhint: d\\r\n";
        assert_eq!(failure.to_string(), told);
    }
}
