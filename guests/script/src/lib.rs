//! Runs a program that it is given: every behaviour that a test wants, in the test's own text.
//!
//! A program is a JSON array of steps, each an object with one member:
//!
//! | step | does |
//! |---|---|
//! | `{"call": [slot, function, input]}` | calls; the promise is kept in a slot |
//! | `{"call_big": [slot, function, n]}` | calls with an input of so many bytes and a few |
//! | `{"http": [slot, request]}` | sends a request: see below |
//! | `{"timer": [slot, ms]}` | starts a timer |
//! | `{"await": slot}` | waits, and notes the outcome |
//! | `{"any": [slots]}`, `{"all": [slots]}` | waits for the first, for all |
//! | `{"signal": name}`, `{"signal_or": [name, [slots]]}` | waits for a signal |
//! | `{"set": slot}`, `{"submit": [set, slot]}`, `{"next": set}`, `{"take_all": set}` | join sets |
//! | `{"raw_await": number}`, `{"raw_submit": [number, number]}` | with unknown numbers |
//! | `{"now": 0}`, `{"random": n}`, `{"context": 0}`, `{"log": text}` | what is not computed |
//! | `{"label": [name, value]}` | labels its execution |
//! | `{"note": value}` | notes a value |
//! | `{"return": value}`, `{"fail": text}`, `{"transient": text}`, `{"unknown": text}`, `{"panic": text}` | ends |
//! | `{"cancelled": [steps]}` | what to do when told of a cancel; then it ends |
//! | `{"below": [attempt, [steps]]}` | if this is an earlier attempt than that |
//! | `{"repeat": [n, [steps]]}` | so many times |
//! | `{"nest": n}` | calls itself, n calls deep |
//! | `{"spin": 0}`, `{"hog": 0}`, `{"recurse": 0}`, `{"big": n}` | hostile ones |
//!
//! What was noted is returned as an array. `main` is not `idem` and not retried; `idem` is, three
//! times; `plain` is not `idem`, but may be retried if nothing was started.
//!
//! A request is an object: `method`, `url`, and if it is to have them `idem`, `retries` (none: as
//! often as it takes), `backoff` and `cap`, `deadline`, `timeout` (all in ms), `hold`, and `settle`:
//! then `reconcile` is asked. An answer is noted as `{"status": n}`.
//!
//! `reconcile` asks the peer by a GET how often it has processed the key in question. What follows
//! `look=` in the request's address is where it asks.

use std::collections::HashMap;

use indelible_sdk::bindings::indelible::guest::host;
use indelible_sdk::bindings::indelible::guest::http;
use indelible_sdk::bindings::indelible::guest::types::{ErrorKind, RetryPolicy};
use indelible_sdk::bindings::{Failure, Function, Guest, Payload, export};
use serde_json::{Value, json};

struct Script;

impl Guest for Script {
    fn describe() -> Vec<Function> {
        vec![
            function("main", false, 0),
            function("idem", true, 3),
            function("plain", false, 3),
            function("reconcile", true, 1),
        ]
    }

    fn run(function: String, input: Payload) -> Result<Payload, Failure> {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let message = info.payload().downcast_ref::<String>().cloned();
            let message =
                message.or_else(|| info.payload().downcast_ref::<&str>().map(|s| (*s).to_owned()));
            host::report_panic(&message.unwrap_or_default(), &place);
        }));
        let program: Value = serde_json::from_slice(&input.bytes)
            .map_err(|error| failure(ErrorKind::UserError, &error.to_string()))?;
        if function == "reconcile" {
            return reconcile(&program);
        }
        let mut run = Run::default();
        match run.steps(&program) {
            Ok(()) => Ok(payload(&Value::Array(run.notes))),
            Err(End::Return(value)) => Ok(payload(&value)),
            Err(End::Fail(failure)) => Err(failure),
            Err(End::Cancelled(reason)) => {
                let Some(cleanup) = run.cancelled.take() else {
                    return Err(failure(ErrorKind::Cancelled, &reason));
                };
                run.notes.push(json!({ "cancelled": reason }));
                match run.steps(&cleanup) {
                    Ok(()) => Ok(payload(&Value::Array(run.notes))),
                    Err(End::Return(value)) => Ok(payload(&value)),
                    Err(End::Fail(failure)) => Err(failure),
                    Err(End::Cancelled(_)) => unreachable!("it is told once"),
                }
            }
        }
    }
}

fn function(name: &str, idem: bool, retries: u32) -> Function {
    Function {
        name: name.to_owned(),
        description: String::new(),
        persist: true,
        idem,
        retry_policy: RetryPolicy {
            retries_max: Some(retries),
            backoff_base: 1_000_000,
            backoff_cap: 60_000_000,
            deadline: None,
        },
        input_schema: None,
        output_schema: None,
    }
}

