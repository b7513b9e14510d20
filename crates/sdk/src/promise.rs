//! Promises: calls and timers that were started, and how to wait for them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Failure};
use crate::function::{Function, Listed};
use crate::host;
use crate::payload::{Decode, Encode, Payload};
use crate::time;

/// A call or a timer that was started. It goes on by itself; [`wait`](Promise::wait) is for its
/// result.
///
/// A promise that is dropped is still carried through, while its caller goes on. When the caller
/// returns, what it has in flight is cancelled: wait for what must happen.
#[must_use = "nobody waits for this call: it is cancelled when the function returns"]
pub struct Promise<T> {
    state: State,
    /// What it is, for messages: the name of a function.
    what: Cow<'static, str>,
    decode: Decoder<T>,
}

/// Makes a value of bytes, or says why not.
pub(crate) type Decoder<T> = fn(Payload) -> Result<T, String>;

#[derive(Debug, Clone)]
enum State {
    Started(host::Promise),
    /// The call never began.
    Refused(Failure),
}

/// Calls a function by its name: `function` in this component, or `component/function` in the
/// version of another that is active now. What it takes is encoded as a function of the SDK
/// expects it: nothing as `()`, one argument as itself, several as a tuple.
///
/// ```no_run
/// # use indelible_sdk::prelude::*;
/// # fn demo() -> Result<(), Error> {
/// let receipt: String = call_remote("payments/charge", &("card 1", 500)).wait()?;
/// # Ok(()) }
/// ```
pub fn call_remote<T: Decode>(
    function: impl Into<Cow<'static, str>>,
    input: &impl Encode,
) -> Promise<T> {
    let what = function.into();
    let started = input.encode().map_err(|why| {
        Failure::new(ErrorKind::UserError, format!("the input cannot be encoded: {why}"))
    });
    let state = started.and_then(|input| {
        host::call(&what, &input.into_host())
            .map_err(|failure| Failure::from_host(failure, Some(&what)))
    });
    Promise { state: state.map_or_else(State::Refused, State::Started), what, decode: T::decode }
}

/// Calls a function of this component: what `#[function]` makes of `name::call(…)`.
pub fn call_own<F: Function + Listed, T: Decode>(input: &impl Encode) -> Promise<T> {
    #[cfg(all(feature = "test-host", not(target_family = "wasm")))]
    crate::testing::learn(F::component());
    call_remote(F::DEFINITION.name, input)
}

impl<T> Promise<T> {
    /// A promise that the host gave out.
    pub(crate) fn started(
        number: host::Promise,
        what: impl Into<Cow<'static, str>>,
        decode: Decoder<T>,
    ) -> Self {
        Self { state: State::Started(number), what: what.into(), decode }
    }

    /// One that never began.
    pub(crate) fn refused(
        failure: Failure,
        what: impl Into<Cow<'static, str>>,
        decode: Decoder<T>,
    ) -> Self {
        Self { state: State::Refused(failure), what: what.into(), decode }
    }

    /// Waits for the result, for years if need be.
    ///
    /// # Errors
    /// [`Error::Failed`] if the call failed. [`Error::Cancelled`] if this execution is being
    /// cancelled: the call goes on, and waiting again tells how it ended.
    pub fn wait(&self) -> Result<T, Error> {
        match &self.state {
            State::Started(number) => {
                let outcome = host::await_one(*number).map_err(Error::cancelled)?;
                self.read(outcome).map_err(Error::Failed)
            }
            State::Refused(failure) => Err(Error::Failed(failure.clone())),
        }
    }

    /// Waits for the result even if this execution is being cancelled meanwhile: for what must be
    /// carried through, such as undoing what was done.
    ///
    /// # Errors
    /// The call failed.
    pub fn wait_through(&self) -> Result<T, Failure> {
        loop {
            match self.wait() {
                Ok(value) => return Ok(value),
                Err(Error::Failed(failure)) => return Err(failure),
                // A cancel is told once, so the next wait goes on.
                Err(Error::Cancelled(_)) => {}
            }
        }
    }

    /// Waits for the result, but no longer than this: `None` says that the time is over. The call
    /// goes on, and can be awaited again.
    ///
    /// # Errors
    /// As [`wait`](Promise::wait).
    pub fn wait_timeout(&self, time: Duration) -> Result<Option<T>, Error> {
        let State::Started(number) = &self.state else { return self.wait().map(Some) };
        let timer = host::start_timer(time::micros(time));
        let settled = host::await_any(&[*number, timer]).map_err(Error::cancelled)?;
        if settled.promise == timer {
            return Ok(None);
        }
        self.read(settled.outcome).map(Some).map_err(Error::Failed)
    }

    /// Its number, or why it has none.
    pub(crate) fn number(&self) -> Result<host::Promise, &Failure> {
        match &self.state {
            State::Started(number) => Ok(*number),
            State::Refused(failure) => Err(failure),
        }
    }

    /// What an outcome means.
    pub(crate) fn read(&self, outcome: host::Outcome) -> Result<T, Failure> {
        read(outcome, &self.what, self.decode)
    }

    /// What it takes to read an outcome later, without the promise.
    pub(crate) fn into_parts(self) -> (Cow<'static, str>, Decoder<T>) {
        (self.what, self.decode)
    }
}

/// What an outcome of a function means.
pub(crate) fn read<T>(
    outcome: host::Outcome,
    what: &str,
    decode: Decoder<T>,
) -> Result<T, Failure> {
    let payload = outcome.map_err(|failure| Failure::from_host(failure, Some(what)))?;
    decode(Payload::from_host(payload)).map_err(|why| {
        let mut failure = Failure::new(
            ErrorKind::UserError,
            format!("the return value does not match the type that the caller expects: {why}"),
        );
        failure.function = Some(what.to_owned());
        failure
    })
}

/// A timer's promise.
pub(crate) fn timer(duration: Duration) -> Promise<()> {
    Promise {
        state: State::Started(host::start_timer(time::micros(duration))),
        what: Cow::Borrowed("timer"),
        decode: |_| Ok(()),
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("of", &self.what).field("state", &self.state).finish()
    }
}
