//! The figures and last events, as lines. Pure: it makes lines, and does not write them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::book::Book;
use super::event::{Event, Program};
use super::paint::{Line, bar};
use super::plan::Plan;
use crate::screen::Tone;

/// How many of the last events are shown.
const EVENTS_SHOWN: usize = 9;

/// How wide the bar is.
const BAR_COLUMNS: usize = 36;

/// The state of the demo.
#[derive(Default)]
pub(super) struct Board {
    seed: u64,
    orders: u32,
    kills: u32,
    act: Option<(Program, Arc<Book>)>,
    complete: u32,
    crashes: u32,
    held: u32,
    events: VecDeque<Line>,
    /// How the first act ended, once it has.
    before: Option<Line>,
}

impl Board {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            orders: plan.orders,
            kills: u32::try_from(plan.kill_points.len()).expect("there are few"),
            ..Self::default()
        }
    }

    /// The first line, where lines are printed one after the other.
    pub(super) fn title(&self) -> Line {
        Line::default().then(Tone::Strong, format!("indelible demo, seed {}", self.seed))
    }

    /// The introduction to an act.
    pub(super) fn opening(&self, program: Program) -> Vec<Line> {
        let Self { orders, kills, .. } = self;
        let times = match kills {
            0 => "is not killed this time".to_owned(),
            1 => "is killed once with kill -9, while cards are being charged".to_owned(),
            _ => format!("is killed {kills} times with kill -9, while cards are being charged"),
        };
        match program {
            Program::Server => vec![
                Line::new(format!(
                    "A shop takes {orders} orders, each placed twice: customers are impatient."
                )),
                Line::new(format!("Its server {times}.")),
                Line::new("The payment service charges for every request, and its line is bad."),
            ],
            Program::RetryLoop => vec![
                Line::new(
                    "Now a plain retry loop: the same orders, the same bad line, killed at the",
                ),
                Line::new(
                    "same points. It tries again on errors, and marks in a file what is done.",
                ),
            ],
        }
    }

    /// Takes in an event, and returns the line for it, if there is one.
    pub(super) fn take(&mut self, event: &Event, at: Duration) -> Option<Line> {
        match event {
            Event::Begins { program, book } => {
                if let Some((_, before)) = self.act.take() {
                    let once = before.count().charged_once;
                    let done = format!(
                        "Indelible: {} of {} orders complete, {} crashes, {once} cards charged once",
                        self.complete, self.orders, self.crashes,
                    );
                    self.before = Some(Line::default().then(Tone::Good, done));
                }
                self.act = Some((*program, Arc::clone(book)));
                (self.complete, self.crashes) = (0, 0);
                self.events.clear();
            }
            Event::Complete => self.complete += 1,
            Event::Back { .. } => self.crashes += 1,
            Event::Held { .. } => self.held += 1,
            Event::Resolved { .. } => self.held -= 1,
            _ => {}
        }
        let (tone, text) = event.line()?;
        let line = Line::default().then(Tone::Faint, clock(at)).then(None, "  ");
        let line = line.then(tone, text);
        if self.events.len() == EVENTS_SHOWN {
            self.events.pop_front();
        }
        self.events.push_back(line.clone());
        Some(line)
    }

    /// The whole screen.
    pub(super) fn lines(&self, at: Duration, columns: usize) -> Vec<Line> {
        let seconds = at.as_secs();
        let right = format!("seed {}   {}:{:02}", self.seed, seconds / 60, seconds % 60);
        let title = Line::default().then(Tone::Strong, "indelible demo");
        let mut lines = vec![title.right(columns, Tone::Faint, right), Line::default()];
        let Some((program, book)) = &self.act else { return lines };
        lines.extend(self.before.clone());
        lines.extend(self.opening(*program));
        lines.push(Line::default());
        lines.extend(self.figures(*program, book));
        lines.push(Line::default());
        lines.extend(self.events.iter().cloned());
        lines
    }

    fn figures(&self, program: Program, book: &Book) -> Vec<Line> {
        let (count, progress) = (book.count(), book.progress());
        let charged = count.charged_once + count.charged_more;
        let (done, what) = match program {
            Program::Server => (self.complete, "complete"),
            Program::RetryLoop => (charged, "charged"),
        };
        let row = |name: &str| Line::new("  ").then(Tone::Strong, format!("{name:10}"));
        let (filled, empty) = bar(done, self.orders, BAR_COLUMNS);
        let orders = row("orders").then(Tone::Good, filled).then(Tone::Faint, empty);
        let orders = orders.then(None, format!("  {done} of {} {what}", self.orders));
        let more = format!("{} twice or more", count.charged_more);
        let tone = (count.charged_more > 0).then_some(Tone::Bad);
        let cards = row("cards").then(None, format!("{} charged once, ", count.charged_once));
        let cards = cards.then(tone, more);
        let crashes = format!("{} of {} survived", self.crashes, self.kills);
        let mut rows = vec![orders, cards, row("crashes").then(None, crashes)];
        if program == Program::Server {
            let asked =
                format!("{} outcomes asked about, {} settled", progress.asked, progress.settled);
            let unknown = row("unknown").then(None, asked);
            rows.push(match self.held {
                0 => unknown,
                held => unknown.then(Tone::Bad, format!(", {held} held for a person")),
            });
        }
        rows
    }
}

/// The time as 0:07.4.
fn clock(at: Duration) -> String {
    let tenths = at.as_millis() / 100;
    format!("{:>2}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}