/// Why a program ends before its last step.
enum End {
    Return(Value),
    Fail(Failure),
    Cancelled(String),
}

impl From<host::Cancelled> for End {
    fn from(cancelled: host::Cancelled) -> Self {
        Self::Cancelled(cancelled.reason)
    }
}

#[derive(Default)]
struct Run {
    slots: HashMap<String, u32>,
    notes: Vec<Value>,
    cancelled: Option<Value>,
}

impl Run {
    fn steps(&mut self, program: &Value) -> Result<(), End> {
        for step in program.as_array().expect("a program is an array") {
            let (what, with) = step.as_object().and_then(|o| o.iter().next()).expect("a step");
            self.step(what, with)?;
        }
        Ok(())
    }

    fn step(&mut self, what: &str, with: &Value) -> Result<(), End> {
        match what {
            "call" => match host::call(text(&with[1]), &payload(&with[2])) {
                Ok(promise) => self.keep(&with[0], promise),
                Err(failure) => self.notes.push(failed(&failure)),
            },
            "call_big" => {
                let input = json!([{ "note": "x".repeat(number(&with[2]) as usize) }]);
                self.step("call", &json!([with[0], with[1], input]))?;
            }
            "http" => self.keep(&with[0], send(&with[1])),
            "timer" => self.keep(&with[0], host::start_timer(number(&with[1]) * 1_000)),
            "await" => {
                let outcome = host::await_one(self.slot(with))?;
                self.notes.push(noted(&outcome));
            }
            "any" => {
                let settled = host::await_any(&self.slots(with))?;
                let note = self.settled(&settled);
                self.notes.push(note);
            }
            "all" => {
                let all = host::await_all(&self.slots(with))?;
                self.notes.push(all.iter().map(noted).collect());
            }
            "signal" => {
                let signal = host::await_signal(text(with))?;
                self.notes.push(json!({ "signal": value(&signal) }));
            }
            "signal_or" => {
                let note = match host::await_signal_or(text(&with[0]), &self.slots(&with[1]))? {
                    host::SignalOrSettled::Signal(signal) => json!({ "signal": value(&signal) }),
                    host::SignalOrSettled::Settled(settled) => self.settled(&settled),
                };
                self.notes.push(note);
            }
            "set" => self.keep(with, host::create_join_set()),
            "submit" => host::submit(self.slot(&with[0]), self.slot(&with[1])),
            "next" => {
                let note = match host::next(self.slot(with))? {
                    Some(settled) => self.settled(&settled),
                    None => json!("exhausted"),
                };
                self.notes.push(note);
            }
            "take_all" => {
                let all = host::take_all(self.slot(with))?;
                let notes = all.iter().map(|settled| self.settled(settled)).collect();
                self.notes.push(notes);
            }
            "raw_await" => {
                let outcome = host::await_one(number(with) as u32)?;
                self.notes.push(noted(&outcome));
            }
            "raw_submit" => host::submit(number(&with[0]) as u32, number(&with[1]) as u32),
            "now" => self.notes.push(host::now().into()),
            "random" => self.notes.push(host::random(number(with) as u32).into()),
            "context" => {
                let own = host::context();
                self.notes.push(json!({
                    "id": own.execution_id,
                    "attempt": own.attempt,
                    "parent": own.parent_id,
                    "function": own.function,
                }));
            }
            "log" => host::log(host::Level::Info, text(with), &[]),
            "label" => host::label(text(&with[0]), text(&with[1])),
            "note" => self.notes.push(with.clone()),
            "return" => return Err(End::Return(with.clone())),
            "fail" => return Err(End::Fail(failure(ErrorKind::UserError, text(with)))),
            "transient" => return Err(End::Fail(failure(ErrorKind::Transient, text(with)))),
            "unknown" => return Err(End::Fail(failure(ErrorKind::Indeterminate, text(with)))),
            "panic" => panic!("{}", text(with)),
            "cancelled" => self.cancelled = Some(with.clone()),
            "below" => {
                if u64::from(host::context().attempt) < number(&with[0]) {
                    self.steps(&with[1])?;
                }
            }
            "repeat" => {
                for _ in 0..number(&with[0]) {
                    self.steps(&with[1])?;
                }
            }
            "nest" => {
                if number(with) > 0 {
                    let inner = json!([{ "nest": number(with) - 1 }]);
                    self.step("call", &json!(["inner", "main", inner]))?;
                    if self.slots.contains_key("inner") {
                        self.step("await", &json!("inner"))?;
                    }
                }
            }
            "spin" => {
                let mut turns = 0_u64;
                loop {
                    turns = std::hint::black_box(turns.wrapping_add(1));
                }
            }
            "hog" => {
                let mut all: Vec<Vec<u8>> = Vec::new();
                loop {
                    all.push(std::hint::black_box(vec![1; 1 << 20]));
                }
            }
            "recurse" => self.notes.push(recurse(0).into()),
            "big" => {
                let big = "x".repeat(number(with) as usize);
                return Err(End::Return(big.into()));
            }
            other => return Err(End::Fail(failure(ErrorKind::UserError, other))),
        }
        Ok(())
    }

