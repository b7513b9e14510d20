//! What a function asks of the test host: the Rust side of `interface host`, in a native build.
//!
//! A wait that is not over drops the function: the thread unwinds to the host, which runs the
//! function again from its beginning when the wait has ended. So each wait is a replay.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method's path is not general over how long the tree is borrowed"
)]

use std::panic;
use std::task::Poll;

use indelible_execution::GuestCalls;
use indelible_execution::guest::{self, Refusal, Stop, WaitRequest, WaitResult};
use indelible_execution::policy::{self, HttpPolicy as PolicyRequest, Retries};
use indelible_http::{Header, Part, Request};
use indelible_journal::{self as journal, Micros, OnUnknown};
use indelible_records::labels::Label;

use super::convert;
use super::engine::{Mode, Shared, current};
use crate::bindings::indelible::guest::host::{
    Cancelled, ExecutionContext, Failure, HttpPolicy, HttpRequest, JoinSet, Level, Outcome,
    Payload, Promise, Settled, SignalOrSettled,
};
use crate::bindings::indelible::guest::http as wit;
use crate::host::no_host;

/// What a function unwinds with when it is dropped.
struct Dropped;

/// The test host, for a function that runs in it.
fn host(what: &str) -> Shared {
    let Some(host) = current() else { no_host(what) };
    match &host.borrow().mode {
        Mode::Guest(_) if host.borrow().stop.is_none() => {}
        Mode::Guest(_) => panic!(
            "a destructor asked for `{what}` while its function was dropped at a wait: only a \
             function itself can ask"
        ),
        Mode::Starting(_) => panic!(
            "`TestHost::run` takes a call and nothing else, such as `|| order::call(…)`; it asked \
             for `{what}`"
        ),
        Mode::Host => {
            panic!("`{what}` was asked for outside of a function: an answer to HTTP is no function")
        }
    }
    host
}

