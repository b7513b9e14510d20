//! Compiling: in this process, or in one of its own that may take so much time and memory.
//!
//! What a function costs to compile cannot be told from its bytes: one of 100 KB can take
//! milliseconds, or minutes and gigabytes, and the compiler cannot be interrupted. A process can be.
//! So a server compiles what it is given in another process, whose limits the kernel keeps; what
//! overflows its stack or exhausts its memory there does not take the server with it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;

use rustix::process::{Resource, Rlimit, Signal, nice, setrlimit};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifacts::trusted;
use super::guests::Guests;
use super::options::GuestOptions;
use super::setup;

/// Where components are compiled that are deployed.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// In this process, without limits: for components that are trusted, and for tests.
    #[default]
    Here,
    /// In a process of its own. Its `main` calls [`compile_for_parent`] with the two arguments that
    /// follow these.
    Process {
        /// What is started; the same program as this, or its artifacts cannot be loaded.
        program: PathBuf,
        /// Its first arguments.
        arguments: Vec<OsString>,
        /// Its whole environment. It needs nothing of what the server was told, secrets above all.
        environment: Vec<(OsString, OsString)>,
    },
}

/// What compiling a component may take in a process of its own. The limits grow with the component,
/// so that a small one cannot take what a large one needs.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    /// Seconds of processor time for any component.
    pub seconds: u64,
    /// As many more for each MiB of it.
    pub seconds_per_mib: u64,
    /// MiB of memory for any component, with what the process itself needs.
    pub memory_mib: u64,
    /// As many more for each MiB of it.
    pub memory_mib_per_mib: u64,
}

/// Four times what was measured, which is 1.7 seconds and 30 MiB for each MiB of the JavaScript
/// engine, and less for Python and Rust.
impl Default for CompileLimits {
    fn default() -> Self {
        Self { seconds: 10, seconds_per_mib: 4, memory_mib: 768, memory_mib_per_mib: 64 }
    }
}

impl CompileLimits {
    /// What a component of so many bytes may take: seconds, and MiB.
    fn of(&self, bytes: usize) -> (u64, u64) {
        let mib = (bytes as u64).div_ceil(1 << 20);
        (
            self.seconds.saturating_add(self.seconds_per_mib.saturating_mul(mib)),
            self.memory_mib.saturating_add(self.memory_mib_per_mib.saturating_mul(mib)),
        )
    }
}

/// Why a component was not compiled.
#[derive(Debug)]
pub(super) enum NotCompiled {
    /// It is not valid.
    Invalid(String),
    /// It took more than its limits.
    Stopped(String),
    /// The compiler's process could not be used.
    Failed(io::Error),
}

/// What the compiler's process answers with: this, and the artifact.
const DONE: u8 = 0;
/// What the compiler's process answers with: this, and why the component is not valid.
const INVALID: u8 = 1;

/// How much the compiler's process stands back when cores are short: it gets a third of the time that
/// another thread gets. Less, and a deployment to a busy server would take minutes.
const NICENESS: i32 = 5;

impl Guests {
    /// Compiles a component that is being deployed.
    pub(super) fn compile_deployed(&self, bytes: &[u8]) -> Result<Component, NotCompiled> {
        let Compiler::Process { program, arguments, environment } = &self.options.compiler else {
            let compiled = self.compile(bytes);
            return compiled.map_err(|error| NotCompiled::Invalid(format!("{error:#}")));
        };
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        let (seconds, memory_mib) = self.options.compile_limits.of(bytes.len());
        let child = Command::new(program)
            .args(arguments)
            .args([seconds.to_string(), memory_mib.to_string()])
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let (answer, status) =
            child.and_then(|child| talk(child, bytes)).map_err(NotCompiled::Failed)?;
        match answer.split_first() {
            Some((&DONE, artifact)) if status.success() => {
                let component = trusted(&self.engine, artifact);
                component
                    .map_err(|error| NotCompiled::Failed(io::Error::other(format!("{error:#}"))))
            }
            Some((&INVALID, error)) if status.success() => {
                Err(NotCompiled::Invalid(String::from_utf8_lossy(error).into_owned()))
            }
            _ => Err(stopped(status, seconds, memory_mib)),
        }
    }
}

/// Gives the compiler's process the component, and waits for its answer and its end.
fn talk(mut child: Child, bytes: &[u8]) -> io::Result<(Vec<u8>, ExitStatus)> {
    // It reads all before it answers. One that died meanwhile has a status that says more.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(bytes);
    }
    let mut answer = Vec::new();
    let read = match child.stdout.take() {
        Some(mut stdout) => stdout.read_to_end(&mut answer).map(drop),
        None => Ok(()),
    };
    let status = child.wait()?;
    read.map(|()| (answer, status))
}

/// Why there is no answer.
fn stopped(status: ExitStatus, seconds: u64, memory_mib: u64) -> NotCompiled {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    if signal == Some(Signal::XCPU.as_raw()) {
        let limit = format!("it took more than {seconds} seconds of processor time");
        return NotCompiled::Stopped(limit);
    }
    // Memory that cannot be had ends a process by a signal, or makes it panic.
    if signal.is_some() || status.code() == Some(PANICKED) {
        let limit = format!("it took more than {memory_mib} MiB of memory, or broke the compiler");
        return NotCompiled::Stopped(limit);
    }
    NotCompiled::Failed(io::Error::other(format!("the compiler's process ended with {status}")))
}

/// What a process exits with whose main thread panicked.
const PANICKED: i32 = 101;

/// What the compiler's process does: takes a component from stdin and answers on stdout. The
/// arguments are those that followed [`Compiler::Process`]'s own. It returns when it has answered.
pub fn compile_for_parent(mut arguments: impl Iterator<Item = String>) -> io::Result<()> {
    let mut number = || {
        let number = arguments.next().and_then(|argument| argument.parse::<u64>().ok());
        number.ok_or_else(|| io::Error::other("this is started by `indelible` itself"))
    };
    let (seconds, memory_mib) = (number()?, number()?);
    // Without its server the answer has no reader: the kernel ends this process with it.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let at_most = |max| Rlimit { current: Some(max), maximum: Some(max) };
    // No core files of what runs out of anything.
    setrlimit(Resource::Core, at_most(0))?;
    // One second more before it is killed, so that the signal says that it was the time.
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 1) })?;
    setrlimit(Resource::As, at_most(memory_mib << 20))?;
    // Where it is not allowed, it compiles all the same.
    let _ = nice(NICENESS);

    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let artifact = compile(&bytes);
    let mut stdout = io::stdout().lock();
    match artifact {
        Ok(artifact) => {
            stdout.write_all(&[DONE])?;
            stdout.write_all(&artifact)?;
        }
        Err(error) => {
            stdout.write_all(&[INVALID])?;
            stdout.write_all(format!("{error:#}").as_bytes())?;
        }
    }
    stdout.flush()
}

fn compile(bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let engine: Engine = setup::compiling_engine(&GuestOptions::default())?;
    engine.precompile_component(bytes)
}
