//! Checks whether bytes are a guest that can be run, before any execution is pinned to them.

use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use indelible_journal::{ComponentDigest, Failure, Micros, Payload, Timestamp};
use indelible_records::labels::Label;
use wasmtime::{PoolConcurrencyLimitError, Store};

use super::compile::CompileError;
use super::compilers::{Busy, CompilerPermit};
use super::failure::trapped;
use super::guests::Guests;
use super::host::{Context, Host, Level, Refusal, WaitRequest, WaitResult};
use super::imports::FUNCTIONS;
use super::inspect::{Excess, Fault, inspect};
use super::interface::{
    CONTRACT_VERSION, Misfits, foreign_imports, missing_exports, mistyped_exports, other_version,
};
use super::manifest::{Manifest, ManifestError, check};
use super::program::{Program, ProgramEntry};
use super::run::{GuestEnd, Progress, StartError, Stop};
use super::state::State;
use super::wire;

/// A component that can be run.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Its version.
    pub digest: ComponentDigest,
    /// What it offers.
    pub manifest: Manifest,
    /// The loaded component.
    pub program: Arc<Program>,
}

/// Why a component is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeployError {
    /// It is too large.
    #[error("the component has {bytes} bytes; at most {max} are allowed")]
    TooLarge {
        /// How large.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// It is not WebAssembly at all.
    #[error("this is not a WebAssembly component")]
    NotWasm,
    /// It is WebAssembly, but not a component.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// It is malformed, or uses features that guests cannot have.
    #[error("the component is not valid: {0}")]
    Invalid(String),
    /// Compiling it would take too much time or memory.
    #[error("the component exceeds a limit: {0}")]
    TooComplex(Excess),
    /// It was built for another version of the contract.
    #[error(
        "the component was built for version {theirs} of the SDK's contract, but this server \
         supports {ours}: give its project the SDK of this version with `indelible sdk`, and build it \
         again"
    )]
    Version {
        /// The version that it was built for.
        theirs: String,
        /// The version that this server knows.
        ours: &'static str,
    },
    /// It imports functions that the host does not have.
    #[error("the component imports what guests do not have: {0}")]
    Imports(Misfits),
    /// It lacks exports that every guest has.
    #[error("the component is not a guest of Indelible: {0}")]
    Exports(Misfits),
    /// Its `describe` failed.
    #[error("the component cannot describe itself: {}", .0.message)]
    Describe(Failure),
    /// Its description of itself is not accepted.
    #[error("the component's description of itself is invalid")]
    Manifest(#[from] ManifestError),
    /// Compiling it took too much time or memory.
    #[error("the compilation of the component was stopped: {0}")]
    Stopped(String),
    /// The process that compiles could not be used.
    #[error("the compiler could not be run")]
    Compiler(#[source] io::Error),
    /// Other components are being compiled, and as many wait as may.
    #[error("{waiting} components are already waiting to be compiled, which is the limit")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// There is no place to run it in, now.
    #[error("the component cannot be asked to describe itself now")]
    Start(#[from] StartError),
}

impl DeployError {
    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooComplex(excess) => Some(excess.bound.hint()),
            Self::Stopped(_) => Some(
                "build with optimisation (`--release`), split the largest functions, or deploy the \
                 functions as several components",
            ),
            Self::Busy { .. } => Some("deploy it again later"),
            Self::NotWasm => Some("deploy the .wasm file that the build wrote"),
            Self::CoreModule => Some(
                "build with `linker = \"wasm-component-ld\"` for the target, or wrap the module with \
                 `wasm-tools component new`",
            ),
            Self::Imports(misfits) if misfits.0.iter().any(|m| m.name.starts_with("wasi:")) => {
                Some(
                    "build for wasm32-unknown-unknown, and take time, randomness and input from the \
                 guest SDK",
                )
            }
            Self::Imports(_) | Self::Exports(_) => {
                Some("build against the WIT of this server's guest SDK")
            }
            _ => None,
        }
    }
}

impl Guests {
    /// Checks that a component keeps to the contract, and what it offers. It is compiled, and its
    /// `describe` is run with a host that refuses everything. This may take seconds, and needs
    /// [`Guests::tick`] for `describe` to be held to its time.
    ///
    /// Nothing is kept of a component that is refused.
    pub fn deploy_check(&self, bytes: &[u8]) -> Result<Deployed, DeployError> {
        self.admit(bytes)?.check()
    }

