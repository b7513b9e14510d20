//! Runs other programs, and reports their output when they fail.

use std::process::{Command, Output, Stdio};

use crate::Error;

/// How much of what a failed program said is repeated.
const SAID_LINES_MAX: usize = 20;

/// The program's stdout, if it succeeded.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().map_err(|source| start(command, source))?;
    if !status.success() {
        return Err(Error::Failed {
            command: name(command),
            status: status.to_string(),
            said: tail(&String::from_utf8_lossy(&stderr)),
        });
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// The error for a program that could not be started.
pub(crate) fn start(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

/// The program and its first argument: enough to know what it was.
pub(crate) fn name(command: &Command) -> String {
    let mut name = command.get_program().to_string_lossy().into_owned();
    if let Some(first) = command.get_args().next() {
        name.push(' ');
        name.push_str(&first.to_string_lossy());
    }
    name
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SAID_LINES_MAX)..].join("\n")
}
