//! How endpoints and deliveries stand, for people. Pure.

use indelible_client::api::delivery::{
    BackoffSettings, BreakerState, DeliveryDetail, DeliveryState, EndpointDetail, EndpointState,
    FieldSettings, LaneSettings, MessageDetail, ScheduleSettings,
};

use crate::print::plain;
use crate::remote::views::time::second;
use crate::text::{count, duration};

const SECOND: u64 = 1_000_000;

/// Rows of a label and a text.
fn rows(rows: &[(&str, String)]) -> String {
    rows.iter().map(|(label, text)| format!("{label:12}  {}\n", plain(text))).collect()
}

pub(super) fn endpoint_state(endpoint: &EndpointDetail) -> String {
    let since = |word: &str| match &endpoint.disabled_at {
        Some(at) => format!("{word} since {}", second(at.0)),
        None => word.to_owned(),
    };
    match endpoint.state {
        EndpointState::Enabled => "enabled".to_owned(),
        EndpointState::Disabled => since("disabled"),
        EndpointState::Gone => since("disabled by an answer 410"),
    }
}

pub(super) fn breaker(endpoint: &EndpointDetail) -> &'static str {
    match endpoint.breaker {
        BreakerState::Closed => "closed",
        BreakerState::Open => "open",
        BreakerState::HalfOpen => "half open",
    }
}

pub(super) fn topics(endpoint: &EndpointDetail) -> String {
    match endpoint.settings.topics.as_slice() {
        [] => "*".to_owned(),
        topics => topics.join(", "),
    }
}

/// All of an endpoint.
pub(super) fn endpoint_page(endpoint: &EndpointDetail) -> String {
    let settings = &endpoint.settings;
    let mut all = vec![
        ("endpoint", endpoint.endpoint.0.to_string()),
        ("namespace", endpoint.namespace.clone()),
        ("url", settings.url.clone()),
        ("state", endpoint_state(endpoint)),
        ("breaker", breaker(endpoint).to_owned()),
    ];
    all.extend(endpoint.paused_until.as_ref().map(|until| ("paused until", second(until.0))));
    all.push(("queued", endpoint.queued.to_string()));
    all.push(("sending", endpoint.sending.to_string()));
    all.push(("topics", topics(endpoint)));
    let field = |field: &FieldSettings| ("field", format!("{} is {}", field.pointer, field.value));
    all.extend(settings.fields.iter().map(field));
    let idem = match settings.idem {
        true => "yes: it tells repetitions by webhook-id",
        false => "no: what may have arrived is not sent again without a decision",
    };
    all.push(("idem", idem.to_owned()));
    let lanes = match settings.on_dead_letter {
        LaneSettings::Block => "a dead letter blocks its lane",
        LaneSettings::Skip => "a dead letter is skipped",
    };
    all.push(("lanes", lanes.to_owned()));
    let rate = settings.rate_per_second.map(|rate| format!("at most {rate} a second"));
    all.push(("rate", rate.unwrap_or_else(|| "any".to_owned())));
    all.push(("in flight", format!("at most {}", settings.in_flight_max)));
    all.extend(settings.schedule.as_ref().map(|own| ("retries", schedule(own))));
    let timeout = duration(settings.attempt_timeout_ms.saturating_mul(1_000));
    all.push(("timeout", timeout));
    let ttl = settings.ttl_seconds.map(seconds);
    all.push(("ttl", ttl.unwrap_or_else(|| "none".to_owned())));
    rows(&all)
}

fn seconds(seconds: u64) -> String {
    duration(seconds.saturating_mul(SECOND))
}

fn schedule(own: &ScheduleSettings) -> String {
    match own {
        ScheduleSettings::StepsSeconds(steps) if steps.is_empty() => "none".to_owned(),
        ScheduleSettings::StepsSeconds(steps) => {
            let steps: Vec<_> = steps.iter().copied().map(seconds).collect();
            format!("after {}", steps.join(", "))
        }
        ScheduleSettings::Backoff(BackoffSettings { base_ms, cap_ms, retries_max }) => {
            let millis = |millis: u64| duration(millis.saturating_mul(1_000));
            let (base, cap) = (millis(*base_ms), millis(*cap_ms));
            let most = match retries_max {
                None => "without end".to_owned(),
                Some(1) => "once".to_owned(),
                Some(most) => format!("{most} times at most"),
            };
            format!("after {base}, doubling up to {cap}, {most}")
        }
    }
}

/// How a delivery stands, in a word.
pub(super) fn delivery_word(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Queued => "queued",
        DeliveryState::Sending => "sending",
        DeliveryState::Waiting => "waiting",
        DeliveryState::Delivered => "delivered",
        DeliveryState::Dead => "dead",
        DeliveryState::Reissued => "reissued",
        DeliveryState::Abandoned => "abandoned",
        DeliveryState::Indeterminate => "indeterminate",
        DeliveryState::Ended => "ended",
    }
}

/// How a delivery stands, with all that is known.
pub(super) fn delivery(delivery: &DeliveryDetail) -> String {
    let mut text = delivery_word(delivery.state).to_owned();
    let mut add = |more: String| {
        text.push_str(", ");
        text.push_str(&more);
    };
    if let Some(reason) = &delivery.reason {
        add(reason.clone());
    }
    if let Some(status) = delivery.status {
        add(format!("status {status}"));
    }
    if let Some(at) = &delivery.retry_at {
        add(format!("again at {}", second(at.0)));
    }
    if delivery.attempts > 0 {
        add(count(u64::from(delivery.attempts), "attempt"));
    }
    if delivery.may_have_arrived && delivery.state != DeliveryState::Delivered {
        add("may have arrived".to_owned());
    }
    text
}

/// How the deliveries of a message stand, with as few words as possible: `delivered 2, dead 1`.
pub(super) fn deliveries(message: &MessageDetail) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for delivery in &message.deliveries {
        let word = delivery_word(delivery.state);
        match counted.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => counted.push((word, 1)),
        }
    }
    match counted.as_slice() {
        [] => "no endpoint".to_owned(),
        [(word, 1)] => (*word).to_owned(),
        counted => {
            let texts: Vec<_> =
                counted.iter().map(|(word, count)| format!("{word} {count}")).collect();
            texts.join(", ")
        }
    }
}

/// All of a message.
pub(super) fn message_page(message: &MessageDetail) -> String {
    let mut all = vec![
        ("message", message.message.0.to_string()),
        ("namespace", message.namespace.clone()),
        ("topic", message.topic.0.to_string()),
    ];
    all.extend(message.lane_key.clone().map(|lane| ("lane", lane)));
    all.push(("origin", message.origin.clone()));
    all.push(("accepted", second(message.created_at.0)));
    let size = count(message.body_bytes, "byte");
    all.push(("body", format!("{size}, {}", message.content_type)));
    let shown = message.body.as_ref().map(|body| body.0.get()).or(message.text.as_deref());
    all.extend(shown.map(|shown| ("", cut(shown))));
    if message.deliveries.is_empty() {
        all.push(("deliveries", "none: no endpoint wanted it".to_owned()));
    }
    for one in &message.deliveries {
        all.push(("endpoint", format!("{}: {}", one.endpoint.0, delivery(one))));
        all.extend(one.failures.iter().map(|failure| {
            let (attempt, at) = (failure.attempt, second(failure.failed_at.0));
            ("", format!("attempt {attempt}, {at}: {}: {}", failure.code, cut(&failure.error)))
        }));
    }
    rows(&all)
}

/// The beginning of a text, for a line of a page: `--json` has the whole.
fn cut(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
