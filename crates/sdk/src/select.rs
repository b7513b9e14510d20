//! [`select!`](crate::select!): waits for the first of promises, timers and a signal, whatever
//! their types.
//!
//! What is waited for is a list of pairs that ends with `()`, and what came of it a nest of
//! [`Either`], so there is no limit to how many there are and every arm has its own type.

use std::convert::Infallible;

use crate::error::{Error, Failure};
use crate::host::{self, SignalOrSettled};
use crate::payload::Decode;
use crate::promise::Promise;
use crate::signal::Signal;

/// Waits for the first of several things, of different types if need be, and runs its arm.
///
/// The arms are promises, [timers](crate::timer()) and at most one [signal](crate::signal()). The
/// value is a `Result`: it is an error if the winner failed or this execution is being cancelled.
/// The others go on and can be awaited again; a signal that did not win stays.
///
/// ```no_run
/// # use indelible_sdk::prelude::*;
/// # fn demo(shipped: Promise<String>) -> Result<(), Error> {
/// let text = select! {
///     parcel = shipped => format!("shipped as {parcel}"),
///     reason = signal::<String>("stop") => format!("stopped: {reason}"),
///     _ = timer(Duration::from_secs(3600)) => "an hour is over".to_owned(),
/// }?;
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! select {
    ($($pattern:pat = $source:expr => $arm:expr),+ $(,)?) => {{
        let sources = $crate::select!(@sources $($source,)+);
        match $crate::__private::first(&sources) {
            ::core::result::Result::Ok(winner) => {
                ::core::result::Result::Ok($crate::select!(@arms winner $(($pattern, $arm))+))
            }
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    }};
    (@sources) => { () };
    (@sources $source:expr, $($rest:tt)*) => { (&$source, $crate::select!(@sources $($rest)*)) };
    (@arms $winner:ident) => { match $winner {} };
    (@arms $winner:ident ($pattern:pat, $arm:expr) $($rest:tt)*) => {
        match $winner {
            $crate::__private::Either::This($pattern) => $arm,
            $crate::__private::Either::Other(other) => $crate::select!(@arms other $($rest)*),
        }
    };
}

/// The first of a list, or one of the rest.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The first.
    This(A),
    /// One of the rest.
    Other(B),
}

/// What is being waited for.
#[derive(Debug, Default)]
pub struct Waiting<'a> {
    promises: Vec<host::Promise>,
    signal: Option<&'a str>,
    /// A source had ended before the wait: a call that never began.
    over: bool,
}

/// What came first.
#[derive(Debug)]
pub enum First {
    /// The signal.
    Signal(host::Payload),
    /// One of the promises.
    Settled(host::Settled),
    /// A call that never began.
    Refused,
}

/// Something that can be waited for beside others.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be waited for",
    note = "the arms of `select!` are promises, `timer(…)` and `signal(…)`"
)]
pub trait Source {
    /// What it comes to.
    type Output;
    /// Joins the wait.
    fn join<'a>(&'a self, waiting: &mut Waiting<'a>);
    /// Its outcome, if it was the first; otherwise what was.
    fn claim(&self, first: First) -> Result<Result<Self::Output, Failure>, First>;
}

impl<T> Source for Promise<T> {
    type Output = T;

    fn join<'a>(&'a self, waiting: &mut Waiting<'a>) {
        match self.number() {
            Ok(number) => waiting.promises.push(number),
            Err(_) => waiting.over = true,
        }
    }

    fn claim(&self, first: First) -> Result<Result<T, Failure>, First> {
        match (first, self.number()) {
            (First::Refused, Err(refused)) => Ok(Err(refused.clone())),
            (First::Settled(settled), Ok(number)) if settled.promise == number => {
                Ok(self.read(settled.outcome))
            }
            (first, _) => Err(first),
        }
    }
}

impl<T: Decode> Source for Signal<T> {
    type Output = T;

    fn join<'a>(&'a self, waiting: &mut Waiting<'a>) {
        let other = waiting.signal.replace(self.name());
        assert!(other.is_none(), "a `select!` can wait for one signal only");
    }

    fn claim(&self, first: First) -> Result<Result<T, Failure>, First> {
        match first {
            First::Signal(payload) => Ok(self.read(payload)),
            first => Err(first),
        }
    }
}

/// A list of sources.
pub trait Sources {
    /// What the winner comes to, and which it is.
    type Winner;
    /// All join the wait.
    fn join<'a>(&'a self, waiting: &mut Waiting<'a>);
    /// The outcome of the one that was first.
    fn claim(&self, first: First) -> Result<Self::Winner, Failure>;
}

impl Sources for () {
    type Winner = Infallible;

    fn join<'a>(&'a self, _waiting: &mut Waiting<'a>) {}

    fn claim(&self, _first: First) -> Result<Infallible, Failure> {
        unreachable!("the host answers with something that was waited for")
    }
}

impl<S: Source, R: Sources> Sources for (&S, R) {
    type Winner = Either<S::Output, R::Winner>;

    fn join<'a>(&'a self, waiting: &mut Waiting<'a>) {
        self.0.join(waiting);
        self.1.join(waiting);
    }

    fn claim(&self, first: First) -> Result<Self::Winner, Failure> {
        match self.0.claim(first) {
            Ok(outcome) => outcome.map(Either::This),
            Err(first) => self.1.claim(first).map(Either::Other),
        }
    }
}

/// Waits for the first of a list of sources.
#[expect(clippy::missing_errors_doc, reason = "`select!` says it")]
pub fn first<S: Sources>(sources: &S) -> Result<S::Winner, Error> {
    let mut waiting = Waiting::default();
    sources.join(&mut waiting);
    let first = match waiting {
        Waiting { over: true, .. } => First::Refused,
        Waiting { signal: Some(name), promises, .. } => {
            match host::await_signal_or(name, &promises).map_err(Error::cancelled)? {
                SignalOrSettled::Signal(payload) => First::Signal(payload),
                SignalOrSettled::Settled(settled) => First::Settled(settled),
            }
        }
        Waiting { promises, .. } => {
            First::Settled(host::await_any(&promises).map_err(Error::cancelled)?)
        }
    };
    sources.claim(first).map_err(Error::Failed)
}
