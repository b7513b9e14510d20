//! Statements by way of `psql`: the fixture has no client of its own, and its users bring theirs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::programs::Programs;
use crate::supervisor::without_settings;

/// Runs statements one after the other, each a transaction of its own unless they say otherwise, up
/// to the first that fails. Gives their rows: a line each, values separated by `|`.
pub(crate) fn run(
    programs: &Programs,
    socket_dir: &Path,
    port: u16,
    database: &str,
    text: &str,
) -> Result<String, Error> {
    let mut command = Command::new(programs.folder.join("psql"));
    without_settings(&mut command)
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres"])
        .arg("-h")
        .arg(socket_dir)
        .args(["-p", &port.to_string(), "-d", database])
        .env("LC_ALL", "C")
        .env("PGCLIENTENCODING", "UTF8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = command.spawn().map_err(Error::io("start psql"))?;
    let mut statements = process.stdin.take().expect("its input is piped");
    let output = std::thread::scope(|scope| {
        // On its own thread, while this one reads: statements and rows can both be more than a pipe
        // holds. The write fails if psql stops reading, and then psql says why.
        scope.spawn(move || statements.write_all(text.as_bytes()).ok());
        process.wait_with_output()
    });
    let output = output.map_err(Error::io("wait for psql"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(Error::Sql { said });
    }
    let mut rows = String::from_utf8_lossy(&output.stdout).into_owned();
    if rows.ends_with('\n') {
        rows.pop();
    }
    Ok(rows)
}
