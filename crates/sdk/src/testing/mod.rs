//! Tests of functions: a host in the test's own process.
//!
//! A [`TestHost`] runs a function as a server does: the same code decides what may follow what, when
//! something is tried again, what a cancel does and what a replay must meet. The time does not pass:
//! when everything waits, it moves to what is due next. HTTP requests, and calls of other components,
//! are answered by the test.
//!
//! ```
//! use indelible_sdk::prelude::*;
//! use indelible_sdk::testing::TestHost;
//!
//! #[function]
//! fn remind(name: &str) -> Result<u16, Error> {
//!     sleep(Duration::from_secs(86_400))?;
//!     let sent = http::post("https://mail.example.com/send").json(name).send().wait()?;
//!     Ok(sent.status)
//! }
//! indelible_sdk::guest!(remind);
//!
//! # fn main() {
//! let mut host = TestHost::new().on_http(|_| http::Response::new(202));
//! assert_eq!(host.run(|| remind::call("ann")), Ok(202));
//! assert_eq!(host.http_requests()[0].json::<String>(), "ann");
//! # }
//! ```
//!
//! At every wait the function is dropped, and when the wait is over it runs again from its beginning
//! over its journal; when it has returned, it runs once more. So each test shows that the function
//! is deterministic: if it asks for something else than its journal holds, or returns something
//! else, the test fails with both sides.

pub(crate) mod calls;
mod convert;
mod engine;
mod http;
mod machines;
mod world;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use indelible_journal::{
    self as journal, Ending, Event, InvokeKind, JournalKey, Micros, Record, SignalName,
};

use self::engine::{Entered, Mode, Planned, Shared, State};
pub use self::http::{HttpAnswer, HttpRequest};
use crate::error::{Error, Failure};
use crate::function::Definition;
use crate::payload::{Decode, Encode, Payload};
use crate::promise::{self, Promise};
use crate::time::{Timestamp, micros};

/// A host for functions, in a test.
///
/// What the test answers and sends is said before [`run`](TestHost::run); what the function asked
/// for is known after it.
#[derive(Default)]
pub struct TestHost {
    state: Shared,
}

/// A call that a function has made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The name: `function`, or `component/function`.
    pub function: String,
    /// The input: one argument as itself, several as a tuple.
    pub input: Payload,
}

impl Call {
    /// The input, as this type.
    ///
    /// # Panics
    /// It is not of this type.
    #[must_use]
    pub fn input<T: Decode>(&self) -> T {
        T::decode(self.input.clone()).unwrap_or_else(|why| {
            panic!("the input of `{}` is not what the test expects: {why}", self.function)
        })
    }
}

