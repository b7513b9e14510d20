//! Functions with HTTP effects: what is sent is what they are told to send.

use indelible_sdk::http::{Question, Reconciled, Response, secret};
use indelible_sdk::prelude::*;

/// A request to send. What is left out is as the SDK has it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Spec {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// Headers whose value is a secret, by its name.
    #[serde(default)]
    secrets: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    idem: Option<bool>,
    retries: Option<u32>,
    #[serde(default)]
    unbounded: bool,
    backoff_ms: Option<u64>,
    timeout_ms: Option<u64>,
    deadline_ms: Option<u64>,
    not_processed: Option<Vec<u16>>,
    no_answer: Option<Vec<u16>>,
    #[serde(default)]
    hold: bool,
    /// Asks `was_it_processed`, and believes that it was not after so long.
    settle_ms: Option<u64>,
}

/// How a request ended.
#[derive(Serialize, Deserialize)]
pub struct Ended {
    status: Option<u16>,
    body: String,
    error: Option<String>,
    message: Option<String>,
}

pub fn send(spec: &Spec) -> Promise<Response> {
    let ms = Duration::from_millis;
    let mut request = http::request(&spec.method, &spec.url).body(spec.body.as_str());
    for (name, value) in &spec.headers {
        request = request.header(name, value.as_str());
    }
    for (name, value) in &spec.secrets {
        request = request.header(name, secret(value));
    }
    request = match spec.idem {
        Some(true) => request.idem(),
        Some(false) => request.not_idem(),
        None => request,
    };
    if let Some(retries) = spec.retries {
        request = request.retries(retries);
    }
    if spec.unbounded {
        request = request.retries_unbounded();
    }
    if let Some(backoff) = spec.backoff_ms {
        request = request.backoff(ms(backoff), ms(backoff * 64));
    }
    if let Some(timeout) = spec.timeout_ms {
        request = request.timeout(ms(timeout));
    }
    if let Some(deadline) = spec.deadline_ms {
        request = request.deadline(ms(deadline));
    }
    if let Some(statuses) = &spec.not_processed {
        request = request.not_processed(statuses.iter().copied());
    }
    if let Some(statuses) = &spec.no_answer {
        request = request.no_answer(statuses.iter().copied());
    }
    if spec.hold {
        request = request.hold_if_unknown();
    }
    if let Some(settle) = spec.settle_ms {
        request = request.reconciler::<was_it_processed>().settle(ms(settle));
    }
    request.send()
}

fn ended(outcome: Result<Response, Failure>) -> Ended {
    match outcome {
        Ok(answer) => {
            let (status, body) = (Some(answer.status), answer.text());
            Ended { status, body, error: None, message: None }
        }
        Err(failure) => Ended {
            status: Response::of(&failure).map(|answer| answer.status),
            body: String::new(),
            error: Some(format!("{:?}", failure.kind)),
            message: Some(failure.message),
        },
    }
}

pub fn wait(promise: &Promise<Response>) -> Result<Ended, Error> {
    match promise.wait() {
        Ok(answer) => Ok(ended(Ok(answer))),
        Err(Error::Failed(failure)) => Ok(ended(Err(failure))),
        Err(error) => Err(error),
    }
}

/// Sends a request, and returns how it ended.
#[function]
pub fn sends(spec: Spec) -> Result<Ended, Error> {
    wait(&send(&spec))
}

/// Sends requests one after the other.
#[function]
pub fn sends_in_turn(specs: Vec<Spec>) -> Result<Vec<Ended>, Error> {
    specs.iter().map(|spec| wait(&send(spec))).collect()
}

/// As `sends_in_turn`, and safe to run again: its first attempt panics behind so many requests.
#[function(idem, retries = 3, backoff = "1ms..1ms")]
pub fn sends_again(specs: Vec<Spec>, panics_behind: usize) -> Result<Vec<Ended>, Error> {
    let mut all = Vec::new();
    for spec in &specs {
        all.push(wait(&send(spec))?);
        let panics = context().attempt == 1 && all.len() == panics_behind;
        assert!(!panics, "the first attempt panics");
    }
    Ok(all)
}

/// Sends requests all at once, and takes how they ended as that arrives: in the order of the
/// requests.
#[function]
pub fn sends_at_once(specs: Vec<Spec>) -> Result<Vec<Ended>, Error> {
    let mut set: JoinSet<Response> = specs.iter().map(send).collect();
    let mut all: Vec<Option<Ended>> = specs.iter().map(|_| None).collect();
    while let Some(settled) = set.next_settled()? {
        all[settled.index] = Some(ended(settled.outcome));
    }
    Ok(all.into_iter().flatten().collect())
}

/// A request against a timer: the timer's end is no outcome of the request, which is awaited then.
#[function]
pub fn sends_or_timer(spec: Spec, timer_ms: u64) -> Result<(String, Ended), Error> {
    let sent = send(&spec);
    let first = match sent.wait_timeout(Duration::from_millis(timer_ms)) {
        Ok(Some(_)) => "answer",
        Ok(None) => "timer",
        Err(Error::Failed(_)) => "failure",
        Err(error) => return Err(error),
    };
    Ok((first.to_owned(), wait(&sent)?))
}

/// Sends a request, and returns without waiting for it: not before it has begun.
#[function]
pub fn sends_and_leaves(spec: Spec) -> Result<String, Error> {
    let _ = send(&spec);
    sleep(Duration::from_millis(1))?;
    Ok("left".to_owned())
}

/// Sends a request, and panics.
#[function]
pub fn sends_and_traps(spec: Spec) -> Result<(), Error> {
    wait(&send(&spec))?;
    panic!("after the request")
}

/// Sends a request through another function.
#[function]
pub fn sends_by_call(spec: Spec) -> Result<Ended, Error> {
    sends::call(spec).wait()
}

/// Whether a request was processed, as the peer that it went to says.
#[function]
pub fn was_it_processed(question: Question) -> Result<Reconciled, Error> {
    let base: Vec<&str> = question.url.splitn(4, '/').take(3).collect();
    let url = format!("{}/do/lookup/{}", base.join("/"), question.idempotency_key);
    let found = http::get(url).backoff(Duration::from_millis(10), Duration::from_secs(1)).send();
    let found = found.wait()?;
    #[derive(Deserialize)]
    struct Found {
        processed: u64,
    }
    Ok(match found.json::<Found>() {
        Ok(Found { processed: 0 }) => Reconciled::DidNotHappen,
        Ok(Found { .. }) => Reconciled::Happened(found),
        Err(_) => Reconciled::NotKnownYet,
    })
}
