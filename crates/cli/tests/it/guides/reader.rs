//! Types a guide along: one shell for its commands, and one for each server.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::guides::expected;
use crate::guides::page::{Act, Block, Page};
use crate::guides::place::{Place, root};

/// A compiler for guests may have to be fetched and made in this time.
const BLOCK_MAX: Duration = Duration::from_secs(600);

/// How long a server may take to say what it says first, and to die when it is killed.
const SERVER_MAX: Duration = Duration::from_secs(60);

/// How often is looked whether it has.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads a guide from its first block to its last. What is wrong begins with the line where.
pub(crate) fn read(path: &str, page: &Page) -> Result<(), String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let place = Place::new(name.trim_end_matches(".md"), page);
    let mut terminal = Terminal::open(&place);
    let mut servers: Vec<Server> = Vec::new();
    for (index, block) in page.blocks.iter().enumerate() {
        let block = Block {
            line: block.line,
            act: block.act.clone(),
            text: place.here(&block.text),
            output: block.output.as_deref().map(|output| place.here(output)),
        };
        // The lines of the file are those of the guide, for what the shell says of mistakes.
        let padding = "\n".repeat(block.line - 1);
        let (script, output) =
            (place.typed.join(format!("{index}-{name}")), place.typed.join(format!("{index}.out")));
        let typed = || fs::write(&script, format!("{padding}{}", block.text)).unwrap();
        let wrong = |why: &str, printed: &str| wrong(&block, why, printed);
        match &block.act {
            Act::Skip { .. } => {}
            Act::File { path, source } => write_file(&place, path, source.as_deref(), &block)?,
            Act::Shows { path } => {
                let there = fs::read_to_string(place.work.join(path)).unwrap_or_default();
                if there != block.text {
                    return Err(wrong(&format!("{path} says something else"), &there));
                }
            }
            Act::Patch { path } => {
                let path = place.work.join(path);
                let there = fs::read_to_string(&path).unwrap_or_default();
                let changed = patch(&there, &block.text).map_err(|why| wrong(&why, &there))?;
                fs::write(path, changed).unwrap();
            }
            Act::Server => {
                typed();
                servers.push(Server::start(&place, script, output, &block)?);
            }
            Act::Run { fails } => {
                typed();
                let builds = ["deploy", "build", "run"]
                    .iter()
                    .any(|command| block.text.contains(&format!("indelible {command}")));
                let building = builds.then(|| place.build_alone());
                let ended = terminal.run(&script, &output, fails.is_some());
                drop(building);
                let printed = printed(&output);
                // The story so far, if it goes wrong later.
                println!("--- line {}\n{}--- printed\n{printed}", block.line, block.text);
                let as_expected = match (&ended, fails) {
                    (Ended::With(code), Some(fails)) => code == fails,
                    (Ended::With(0), None) => true,
                    _ => false,
                };
                if !as_expected {
                    let told: Vec<String> = servers.iter().map(Server::told).collect();
                    let expected = fails.unwrap_or(0);
                    let why = format!("{ended}, and not with {expected}");
                    return Err(wrong(&why, &format!("{printed}{}", told.concat())));
                }
                if block.output.as_ref().is_some_and(|text| !expected::matches(text, &printed)) {
                    return Err(wrong("it prints something else", &printed));
                }
                if block.text.contains("kill ") {
                    await_death(&mut servers).map_err(|why| wrong(&why, &printed))?;
                }
            }
        }
    }
    Ok(())
}

/// What went wrong, for the author who mends the guide.
fn wrong(block: &Block, why: &str, printed: &str) -> String {
    let expected = block.output.as_ref().map(|text| format!("--- expected\n{text}"));
    let (line, text, expected) = (block.line, &block.text, expected.unwrap_or_default());
    format!("{line}: {why}\n--- block\n{text}{expected}--- printed\n{printed}")
}

fn printed(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn write_file(
    place: &Place,
    path: &str,
    source: Option<&str>,
    block: &Block,
) -> Result<(), String> {
    if let Some(source) = source {
        let theirs = fs::read_to_string(root().join(source)).unwrap_or_default();
        if theirs != block.text {
            return Err(wrong(block, &format!("it is not {source}"), &theirs));
        }
    }
    let path = place.work.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, &block.text).unwrap();
    Ok(())
}

/// A text with the change that a diff shows: its lines without a sign, and those with `-`, must be
/// there once.
pub(crate) fn patch(text: &str, diff: &str) -> Result<String, String> {
    let side = |other: char| -> String {
        let lines = diff.lines().filter(|line| !line.starts_with(other));
        lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
    };
    let (old, new) = (side('+'), side('-'));
    match text.matches(&old).count() {
        1 => Ok(text.replacen(&old, &new, 1)),
        count => Err(format!("what is to be changed is there {count} times")),
    }
}

/// How a block ended.
enum Ended {
    With(i32),
    /// A command failed, and the shell with it.
    At {
        code: i32,
        line: usize,
    },
    /// The shell is gone.
    Gone,
    TooLate,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::With(code) => write!(f, "it ends with {code}"),
            Self::At { code, line } => write!(f, "the command of line {line} ends with {code}"),
            Self::Gone => write!(f, "it ends the shell"),
            Self::TooLate => write!(f, "it does not end within {BLOCK_MAX:?}"),
        }
    }
}

