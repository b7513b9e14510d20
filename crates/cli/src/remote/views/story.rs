//! The steps of an execution so far, from its events, in bounded memory. Pure.

use indelible_journal::json::{self, ParseError};
use indelible_journal::{Event, JournalKey, Record, Timestamp};

use super::page::Subject;
use super::waits;
use crate::journal::kept::Bound;
use crate::journal::spans::{Spans, Timeline};

/// Of a long execution, the first and the last so many steps are shown.
const STEPS_AT_EACH_END: usize = 40;

/// The steps of one attempt.
pub(super) struct Story {
    key: JournalKey,
    began: Timestamp,
    last: Timestamp,
    spans: Spans,
    /// How many events have been taken.
    pub(super) events: u64,
}

impl Story {
    /// Takes the next event. An event that starts another attempt begins a new story.
    pub(super) fn take(story: Option<Self>, key: JournalKey, record: &Record) -> Option<Self> {
        let mut story = match (story, &record.event) {
            (_, Event::ExecutionStarted(started)) => {
                let ends = Bound::Ends(STEPS_AT_EACH_END, STEPS_AT_EACH_END);
                let spans = Spans::new(started.function_name.to_string(), ends);
                let (began, last) = (record.timestamp, record.timestamp);
                Self { key, began, last, spans, events: 0 }
            }
            (Some(story), _) if story.key == key => story,
            // Without the first event there is no story to continue.
            (story, _) => return story,
        };
        story.last = story.last.max(record.timestamp);
        story.events += 1;
        story.spans.step(&record.event, record.timestamp.saturating_since(story.began).get());
        Some(story)
    }

    /// The steps up to its last event or, if it goes on, up to now.
    pub(super) fn timeline(&self, subject: &Subject, now: Timestamp) -> Timeline {
        let is_over = subject.detail.execution.state.is_over();
        let until = if is_over { self.last } else { self.last.max(now) };
        let mut timeline = self.spans.clone().finish(until.saturating_since(self.began).get());
        for (promise, since, who) in waits::asked(&subject.detail, &subject.unknown) {
            let since = since.map_or(0, |since| since.saturating_since(self.began).get());
            timeline.ask(&promise, since, who);
        }
        timeline
    }
}

/// An event as a server sends it.
pub(super) fn event(text: &str) -> Result<(JournalKey, Record), ParseError> {
    json::parse_line(text)
}