    /// Checks all that can be known of a component without compiling it, and waits for a permit to
    /// compile it, which it holds until [`AdmittedComponent::check`] or until it is dropped.
    pub fn admit<'a>(&'a self, bytes: &'a [u8]) -> Result<AdmittedComponent<'a>, DeployError> {
        check_header(bytes, self.options.component_bytes_max)?;
        let digest = ComponentDigest::of(bytes);
        let room = match self.programs.get(digest) {
            Some(_) => None,
            None => {
                self.inspect(bytes)?;
                let room = self.compilers.enter(bytes.len());
                Some(room.map_err(|Busy { waiting }| DeployError::Busy { waiting })?)
            }
        };
        Ok(AdmittedComponent { guests: self, digest, bytes, _room: room })
    }

    /// Refuses a component that is beyond the bounds, or whose imports and exports have other names
    /// than the contract's.
    fn inspect(&self, bytes: &[u8]) -> Result<(), DeployError> {
        let inspected = inspect(bytes, self.options.limits.table_elements_max);
        let inspected = inspected.map_err(|fault| match fault {
            Fault::Malformed(error) => DeployError::Invalid(error),
            Fault::Excess(excess) => DeployError::TooComplex(excess),
        })?;
        let foreign = foreign_imports(&inspected.imports, |name| FUNCTIONS.contains(&name));
        if let Some(theirs) = other_version(&foreign) {
            return Err(DeployError::Version { theirs, ours: CONTRACT_VERSION });
        }
        if !foreign.is_empty() {
            return Err(DeployError::Imports(Misfits(foreign)));
        }
        let missing = missing_exports(&inspected.exports);
        if !missing.is_empty() {
            return Err(DeployError::Exports(Misfits(missing)));
        }
        Ok(())
    }

    /// Checks and loads a component. It holds the entry's lock: other threads that load the same
    /// component wait for it.
    fn check_into(
        &self,
        entry: &ProgramEntry,
        digest: ComponentDigest,
        bytes: &[u8],
    ) -> Result<Deployed, DeployError> {
        let mut loaded = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*loaded {
            let program = program.clone();
            return Ok(Deployed { digest, manifest: self.describe(&program)?, program });
        }
        let component = self.compile_deployed(bytes).map_err(|why| match why {
            CompileError::Invalid(error) => DeployError::Invalid(error),
            CompileError::Stopped(limit) => DeployError::Stopped(limit),
            CompileError::Failed(error) => DeployError::Compiler(error),
        })?;
        let mistyped = mistyped_exports(&self.engine, &component);
        if !mistyped.is_empty() {
            return Err(DeployError::Exports(Misfits(mistyped)));
        }
        // The exports fit; the only fault left to find is an import of another type.
        let program = Program::new(self, digest, &component)
            .map_err(|error| DeployError::Invalid(format!("{error:#}")))?;
        let program = Arc::new(program);
        let manifest = self.describe(&program)?;
        self.keep(digest, &component);
        *loaded = Some(program.clone());
        Ok(Deployed { digest, manifest, program })
    }

    fn describe(&self, program: &Arc<Program>) -> Result<Manifest, DeployError> {
        let _one_at_a_time = self.describing.lock().unwrap_or_else(PoisonError::into_inner);
        let store = self.store(&self.options.limits, self.rules.describe_budget, Box::new(Nothing));
        let pause = store.data().pause.clone();
        let mut fiber = Self::fiber(pause, describe(store, program.clone()));
        loop {
            match fiber.poll() {
                // A yield: it has a budget, and waits are refused.
                Progress::Suspended(_) => {}
                Progress::Done(GuestEnd::Ended(Ok(functions))) => return Ok(check(functions)?),
                Progress::Done(GuestEnd::Ended(Err(Stop::Trapped(failure)))) => {
                    return Err(DeployError::Describe(failure));
                }
                Progress::Done(_) | Progress::Gone => return Err(self.full().into()),
            }
        }
    }
}