/// The shell in which a guide's commands are typed.
struct Terminal {
    _group: Group,
    stdin: ChildStdin,
    /// What the shell says of itself: what commands print goes to files.
    says: Receiver<String>,
}

/// A command that fails ends the block, and says where it stands. 9 is where the shell says so.
const BEGIN: &str = "exec 9>&1; set -o pipefail; trap 'echo failed $? $LINENO >&9' ERR\n";

impl Terminal {
    fn open(place: &Place) -> Self {
        let mut command = place.shell();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut group = Group::start(&mut command);
        let (sender, says) = channel();
        let stdout = BufReader::new(group.shell.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stdin = group.shell.stdin.take().unwrap();
        stdin.write_all(BEGIN.as_bytes()).unwrap();
        Self { _group: group, stdin, says }
    }

    /// Types a block. If it is to fail, only its last command counts.
    fn run(&mut self, script: &Path, output: &Path, fails: bool) -> Ended {
        let set = if fails { "set +e" } else { "set -e" };
        let (script, output) = (script.display(), output.display());
        let line = format!(
            "{set}; . '{script}' >'{output}' 2>&1 </dev/null; printf 'done %s\\n' $? >&9\n"
        );
        if self.stdin.write_all(line.as_bytes()).is_err() {
            return Ended::Gone;
        }
        let until = Instant::now() + BLOCK_MAX;
        loop {
            let line = match self.says.recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ended::TooLate,
                Err(RecvTimeoutError::Disconnected) => return Ended::Gone,
            };
            let mut words = line.split(' ');
            let word = words.next();
            let mut number = || words.next().and_then(|word| word.parse().ok());
            match (word, number(), number()) {
                (Some("done"), Some(code), _) => return Ended::With(code),
                (Some("failed"), Some(code), Some(line)) if !fails => {
                    return Ended::At { code, line: usize::try_from(line).unwrap_or(0) };
                }
                _ => {}
            }
        }
    }
}

/// What goes on in another terminal.
struct Server {
    group: Group,
    line: usize,
    output: PathBuf,
}

impl Server {
    /// Starts it, and waits until it has said what the guide says that it says; if the guide says
    /// nothing, for its first line.
    fn start(
        place: &Place,
        script: PathBuf,
        output: PathBuf,
        block: &Block,
    ) -> Result<Self, String> {
        let file = fs::File::create(&output).unwrap();
        let mut command = place.shell();
        command.arg(script).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let group = Group::start(&mut command);
        let mut server = Self { group, line: block.line, output };
        let expected = block.output.as_deref().unwrap_or("…\n");
        let until = Instant::now() + SERVER_MAX;
        loop {
            // Asked before it is read: whatever it said before its end is there then.
            let ended = server.has_ended();
            let printed = printed(&server.output);
            let said = printed.contains('\n') && expected::begins(expected, &printed);
            if ended {
                return Err(wrong(block, "the server ends", &printed));
            }
            if said {
                return Ok(server);
            }
            if Instant::now() > until {
                return Err(wrong(block, "the server says something else", &printed));
            }
            thread::sleep(PAUSE);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.group.shell.try_wait().unwrap().is_some()
    }

    /// What the server has said, which may explain a failure.
    fn told(&self) -> String {
        format!("--- the server of line {}\n{}", self.line, printed(&self.output))
    }
}

/// Waits until a server has ended, and forgets it.
fn await_death(servers: &mut Vec<Server>) -> Result<(), String> {
    let until = Instant::now() + SERVER_MAX;
    loop {
        if let Some(index) = servers.iter_mut().position(Server::has_ended) {
            servers.remove(index);
            return Ok(());
        }
        if Instant::now() > until {
            return Err("no server has ended".to_owned());
        }
        thread::sleep(PAUSE);
    }
}

/// A shell and all that it starts, in a process group of their own. They end with the test, however
/// that ends.
struct Group {
    shell: Child,
    /// Ends the group when its standard input closes. The test alone holds the other end, so that a
    /// test that is killed ends the group, too.
    guard: Child,
}

/// Not `kill -9 -- -…`: not every shell takes that.
const GUARD: &str = r#"read _; kill -9 -"$0""#;

impl Group {
    fn start(command: &mut Command) -> Self {
        let shell = command.process_group(0).spawn().unwrap();
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD]).arg(shell.id().to_string());
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a group of its own as well: a Ctrl-C is for the test, and must not end it first.
        let guard = guard.process_group(0).spawn().unwrap();
        Self { shell, guard }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The guard first: once the shell was waited for, its number may be another process's.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        if self.shell.try_wait().unwrap().is_none() {
            let group = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = self.shell.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Whatever a shell has started ends when the test is gone: that closes the guard's stdin.
    #[test]
    fn nothing_survives_the_test() {
        let mut command = Command::new("bash");
        command.args(["-c", "sleep 1000 & wait"]).stdout(Stdio::piped());
        let mut group = Group::start(&mut command);
        drop(group.guard.stdin.take());
        let ended = group.shell.wait().unwrap();
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
        // `sleep` holds the pipe as well: the read ends only when it is gone.
        let printed = std::io::read_to_string(group.shell.stdout.take().unwrap()).unwrap();
        assert_eq!(printed, "");
    }
}
