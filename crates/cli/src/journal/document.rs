//! `show --json`: described in `docs/formats/cli-json.md`.

use std::io::{self, Write};

use serde::Serialize;

use super::checked::{Finding, IllegalEvent, ReadingCutOff};
use super::damage::{Damage, MalformedLine};
use super::show::ExecutionView;
use super::spans::Timeline;
use crate::print;

/// Writes the spans if there are any, else the events.
pub(super) fn write(
    shown: &ExecutionView,
    spans: Option<Timeline>,
    damage: &Damage,
    out: &mut impl Write,
) -> io::Result<()> {
    let finding = shown.checked.finding(damage);
    let verdict = finding.name();
    let (violation, cut) = match finding {
        Finding::Ok => (None, None),
        Finding::Bad(refused) => (Some(refused), None),
        Finding::Cut(cut) => (None, Some(cut)),
    };
    let started = shown.started();
    let document = Document {
        v: print::VERSION,
        execution: shown.key().to_string(),
        function: started.map(|started| started.function_name.as_str()),
        component: started.map(|started| started.component_digest.to_string()),
        attempts: shown.key().attempts().to_string(),
        verdict,
        status: shown.checked.status(),
        length: shown.checked.len(),
        started: shown.rows.first().map(|row| row.entry.timestamp().to_string()),
        duration_us: shown.total(),
        body: spans.map_or_else(|| Body::Events(events(shown)), Body::Spans),
        violation,
        cut,
        complete: damage.is_none(),
        malformed: &damage.malformed,
    };
    print::pretty(&document, out)
}

fn events(shown: &ExecutionView) -> Vec<JsonEvent<'_>> {
    shown
        .rows
        .iter()
        .map(|row| JsonEvent {
            sequence: row.entry.sequence().get(),
            time_us: shown.micros(row),
            event: row.entry.event().name(),
            description: &row.description,
            state: row.state,
        })
        .collect()
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    execution: String,
    function: Option<&'a str>,
    component: Option<String>,
    attempts: String,
    verdict: &'static str,
    status: Option<&'static str>,
    length: u64,
    started: Option<String>,
    duration_us: u64,
    #[serde(flatten)]
    body: Body<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<&'a IllegalEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<ReadingCutOff>,
    complete: bool,
    malformed: &'a [MalformedLine],
}

/// The field that was asked for.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Body<'a> {
    Events(Vec<JsonEvent<'a>>),
    Spans(Timeline),
}

#[derive(Serialize)]
struct JsonEvent<'a> {
    sequence: u64,
    time_us: u64,
    event: &'static str,
    description: &'a str,
    state: &'static str,
}