    fn keep(&mut self, slot: &Value, promise: u32) {
        self.slots.insert(text(slot).to_owned(), promise);
    }

    fn slot(&self, slot: &Value) -> u32 {
        self.slots[text(slot)]
    }

    fn slots(&self, slots: &Value) -> Vec<u32> {
        slots.as_array().expect("slots").iter().map(|slot| self.slot(slot)).collect()
    }

    fn settled(&self, settled: &host::Settled) -> Value {
        let slot = self.slots.iter().find(|(_, promise)| **promise == settled.promise);
        json!([slot.map(|(slot, _)| slot.as_str()).unwrap_or("?"), noted(&settled.outcome)])
    }
}

/// Sends what a step describes.
fn send(with: &Value) -> u32 {
    let ms = |name: &str| with[name].as_u64().map(|ms| ms * 1_000);
    let request = http::Request {
        method: text(&with["method"]).to_owned(),
        url: text(&with["url"]).to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    let retry_policy = RetryPolicy {
        retries_max: with["retries"].as_u64().map(|most| most as u32),
        backoff_base: ms("backoff").unwrap_or(1_000_000),
        backoff_cap: ms("cap").unwrap_or(60_000_000),
        deadline: ms("deadline"),
    };
    let reconciler =
        ms("settle").map(|settle| http::Reconciler { function: "reconcile".to_owned(), settle });
    let hold = with["hold"].as_bool().unwrap_or_default();
    let policy = http::HttpPolicy {
        idem: with["idem"].as_bool(),
        retry_policy,
        timeout: ms("timeout").unwrap_or(30_000_000),
        not_processed: None,
        no_answer: None,
        reconciler,
        on_unknown: if hold { http::OnUnknown::Hold } else { http::OnUnknown::Indeterminate },
    };
    host::send_http(&request, &policy)
}

/// Whether a request was processed, as far as the peer says.
fn reconcile(question: &Value) -> Result<Payload, Failure> {
    let place = text(&question["url"]).split_once("look=").map_or("ok", |(_, place)| place);
    let url = format!("http://peer/{place}?of={}", text(&question["idempotency_key"]));
    let asked = send(&json!({ "method": "GET", "url": url, "retries": 2, "timeout": 5_000 }));
    let answer = match host::await_one(asked) {
        Ok(Ok(payload)) if status(&payload) == Some(200) => body(&payload),
        Ok(_) => Value::Null,
        Err(cancelled) => return Err(failure(ErrorKind::Cancelled, &cancelled.reason)),
    };
    Ok(payload(&match answer["processed"].as_u64() {
        Some(0) => json!("did-not-happen"),
        Some(count) => {
            let body = json!({ "reconciled": count }).to_string();
            json!({ "happened": { "status": 200, "body": body } })
        }
        None => json!("not-known-yet"),
    }))
}

/// The status of an answer; none if it is none.
fn status(payload: &Payload) -> Option<u16> {
    match payload.bytes[..] {
        [1, high, low, ..] if payload.codec == CODEC_HTTP => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

/// The body of an answer without headers.
fn body(payload: &Payload) -> Value {
    payload.bytes.get(4..).and_then(|body| serde_json::from_slice(body).ok()).unwrap_or(Value::Null)
}

/// How answers are written down.
const CODEC_HTTP: u8 = 6;

/// So deep that the stack runs out.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + here[3] }
}

fn noted(outcome: &host::Outcome) -> Value {
    match outcome {
        Ok(payload) => value(payload),
        Err(failure) => failed(failure),
    }
}

fn failed(failure: &Failure) -> Value {
    json!({ "err": format!("{:?}", failure.kind), "message": failure.message })
}

fn value(payload: &Payload) -> Value {
    if let Some(status) = status(payload) {
        return json!({ "status": status });
    }
    serde_json::from_slice(&payload.bytes).unwrap_or(Value::Null)
}

fn payload(value: &Value) -> Payload {
    Payload { codec: 1, bytes: value.to_string().into_bytes() }
}

fn failure(kind: ErrorKind, message: &str) -> Failure {
    Failure { kind, message: message.to_owned(), detail: None }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

export!(Script with_types_in indelible_sdk::bindings);
