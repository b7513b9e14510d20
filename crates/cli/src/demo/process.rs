//! A process that is started, killed and started again: the server, and the retry loop. None of them
//! outlives the demonstration.
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

/// The longest that a process may take to be ready, on a machine that has much else to do.
const READY_MAX: Duration = Duration::from_secs(60);

/// How many of the last lines of its log are shown when it fails.
const TAIL_LINES: usize = 8;

/// The argument of `indelible demo` with which it becomes another command, as a child that does not
/// outlive this process.
pub(super) const CHILD_OF: &str = "--child-of";

/// A command of this same program that is run again and again.
#[derive(Debug)]
pub(super) struct Process {
    arguments: Vec<OsString>,
    /// Where its standard error goes.
    log: PathBuf,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Comes when it has closed its standard output, that is when it has ended.
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

    /// Starts it, and waits for its first line, with which it says that it is ready. Returns how
    /// long that took.
    ///
    /// It must be called on the main thread: a child is told of the end of the thread that made it.
    pub(super) async fn start(&mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut child = self.spawn().map_err(|error| {
            Failure::new(format!("cannot start {}: {error}", self.name()))
                .hint("the demo starts its own executable: it must be there, and runnable")
        })?;
        let output = child.stdout.take().expect("it was asked for");
        let (ready, said) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            read(output, ready);
            drop(end);
        });
        self.running = Some(Running { child, ended });
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
        // What is set for servers of the user's is not meant for this one, and what it sends stays
        // on this machine.
        for (name, _) in std::env::vars_os() {
            let upper = name.to_string_lossy().to_uppercase();
            let foreign = ["INDELIBLE_", "OTEL_"].iter().any(|prefix| upper.starts_with(prefix));
            if foreign || upper.ends_with("_PROXY") {
                command.env_remove(&name);
            }
        }
        // A Ctrl-C is for the demo, which ends it.
        command.process_group(0);
        command.spawn()
    }

    /// Its number, while it runs.
    pub(super) fn id(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.child.id())
    }

    /// Kills it, with SIGKILL. False: it had ended by itself, as it should.
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

    /// Waits until it has ended by itself. Err: not as it should.
    pub(super) async fn ended(&mut self) -> Result<(), Failure> {
        let Some(running) = &mut self.running else { return Ok(()) };
        // An error: the sender was dropped, which is how it is told.
        _ = (&mut running.ended).await;
        let status = running.child.wait();
        self.running = None;
        match status {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure("ended by itself")),
        }
    }

    /// Whether something stands in the end of its log.
    pub(super) fn log_says(&self, words: &str) -> bool {
        tail(&self.log).iter().any(|line| line.contains(words))
    }

    /// What is wrong with it, and the end of its log.
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

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The last lines of a log, without what would move a cursor.
pub(super) fn tail(log: &Path) -> Vec<String> {
    // A guest's words are in it, and a process that is killed may leave half a character.
    let log = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown.iter().map(|line| line.replace(char::is_control, " ")).collect()
}

/// Tells of the first line, and reads on until there is no more.
fn read(output: ChildStdout, ready: oneshot::Sender<()>) {
    let mut output = BufReader::new(output);
    if output.read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
        // Whoever waited may have given up.
        _ = ready.send(());
    }
    _ = std::io::copy(&mut output.by_ref(), &mut std::io::sink());
}

/// Becomes the command that follows, which the system ends when the process that started it is gone.
/// Comes back only if that cannot be done.
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

/// Asks the system for the end of this process when its parent ends. False: it is too late.
#[cfg(target_os = "linux")]
fn bound_to(parent: u32) -> bool {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return false;
    }
    // It may have ended before it was asked for.
    getppid().is_some_and(|now| u32::try_from(now.as_raw_pid()).is_ok_and(|now| now == parent))
}

/// Elsewhere nobody is asked: a demo that is killed with SIGKILL leaves its children behind.
#[cfg(not(target_os = "linux"))]
fn bound_to(_: u32) -> bool {
    true
}
