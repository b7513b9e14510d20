//! `interface host` as wasmtime's linker sees it: checks what a guest hands over, asks its
//! [`Host`](super::host::Host), and hands the answer back.

use std::future::poll_fn;
use std::task::Poll;

use indelible_journal::{Micros, names::NAME_BYTES_MAX};
use indelible_records::labels::Label;
use wasmtime::component::{Linker, LinkerInstance};
use wasmtime::{Engine, StoreContextMut};

use super::bounds::{
    FAILURE_MESSAGE_BYTES_MAX, LOG_FIELDS_MAX, LOG_LINE_BYTES_MAX, RANDOM_BYTES_MAX, check_name,
    check_promises, cut,
};
use super::host::{WaitRequest, WaitResult};
use super::http::{self, HttpPolicy, HttpRequest};
use super::interface::HOST_INTERFACE;
use super::state::{Halt, Panic, Paused, State};
use super::wire::{
    Cancelled, Context, Failure, Level, Payload, Settled, SignalOrSettled, WireOutcome, outcome,
};

type Store<'a> = StoreContextMut<'a, State>;

/// All functions of the interface.
pub(super) const FUNCTIONS: [&str; 18] = [
    "call",
    "send-http",
    "start-timer",
    "create-join-set",
    "submit",
    "await-one",
    "await-any",
    "await-all",
    "await-signal",
    "await-signal-or",
    "next",
    "take-all",
    "now",
    "random",
    "context",
    "label",
    "log",
    "report-panic",
];

/// The linker that all guests share.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let mut host = linker.instance(HOST_INTERFACE)?;
    begin(&mut host)?;
    awaits(&mut host)?;
    answers(&mut host)?;
    for_people(&mut host)?;
    Ok(linker)
}

/// Functions that begin something, and return at once.
fn begin(host: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    host.func_wrap("call", |mut store: Store<'_>, (function, input): (String, Payload)| {
        check_name("function", &function)?;
        let begun =
            store.data_mut().journaled().call(&function, input.into()).map_err(Halt::from)?;
        Ok((begun.map_err(Failure::from),))
    })?;
    type HttpArguments = (HttpRequest, HttpPolicy);
    host.func_wrap("send-http", |mut store: Store<'_>, (request, policy): HttpArguments| {
        let (request, policy) = http::effect(request, policy);
        Ok((store.data_mut().journaled().http(request, policy).map_err(Halt::from)?,))
    })?;
    host.func_wrap("start-timer", |mut store: Store<'_>, (duration,): (u64,)| {
        let duration = Micros::new(duration);
        Ok((store.data_mut().journaled().start_timer(duration).map_err(Halt::from)?,))
    })?;
    host.func_wrap("create-join-set", |mut store: Store<'_>, (): ()| {
        Ok((store.data_mut().journaled().create_join_set().map_err(Halt::from)?,))
    })?;
    host.func_wrap("submit", |mut store: Store<'_>, (set, promise): (u32, u32)| {
        Ok(store.data_mut().journaled().submit(set, promise).map_err(Halt::from)?)
    })
}

/// Functions that suspend the guest.
fn awaits(host: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    host.func_wrap_async("await-one", |store: Store<'_>, (promise,): (u32,)| {
        Box::new(async move {
            Ok((match wait(store, WaitRequest::One(promise)).await? {
                WaitResult::Settled(settled) => Ok::<WireOutcome, _>(outcome(settled.outcome)),
                WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                got => return Err(misanswered("await-one", &got)),
            },))
        })
    })?;
    host.func_wrap_async("await-any", |store: Store<'_>, (promises,): (Vec<u32>,)| {
        Box::new(async move {
            check_promises(&promises)?;
            Ok((match wait(store, WaitRequest::Any(promises)).await? {
                WaitResult::Settled(settled) => Ok(Settled::from(settled)),
                WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                got => return Err(misanswered("await-any", &got)),
            },))
        })
    })?;
    host.func_wrap_async("await-all", |store: Store<'_>, (promises,): (Vec<u32>,)| {
        Box::new(async move {
            check_promises(&promises)?;
            Ok((match wait(store, WaitRequest::All(promises)).await? {
                WaitResult::All(all) => {
                    Ok(all.into_iter().map(|one| outcome(one.outcome)).collect())
                }
                WaitResult::Cancelled(reason) => Err::<Vec<WireOutcome>, _>(Cancelled { reason }),
                got => return Err(misanswered("await-all", &got)),
            },))
        })
    })?;
    host.func_wrap_async("await-signal", |store: Store<'_>, (name,): (String,)| {
        Box::new(async move {
            check_name("signal", &name)?;
            Ok((match wait(store, WaitRequest::Signal(name)).await? {
                WaitResult::Signal(payload) => Ok(Payload::from(payload)),
                WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                got => return Err(misanswered("await-signal", &got)),
            },))
        })
    })?;
    host.func_wrap_async(
        "await-signal-or",
        |store: Store<'_>, (name, promises): (String, Vec<u32>)| {
            Box::new(async move {
                check_name("signal", &name)?;
                check_promises(&promises)?;
                Ok((match wait(store, WaitRequest::SignalOr(name, promises)).await? {
                    WaitResult::Signal(payload) => Ok(SignalOrSettled::Signal(payload.into())),
                    WaitResult::Settled(settled) => Ok(SignalOrSettled::Settled(settled.into())),
                    WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                    got => return Err(misanswered("await-signal-or", &got)),
                },))
            })
        },
    )?;
    host.func_wrap_async("next", |store: Store<'_>, (set,): (u32,)| {
        Box::new(async move {
            Ok((match wait(store, WaitRequest::Next(set)).await? {
                WaitResult::Settled(settled) => Ok(Some(Settled::from(settled))),
                WaitResult::Exhausted => Ok(None),
                WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                got => return Err(misanswered("next", &got)),
            },))
        })
    })?;
    host.func_wrap_async("take-all", |store: Store<'_>, (set,): (u32,)| {
        Box::new(async move {
            Ok((match wait(store, WaitRequest::TakeAll(set)).await? {
                WaitResult::All(all) => Ok(all.into_iter().map(Settled::from).collect::<Vec<_>>()),
                WaitResult::Cancelled(reason) => Err(Cancelled { reason }),
                got => return Err(misanswered("take-all", &got)),
            },))
        })
    })
}