impl TestHost {
    /// A host that answers nothing yet. It is 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with(self, change: impl FnOnce(&mut State)) -> Self {
        change(&mut self.state.borrow_mut());
        self
    }

    /// Answers calls of a function: of `function` of the same component, which then does not run
    /// itself, or of `component/function`. One argument is the input itself, several are a tuple.
    ///
    /// The answer is a function, too: it may sleep, and is then run again like any other.
    #[must_use]
    pub fn on_call<I: Decode, O: Encode>(
        self,
        function: &str,
        mut answer: impl FnMut(I) -> Result<O, Error> + 'static,
    ) -> Self {
        let signature = format!("the answer to `{function}`");
        let handler = move |input: Payload| {
            let input = crate::function::arguments::<I>(&signature, input)?;
            crate::function::Fallible::outcome(answer(input))
        };
        self.with(|state| {
            state.world().answered.insert(function.to_owned());
            state.call_handlers.insert(function.to_owned(), Rc::new(RefCell::new(handler)));
        })
    }

    /// Answers each attempt at an HTTP request, with a [`Response`](crate::http::Response) or how
    /// else it ends.
    #[must_use]
    pub fn on_http<A: Into<HttpAnswer>>(
        self,
        mut answer: impl FnMut(&HttpRequest) -> A + 'static,
    ) -> Self {
        self.with(|state| {
            state.http_handler = Some(Box::new(move |request| answer(request).into()));
        })
    }

    /// Sends a signal when the next run begins, before the function waits for it.
    #[must_use]
    pub fn signal(self, name: &str, value: impl Encode) -> Self {
        self.signal_after(Duration::ZERO, name, value)
    }

    /// Sends a signal so long after the next run began.
    ///
    /// # Panics
    /// The name is no name, or the value has no form in JSON.
    #[must_use]
    pub fn signal_after(self, time: Duration, name: &str, value: impl Encode) -> Self {
        let signal = SignalName::new(name)
            .unwrap_or_else(|error| panic!("invalid signal name `{name}`: {error}"));
        let value = value
            .into_payload()
            .unwrap_or_else(|why| panic!("the value of `{name}` cannot be encoded: {why}"));
        let value = convert::payload_in(&value.into_host());
        self.plan(time, Planned::Signal(signal, value))
    }

    /// Cancels the execution so long after the next run began.
    #[must_use]
    pub fn cancel_after(self, time: Duration, reason: &str) -> Self {
        self.plan(time, Planned::Cancel(reason.to_owned()))
    }

    /// Cancels the execution when it waits for the first time, or the second, and so on: a loop
    /// over the number tries out a function that cleans up.
    #[must_use]
    pub fn cancel_at_wait(self, number: u32, reason: &str) -> Self {
        self.with(|state| state.cancel_at_wait = Some((number, reason.to_owned())))
    }

    /// Sets the time.
    ///
    /// # Panics
    /// The time is later than a journal can say.
    #[must_use]
    pub fn at(self, time: Timestamp) -> Self {
        let now = journal::Timestamp::from_micros(time.as_micros());
        let now = now.unwrap_or_else(|| panic!("{time} is out of range"));
        self.with(|state| state.world().now = now)
    }

    /// Tests this component, so that `run` can call its functions by name.
    #[doc(hidden)]
    #[must_use]
    pub fn component(self, functions: &'static [Definition]) -> Self {
        self.with(|state| state.world().functions = functions)
    }

    /// What random numbers are made from. The same seed gives the same numbers.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.with(|state| state.world().random.set(seed))
    }

    fn plan(self, time: Duration, planned: Planned) -> Self {
        self.with(|state| state.script.push((Micros::new(micros(time)), planned)))
    }

    /// Runs a function until it ends, and returns what a caller gets: `host.run(|| order::call("card
    /// 1", 500))`. Calls of functions of the same component run them, each with a journal of its
    /// own, unless [`on_call`](TestHost::on_call) answers.
    ///
    /// # Errors
    /// The function's own error, or how else it failed: of kind
    /// [`Cancelled`](crate::ErrorKind::Cancelled) if it was cancelled,
    /// [`Trap`](crate::ErrorKind::Trap) if it panicked.
    ///
    /// # Panics
    /// The function is not deterministic; it asks for something that the test does not answer; or it
    /// waits for what never comes.
    #[track_caller]
    pub fn run<T>(&mut self, call: impl FnOnce() -> Promise<T>) -> Result<T, Error> {
        let _entered = Entered::enter(&self.state);
        self.state.borrow_mut().mode = Mode::Starting(None);
        let promise = call();
        let mode = std::mem::replace(&mut self.state.borrow_mut().mode, Mode::Host);
        if let Err(refused) = promise.number() {
            return Err(Error::Failed(refused.clone()));
        }
        let Mode::Starting(Some((function, input))) = mode else {
            panic!("`TestHost::run` takes a call, such as `|| order::call(…)`");
        };
        let ending = match engine::run(&self.state, &function, input) {
            Ok(ending) => ending,
            Err(why) => panic!("{why}"),
        };
        let outcome = match ending {
            Ending::Completed(payload) => Ok(convert::payload_out(payload)),
            Ending::Failed(failure) => Err(convert::failure_out(*failure)),
            Ending::Cancelled(reason) => {
                let failure = journal::Failure::new(journal::ErrorKind::Cancelled, reason);
                Err(convert::failure_out(failure))
            }
        };
        let (what, decode) = promise.into_parts();
        promise::read(outcome, &what, decode).map_err(|failure| {
            // The function's own error, as the function returned it.
            Error::Failed(Failure { function: None, ..failure })
        })
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.state.borrow().now().as_micros())
    }

    /// Each attempt at an HTTP request, in their order.
    #[must_use]
    pub fn http_requests(&self) -> Vec<HttpRequest> {
        self.state.borrow().requests.clone()
    }

    /// The calls of the last run: those of the function, and of each function that it called.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for (_, records) in self.state.borrow().journals() {
            for record in records {
                if let Event::InvokeScheduled {
                    kind: InvokeKind::Function,
                    function_name,
                    input,
                    ..
                } = record.event
                {
                    let input = Payload { codec: input.codec.number(), bytes: input.bytes.into() };
                    calls.push(Call { function: function_name.to_string(), input });
                }
            }
        }
        calls
    }

    /// The lines that functions logged, with their fields.
    #[must_use]
    pub fn logs(&self) -> Vec<String> {
        self.state.borrow().logs.clone()
    }

    /// The journals of the last run, for people: an event in a line, after the place of its
    /// execution in the tree. What is volatile has none.
    #[must_use]
    pub fn journal(&self) -> String {
        journal_text(&self.state.borrow().journals())
    }
}

impl std::fmt::Debug for TestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestHost").finish_non_exhaustive()
    }
}

/// A line for each event: `root.1 InvokeStarted("root.1.0", attempt=1)`.
fn journal_text(journals: &[(JournalKey, Vec<Record>)]) -> String {
    let mut text = String::new();
    for (key, records) in journals {
        let mut place = "root".to_owned();
        for number in key.execution_id().path() {
            // Writing to a string cannot fail.
            _ = write!(place, ".{number}");
        }
        if key.attempts().own() > journal::Attempt::FIRST {
            _ = write!(place, " attempt {}", key.attempts().own());
        }
        for record in records {
            _ = writeln!(text, "{place} {}", record.event.describe());
        }
    }
    text
}

/// The functions of the component of a call, if a test host is about to run it.
pub(crate) fn learn(functions: &'static [Definition]) {
    if let Some(host) = engine::current() {
        let mut state = host.borrow_mut();
        if matches!(state.mode, Mode::Starting(None)) {
            state.world().functions = functions;
        }
    }
}
