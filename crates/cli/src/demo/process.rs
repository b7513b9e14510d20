//! A process that is started, killed and started again: the server, or the retry loop. Neither
//! outlives the demo.
#![expect(
    clippy::disallowed_methods,
    reason = "it measures how long a start takes, and reads logs"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::failure::Failure;

/// The longest time until a process is ready, on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);

/// How many lines of its log are shown when it fails.
const TAIL_LINES: usize = 8;

/// The argument with which `indelible demo` becomes another command, as a child that does not
/// outlive its parent.
pub(super) const CHILD_OF: &str = "--child-of";

/// A command of this same program that is run again and again.
#[derive(Debug)]
pub(super) struct Process {
    arguments: Vec<OsString>,
    /// The file that gets its standard error.
    log: PathBuf,
    running: Option<ServerProcess>,
}

#[derive(Debug)]
struct ServerProcess {
    child: Child,
    /// Resolves when the process closes its standard output, which it does when it ends.
    ended: oneshot::Receiver<()>,
}

impl Process {
    pub(super) fn new<S: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = S>,
        log: PathBuf,
    ) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
        Self { arguments: arguments.collect(), log, running: None }
    }

    /// Starts the process, and waits for its first line, which says that it is ready. Returns how
    /// long that took.
    ///
    /// Must be called on the main thread: the system ends a child when the thread that started it
    /// ends.
    pub(super) async fn start(&mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut child = self.spawn().map_err(|error| {
            Failure::new(format!("cannot start {}: {error}", self.name()))
                .hint("the demo starts its own executable, which must exist and be runnable")
        })?;
        let output = child.stdout.take().expect("it was asked for");
        let (ready, said) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            read(output, ready);
            drop(end);
        });
        self.running = Some(ServerProcess { child, ended });
        match timeout(READY_MAX, said).await {
            Ok(Ok(())) => Ok(began.elapsed()),
            Ok(Err(_)) => Err(self.failure("did not start")),
            Err(_) => Err(self.failure(&format!("is not ready after {READY_MAX:?}"))),
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["demo", CHILD_OF, &std::process::id().to_string(), "--"]);
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        // The user's settings for servers are not meant for this one, and its requests stay on this
        // machine.
        for (name, _) in std::env::vars_os() {
            let upper = name.to_string_lossy().to_uppercase();
            let foreign = ["INDELIBLE_", "OTEL_"].iter().any(|prefix| upper.starts_with(prefix));
            if foreign || upper.ends_with("_PROXY") {
                command.env_remove(&name);
            }
        }
        // Ctrl-C goes to the demo alone, which then ends its children.
        command.process_group(0);
        command.spawn()
    }

    /// The process id; 0 if it does not run.
    pub(super) fn id(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.child.id())
    }

    /// Kills it with SIGKILL. False: it had already ended by itself, without an error.
    pub(super) fn kill(&mut self) -> Result<bool, Failure> {
        let Some(mut running) = self.running.take() else { return Ok(false) };
        match running.child.try_wait() {
            Ok(None) => {
                drop(running);
                Ok(true)
            }
            Ok(Some(status)) if status.success() => Ok(false),
            Ok(Some(_)) | Err(_) => Err(self.failure("ended by itself")),
        }
    }

    /// Waits until it has ended by itself. Fails if it ended with an error.
    pub(super) async fn ended(&mut self) -> Result<(), Failure> {
        let Some(running) = &mut self.running else { return Ok(()) };
        // The error is expected: the sender is dropped when the output ends.
        _ = (&mut running.ended).await;
        let status = running.child.wait();
        self.running = None;
        match status {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure("ended by itself")),
        }
    }

    /// Whether the end of its log contains these words.
    pub(super) fn log_says(&self, words: &str) -> bool {
        tail(&self.log).iter().any(|line| line.contains(words))
    }

    /// An error about the process, with the end of its log.
    fn failure(&self, what: &str) -> Failure {
        Failure::new(format!("{} {what}", self.name()))
            .list(tail(&self.log))
            .hint("these are the last lines that it wrote; --keep DIR keeps everything")
    }

    fn name(&self) -> String {
        let words: Vec<_> = self.arguments.iter().map(|word| word.to_string_lossy()).collect();
        format!("`indelible {}`", words.join(" "))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The last lines of a log, without control characters.
pub(super) fn tail(log: &Path) -> Vec<String> {
    // The log contains text of guests, and a killed process may leave half a character.
    let log = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown.iter().map(|line| line.replace(char::is_control, " ")).collect()
}

/// Reports the first line, and reads on until the end.
fn read(output: ChildStdout, ready: oneshot::Sender<()>) {
    let mut output = BufReader::new(output);
    if output.read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
        // The receiver may have given up waiting.
        _ = ready.send(());
    }
    _ = std::io::copy(&mut output.by_ref(), &mut std::io::sink());
}

/// Becomes the command that follows, which the system ends when its parent is gone. Returns only if
/// that fails.
pub(super) fn become_child(parent: u32, arguments: &[OsString]) -> Failure {
    if !bound_to(parent) {
        return Failure::new("the process that this one belongs to is gone");
    }
    let failed = |error: &std::io::Error| Failure::new(format!("cannot start: {error}"));
    match std::env::current_exe() {
        Ok(program) => failed(&Command::new(program).args(arguments).exec()),
        Err(error) => failed(&error),
    }
}

/// Asks the system to end this process when its parent ends. False: the parent has already ended.
#[cfg(target_os = "linux")]
fn bound_to(parent: u32) -> bool {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return false;
    }
    // The parent may have ended before the request.
    getppid().is_some_and(|now| u32::try_from(now.as_raw_pid()).is_ok_and(|now| now == parent))
}

/// Other systems cannot be asked: a demo that is killed with SIGKILL leaves its children behind.
#[cfg(not(target_os = "linux"))]
fn bound_to(_: u32) -> bool {
    true
}
