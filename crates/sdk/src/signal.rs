//! Signals: messages from outside to a running execution.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Failure};
use crate::host::{self, SignalOrSettled};
use crate::payload::{Decode, Payload};
use crate::time;

/// Signals of one name to this execution. They are taken in the order in which they came, also
/// those that came before the function waited.
pub struct Signal<T> {
    name: Cow<'static, str>,
    takes: PhantomData<fn() -> T>,
}

/// The signals of this name.
///
/// ```no_run
/// # use indelible_sdk::prelude::*;
/// # fn demo() -> Result<(), Error> {
/// let approved: bool = signal("approval").wait()?;
/// # Ok(()) }
/// ```
pub fn signal<T: Decode>(name: impl Into<Cow<'static, str>>) -> Signal<T> {
    Signal { name: name.into(), takes: PhantomData }
}

impl<T: Decode> Signal<T> {
    /// Waits for the next signal.
    ///
    /// # Errors
    /// This execution is being cancelled, or the signal carries something else than a `T`.
    pub fn wait(&self) -> Result<T, Error> {
        let payload = host::await_signal(&self.name).map_err(Error::cancelled)?;
        self.read(payload).map_err(Error::Failed)
    }

    /// Waits for the next signal, but no longer than this: `None` says that the time is over, and
    /// a signal that comes later stays for a later wait.
    ///
    /// # Errors
    /// As [`wait`](Signal::wait).
    pub fn wait_for(&self, time: Duration) -> Result<Option<T>, Error> {
        let timer = host::start_timer(time::micros(time));
        match host::await_signal_or(&self.name, &[timer]).map_err(Error::cancelled)? {
            SignalOrSettled::Signal(payload) => self.read(payload).map(Some).map_err(Error::Failed),
            SignalOrSettled::Settled(_) => Ok(None),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn read(&self, payload: host::Payload) -> Result<T, Failure> {
        T::decode(Payload::from_host(payload)).map_err(|why| {
            let message =
                format!("the signal {} does not match the expected type: {why}", self.name);
            Failure::new(ErrorKind::UserError, message)
        })
    }
}

impl<T> fmt::Debug for Signal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.name).finish()
    }
}