/// Asks the tree. A refusal ends this run of the function.
fn ask<T>(what: &str, call: impl FnOnce(GuestCalls<'_>) -> Result<Result<T, Stop>, Refusal>) -> T {
    let host = host(what);
    let answer = host.borrow_mut().ask(call);
    let stop = match answer {
        Ok(Ok(answer)) => return answer,
        Ok(Err(stop)) => stop,
        Err(Refusal::Trap(message)) => trap(message),
        Err(Refusal::Stop) => Stop::Refused,
    };
    host.borrow_mut().stop = Some(stop);
    drop_function()
}

/// Leaves the function without a panic, so that the hook, which prints, is not called.
fn drop_function() -> ! {
    panic::resume_unwind(Box::new(Dropped))
}

fn trap(message: String) -> Stop {
    Stop::Trapped(journal::Failure::new(journal::ErrorKind::Trap, message))
}

fn now_or_trap<T>(what: &str, call: impl FnOnce(GuestCalls<'_>) -> Result<T, Refusal>) -> T {
    ask(what, |guest| call(guest).map(Ok))
}

fn wait(what: &str, want: &WaitRequest) -> Result<WaitResult, Cancelled> {
    let checked = match want {
        WaitRequest::Any(promises)
        | WaitRequest::All(promises)
        | WaitRequest::SignalOr(_, promises) => guest::check_promises(promises),
        _ => Ok(()),
    };
    let got = ask(what, |guest| match checked {
        Err(message) => Ok(Err(trap(message))),
        Ok(()) => guest.wait(want).map(|got| match got {
            Poll::Ready(got) => Ok(got),
            // Its execution stays in memory, so that nothing is read again for each wait.
            Poll::Pending => Err(Stop::Waiting { kept: true }),
        }),
    });
    match got {
        WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
        got => Ok(got),
    }
}

pub(crate) fn call(function: &str, input: &Payload) -> Result<Promise, Failure> {
    if let Some(host) = current() {
        let mut state = host.borrow_mut();
        if let Mode::Starting(first) = &mut state.mode {
            let twice = first.replace((function.to_owned(), convert::payload_in(input)));
            assert!(twice.is_none(), "`TestHost::run` takes one call, such as `|| order::call(…)`");
            return Ok(0);
        }
        if !state.is_answered(function) {
            drop(state);
            drop_function();
        }
    }
    let input = convert::payload_in(input);
    now_or_trap("call", |guest| guest.call(function, input)).map_err(convert::failure_out)
}

pub(crate) fn send_http(request: &HttpRequest, policy: &HttpPolicy) -> Promise {
    let request = request_in(request);
    let policy = policy::of_request(&request, policy_in(policy));
    now_or_trap("send_http", |guest| guest.http(&request, policy))
}

pub(crate) fn start_timer(duration: u64) -> Promise {
    now_or_trap("start_timer", |guest| guest.start_timer(Micros::new(duration)))
}

pub(crate) fn await_one(promise: Promise) -> Result<Outcome, Cancelled> {
    match wait("await_one", &WaitRequest::One(promise))? {
        WaitResult::Settled(settled) => Ok(convert::outcome_out(settled.outcome)),
        got => misanswered(&got),
    }
}

pub(crate) fn await_any(promises: &[Promise]) -> Result<Settled, Cancelled> {
    match wait("await_any", &WaitRequest::Any(promises.to_vec()))? {
        WaitResult::Settled(settled) => Ok(convert::settled_out(settled)),
        got => misanswered(&got),
    }
}

pub(crate) fn await_all(promises: &[Promise]) -> Result<Vec<Outcome>, Cancelled> {
    match wait("await_all", &WaitRequest::All(promises.to_vec()))? {
        WaitResult::All(all) => {
            Ok(all.into_iter().map(|one| convert::outcome_out(one.outcome)).collect())
        }
        got => misanswered(&got),
    }
}

pub(crate) fn await_signal(name: &str) -> Result<Payload, Cancelled> {
    match wait("await_signal", &WaitRequest::Signal(name.to_owned()))? {
        WaitResult::Signal(payload) => Ok(convert::payload_out(payload)),
        got => misanswered(&got),
    }
}

pub(crate) fn await_signal_or(
    name: &str,
    promises: &[Promise],
) -> Result<SignalOrSettled, Cancelled> {
    let want = WaitRequest::SignalOr(name.to_owned(), promises.to_vec());
    match wait("await_signal_or", &want)? {
        WaitResult::Signal(payload) => Ok(SignalOrSettled::Signal(convert::payload_out(payload))),
        WaitResult::Settled(settled) => Ok(SignalOrSettled::Settled(convert::settled_out(settled))),
        got => misanswered(&got),
    }
}

pub(crate) fn create_join_set() -> JoinSet {
    now_or_trap("create_join_set", |guest| guest.create_join_set())
}

pub(crate) fn submit(join_set: JoinSet, promise: Promise) {
    now_or_trap("submit", |guest| guest.submit(join_set, promise));
}

pub(crate) fn next(join_set: JoinSet) -> Result<Option<Settled>, Cancelled> {
    match wait("next", &WaitRequest::Next(join_set))? {
        WaitResult::Settled(settled) => Ok(Some(convert::settled_out(settled))),
        WaitResult::Exhausted => Ok(None),
        got => misanswered(&got),
    }
}

pub(crate) fn take_all(join_set: JoinSet) -> Result<Vec<Settled>, Cancelled> {
    match wait("take_all", &WaitRequest::TakeAll(join_set))? {
        WaitResult::All(all) => Ok(all.into_iter().map(convert::settled_out).collect()),
        got => misanswered(&got),
    }
}

pub(crate) fn now() -> u64 {
    now_or_trap("now", |guest| guest.now()).as_micros()
}

pub(crate) fn random(length: u32) -> Vec<u8> {
    now_or_trap("random", |guest| guest.random(length as usize)).into()
}

pub(crate) fn label(name: &str, value: &str) {
    ask("label", |guest| match Label::new(name, value) {
        Ok(label) => guest.label(label).map(Ok),
        Err(error) => Ok(Err(trap(error.to_string()))),
    });
}

pub(crate) fn context() -> ExecutionContext {
    host("context").borrow().context()
}

/// A line that a plain test of a helper logs, without a host, goes nowhere.
pub(crate) fn log(_: Level, message: &str, fields: &[(String, String)]) {
    let Some(host) = current() else { return };
    host.borrow_mut().log(message, fields);
}

/// Only a guest reports its panics: in a test, the test's own hook stays.
pub(crate) fn report_panic(_: &str, _: &str) {}

fn misanswered(got: &WaitResult) -> ! {
    unreachable!("the wait was answered with {got:?}, a defect of Indelible")
}

fn parts(parts: &[wit::Part]) -> Vec<Part> {
    let part = |part: &wit::Part| match part {
        wit::Part::Bytes(bytes) => Part::Bytes(bytes.clone().into()),
        wit::Part::Secret(name) => Part::Secret(name.clone()),
    };
    parts.iter().map(part).collect()
}

fn request_in(request: &HttpRequest) -> Request {
    let header =
        |header: &wit::Header| Header { name: header.name.clone(), value: parts(&header.value) };
    Request {
        method: request.method.clone(),
        url: request.url.clone(),
        headers: request.headers.iter().map(header).collect(),
        body: parts(&request.body),
    }
}

fn policy_in(policy: &HttpPolicy) -> PolicyRequest {
    let retries = &policy.retry_policy;
    let reconciler = policy.reconciler.as_ref();
    PolicyRequest {
        idem: policy.idem,
        retries: Retries {
            retries_max: retries.retries_max,
            backoff_base: retries.backoff_base,
            backoff_cap: retries.backoff_cap,
            deadline: retries.deadline,
        },
        timeout: policy.timeout,
        not_processed: policy.not_processed.clone(),
        no_answer: policy.no_answer.clone(),
        reconciler: reconciler.map(|asked| (asked.function.clone(), asked.settle)),
        on_unknown: match policy.on_unknown {
            wit::OnUnknown::Indeterminate => OnUnknown::Indeterminate,
            wit::OnUnknown::Hold => OnUnknown::Hold,
        },
    }
}