/// A component that may be compiled, and the permit for that.
pub struct AdmittedComponent<'a> {
    guests: &'a Guests,
    digest: ComponentDigest,
    bytes: &'a [u8],
    /// None for a component that is loaded: there is nothing to compile.
    _room: Option<CompilerPermit<'a>>,
}

impl AdmittedComponent<'_> {
    /// The rest of [`Guests::deploy_check`].
    pub fn check(self) -> Result<Deployed, DeployError> {
        let Self { guests, digest, bytes, .. } = self;
        let deployed = guests.check_into(&guests.programs.entry(digest), digest, bytes);
        if deployed.is_err() {
            guests.programs.remove_empty(digest);
        }
        deployed
    }
}

impl std::fmt::Debug for AdmittedComponent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AdmittedComponent({:#})", self.digest)
    }
}

fn check_header(bytes: &[u8], max: usize) -> Result<(), DeployError> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE: &[u8] = &[1, 0, 0, 0];
    if bytes.len() > max {
        return Err(DeployError::TooLarge { bytes: bytes.len(), max });
    }
    match bytes.strip_prefix(MAGIC) {
        None => Err(DeployError::NotWasm),
        Some(rest) if rest.starts_with(CORE) => Err(DeployError::CoreModule),
        Some(_) => Ok(()),
    }
}

/// Asks a component what it offers.
async fn describe(
    mut store: Store<State>,
    program: Arc<Program>,
) -> GuestEnd<Result<Vec<wire::Function>, Stop>> {
    let described = async {
        let instance = program.pre.instantiate_async(&mut store).await?;
        let describe = program.describe(&mut store, &instance)?;
        describe.call_async(&mut store, ()).await
    }
    .await;
    match described {
        Ok((functions,)) => GuestEnd::Ended(Ok(functions)),
        Err(error) if error.is::<PoolConcurrencyLimitError>() => GuestEnd::Full,
        Err(error) => GuestEnd::Ended(Err(trapped(&error, store.data().panic.as_ref()))),
    }
}

/// The host of a component that is asked to describe itself: its description must not depend on
/// anything.
struct Nothing;

impl Nothing {
    fn refuse<T>(what: &str) -> Result<T, Refusal> {
        Err(Refusal::Trap(format!("`describe` must not use the host, but called `{what}`")))
    }
}

impl Host for Nothing {
    fn call(&mut self, _: &str, _: Payload) -> Result<Result<u32, Failure>, Refusal> {
        Self::refuse("call")
    }

    fn http(
        &mut self,
        _: indelible_http::Request,
        _: Result<indelible_journal::RetryPolicy, String>,
    ) -> Result<u32, Refusal> {
        Self::refuse("send-http")
    }

    fn start_timer(&mut self, _: Micros) -> Result<u32, Refusal> {
        Self::refuse("start-timer")
    }

    fn wait(&mut self, want: &WaitRequest) -> Result<Poll<WaitResult>, Refusal> {
        Self::refuse(match want {
            WaitRequest::One(_) => "await-one",
            WaitRequest::Any(_) => "await-any",
            WaitRequest::All(_) => "await-all",
            WaitRequest::Signal(_) => "await-signal",
            WaitRequest::SignalOr(..) => "await-signal-or",
            WaitRequest::Next(_) => "next",
            WaitRequest::TakeAll(_) => "take-all",
        })
    }

    fn create_join_set(&mut self) -> Result<u32, Refusal> {
        Self::refuse("create-join-set")
    }

    fn submit(&mut self, _: u32, _: u32) -> Result<(), Refusal> {
        Self::refuse("submit")
    }

    fn now(&mut self) -> Result<Timestamp, Refusal> {
        Self::refuse("now")
    }

    fn random(&mut self, _: u32) -> Result<Bytes, Refusal> {
        Self::refuse("random")
    }

    fn context(&mut self) -> Context {
        // `context` cannot be refused, and there is no execution to describe.
        Context {
            execution_id: String::new(),
            attempt: 0,
            parent_id: None,
            function: "describe".into(),
        }
    }

    fn label(&mut self, _: Label) -> Result<(), Refusal> {
        Self::refuse("label")
    }

    fn log(&mut self, _: Level, _: String, _: Vec<(String, String)>) -> Result<(), Refusal> {
        Self::refuse("log")
    }

    fn is_live(&mut self) -> bool {
        true
    }
}
