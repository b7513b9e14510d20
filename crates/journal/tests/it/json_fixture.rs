//! A file of version 1, written once: it must read for ever, and come out again as it went in
//! (D12). Never regenerate it; a new version gets a new file.

use std::collections::{BTreeMap, BTreeSet};

use indelible_journal::{ErrorKind, Event, Journal, Outcome, RetryCause, Status, json};

const FIXTURE: &str = include_str!("../fixtures/journal-v2.jsonl");

#[test]
fn it_reads_and_is_exported_to_the_same_bytes() {
    for (index, line) in FIXTURE.split_inclusive('\n').enumerate() {
        let (key, record) =
            json::parse_line(line).unwrap_or_else(|error| panic!("line {}: {error}", index + 1));
        let mut out = Vec::new();
        json::write_line(&key, &record, &mut out);
        assert_eq!(std::str::from_utf8(&out), Ok(line), "line {}", index + 1);
    }
}

#[test]
fn its_journals_are_legal() {
    let mut journals = BTreeMap::new();
    for (index, line) in FIXTURE.lines().enumerate() {
        let (key, record) = json::parse_line(line).unwrap();
        let journal = journals.entry(key.clone()).or_insert_with(|| Journal::new(key));
        journal
            .append_record(record)
            .unwrap_or_else(|violation| panic!("line {}: {violation}", index + 1));
    }
    assert!(journals.values().all(|j| j.status().is_some_and(Status::is_terminal)));
    assert_eq!(journals.len(), 3);
}

/// Otherwise a kind could stop being readable without failing a test.
#[test]
fn it_holds_every_kind_of_everything() {
    let mut events = BTreeSet::new();
    let mut awaits = BTreeSet::new();
    let mut causes = BTreeSet::new();
    let mut errors = BTreeSet::new();
    for line in FIXTURE.lines() {
        let (_, record) = json::parse_line(line).unwrap();
        events.insert(record.event.name());
        match record.event {
            Event::ExecutionAwaiting { kind, .. } => _ = awaits.insert(kind.name()),
            Event::InvokeRetrying { cause, .. } => _ = causes.insert(cause),
            Event::InvokeCompleted { result: Outcome::Err(failure), .. } => {
                errors.insert(failure.kind);
            }
            _ => {}
        }
    }
    assert_eq!(events.len(), 20, "{events:?}");
    assert_eq!(awaits.len(), 5, "{awaits:?}");
    assert_eq!(causes, BTreeSet::from(RetryCause::ALL));
    assert_eq!(errors, BTreeSet::from(ErrorKind::ALL));
    for form in [
        r#"{"codec":"json","value":"#,
        r#"{"codec":"json","text":"#,
        r#"{"codec":"json","base64":"#,
        r#"{"codec":"text","text":"#,
        r#"{"codec":"text","base64":"#,
        r#"{"codec":"raw","base64":"#,
        r#"{"codec":"http","base64":"#,
        r#"{"codec":"codec-200","base64":"#,
        r#""bound":{"Bounded":3}"#,
        r#""bound":"Unbounded""#,
        r#""detail":"#,
        r#""reconciler":"#,
        r#""callee":"#,
        r#""parent_id":"#,
    ] {
        assert!(FIXTURE.contains(form), "{form}");
    }
}