/// Asks the host until the wait is over; the guest is suspended in between.
async fn wait(mut store: Store<'_>, want: WaitRequest) -> Result<WaitResult, Halt> {
    store.data_mut().awaits();
    let mut suspended = false;
    let got = poll_fn(|_| {
        let state = store.data_mut();
        match state.host.wait(&want) {
            Ok(Poll::Ready(got)) => Poll::Ready(Ok(got)),
            Ok(Poll::Pending) => {
                suspended = true;
                state.pause.set(Paused::Waiting);
                Poll::Pending
            }
            Err(refusal) => Poll::Ready(Err(refusal.into())),
        }
    })
    .await;
    if suspended {
        // The clock went on while the guest was suspended: give it a whole slice.
        let slice_ticks = store.data().rules.slice_ticks;
        store.set_epoch_deadline(slice_ticks);
    }
    got
}

/// The host's answer is of another kind than the question: a defect of the engine, but the process
/// and its other guests go on.
fn misanswered(function: &str, got: &WaitResult) -> wasmtime::Error {
    let kind = match got {
        WaitResult::Settled(_) => "a promise",
        WaitResult::All(_) => "a list",
        WaitResult::Signal(_) => "a signal",
        WaitResult::Exhausted => "exhausted",
        WaitResult::Cancelled(_) => "cancelled",
    };
    Halt::Trap(format!("a defect of Indelible: {function} was answered with {kind}")).into()
}

/// Functions whose answers are recorded, not computed.
fn answers(host: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    host.func_wrap("now", |mut store: Store<'_>, (): ()| {
        Ok((store.data_mut().journaled().now().map_err(Halt::from)?.as_micros(),))
    })?;
    host.func_wrap("random", |mut store: Store<'_>, (length,): (u32,)| {
        if length > RANDOM_BYTES_MAX {
            return Err(Halt::Trap(format!(
                "asked for {length} random bytes; at most {RANDOM_BYTES_MAX} are allowed"
            ))
            .into());
        }
        let bytes = store.data_mut().journaled().random(length).map_err(Halt::from)?;
        Ok((Vec::from(bytes),))
    })?;
    host.func_wrap("context", |mut store: Store<'_>, (): ()| {
        Ok((Context::from(store.data_mut().host.context()),))
    })
}

/// Functions whose output is for people.
fn for_people(host: &mut LinkerInstance<'_, State>) -> wasmtime::Result<()> {
    host.func_wrap("label", |mut store: Store<'_>, (name, value): (String, String)| {
        let label = Label::new(&name, &value).map_err(|error| Halt::Trap(error.to_string()))?;
        Ok(store.data_mut().host.label(label).map_err(Halt::from)?)
    })?;
    type Line = (Level, String, Vec<(String, String)>);
    host.func_wrap("log", |mut store: Store<'_>, (level, message, fields): Line| {
        let bytes =
            fields.iter().fold(message.len(), |sum, (name, value)| sum + name.len() + value.len());
        let state = store.data_mut();
        state.count_log(bytes)?;
        let fields = fields
            .into_iter()
            .take(LOG_FIELDS_MAX)
            .map(|(name, value)| (cut(name, LOG_LINE_BYTES_MAX), cut(value, LOG_LINE_BYTES_MAX)))
            .collect();
        let message = cut(message, LOG_LINE_BYTES_MAX);
        Ok(state.host.log(level.into(), message, fields).map_err(Halt::from)?)
    })?;
    host.func_wrap("report-panic", |mut store: Store<'_>, (message, location): (String, String)| {
        store.data_mut().panic = Some(Panic {
            message: cut(message, FAILURE_MESSAGE_BYTES_MAX),
            location: cut(location, NAME_BYTES_MAX),
        });
        Ok(())
    })
}
