//! Compiling: in this process, or in one of its own with limits on time and memory.
//!
//! The cost of compiling a function cannot be told from its bytes: 100 KB can take milliseconds, or
//! minutes and gigabytes, and the compiler cannot be interrupted. A process can be. So a server
//! compiles components in another process, whose limits the kernel enforces; a compiler that
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

/// Where deployed components are compiled.
#[derive(Debug, Clone, Default)]
pub enum Compiler {
    /// In this process, without limits: for components that are trusted, and for tests.
    #[default]
    Here,
    /// In a process of its own. Its `main` calls [`compile_for_parent`] with the two arguments that
    /// follow these.
    Process {
        /// The program that is started. It must be the same as this one, or its artifacts cannot be
        /// loaded.
        program: PathBuf,
        /// Its first arguments.
        arguments: Vec<OsString>,
        /// Its whole environment. It needs nothing of the server's, least of all secrets.
        environment: Vec<(OsString, OsString)>,
    },
}

/// What compiling a component may take in a process of its own. The limits grow with the component,
/// so that a small one cannot take what a large one needs.
#[derive(Debug, Clone, Copy)]
pub struct CompileLimits {
    /// Seconds of processor time for any component.
    pub seconds: u64,
    /// More seconds for each MiB of the component.
    pub seconds_per_mib: u64,
    /// MiB of memory for any component, including what the process itself needs.
    pub memory_mib: u64,
    /// More MiB of memory for each MiB of the component.
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
pub(super) enum CompileError {
    /// It is not valid.
    Invalid(String),
    /// It took more than its limits.
    Stopped(String),
    /// The compiler's process could not be used.
    Failed(io::Error),
}

/// The compiler's process answers with this byte, and then the artifact.
const DONE: u8 = 0;
/// The compiler's process answers with this byte, and then why the component is not valid.
const INVALID: u8 = 1;

/// The nice value of the compiler's process: when cores are short, it gets a third of the time that
/// another thread gets. With less, a deployment to a busy server would take minutes.
const NICENESS: i32 = 5;

impl Guests {
    /// Compiles a component that is being deployed.
    pub(super) fn compile_deployed(&self, bytes: &[u8]) -> Result<Component, CompileError> {
        let Compiler::Process { program, arguments, environment } = &self.options.compiler else {
            let compiled = self.compile(bytes);
            return compiled.map_err(|error| CompileError::Invalid(format!("{error:#}")));
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
            child.and_then(|child| talk(child, bytes)).map_err(CompileError::Failed)?;
        match answer.split_first() {
            Some((&DONE, artifact)) if status.success() => {
                let component = trusted(&self.engine, artifact);
                component
                    .map_err(|error| CompileError::Failed(io::Error::other(format!("{error:#}"))))
            }
            Some((&INVALID, error)) if status.success() => {
                Err(CompileError::Invalid(String::from_utf8_lossy(error).into_owned()))
            }
            _ => Err(stopped(status, seconds, memory_mib)),
        }
    }
}

/// Gives the compiler's process the component, and waits for its answer and its end.
fn talk(mut child: Child, bytes: &[u8]) -> io::Result<(Vec<u8>, ExitStatus)> {
    // The process reads all before it answers. If it died meanwhile, its status says more than this
    // error.
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

/// Why the compiler's process gave no answer.
fn stopped(status: ExitStatus, seconds: u64, memory_mib: u64) -> CompileError {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    if signal == Some(Signal::XCPU.as_raw()) {
        let limit = format!("it took more than {seconds} seconds of processor time");
        return CompileError::Stopped(limit);
    }
    // A process that runs out of memory ends by a signal, or panics.
    if signal.is_some() || status.code() == Some(PANICKED) {
        let limit =
            format!("it took more than {memory_mib} MiB of memory, or crashed the compiler");
        return CompileError::Stopped(limit);
    }
    CompileError::Failed(io::Error::other(format!("the compiler's process ended with {status}")))
}

/// The exit code of a process whose main thread panicked.
const PANICKED: i32 = 101;

/// The main function of the compiler's process: reads a component from stdin and answers on stdout.
/// The arguments are those that follow [`Compiler::Process`]'s own. Returns when it has answered.
pub fn compile_for_parent(mut arguments: impl Iterator<Item = String>) -> io::Result<()> {
    let mut number = || {
        let number = arguments.next().and_then(|argument| argument.parse::<u64>().ok());
        number.ok_or_else(|| {
            io::Error::other("this command is internal: `indelible` starts it itself")
        })
    };
    let (seconds, memory_mib) = (number()?, number()?);
    // Without its server the answer has no reader: the kernel ends this process with the server.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let at_most = |max| Rlimit { current: Some(max), maximum: Some(max) };
    // No core files when a limit is met.
    setrlimit(Resource::Core, at_most(0))?;
    // The kill comes a second later, so that the first signal shows that the time was the reason.
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 1) })?;
    setrlimit(Resource::As, at_most(memory_mib << 20))?;
    // If this is not allowed, it compiles all the same.
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
