//! The end of the demo: what the payment services counted, and how the held order was resolved. As
//! text, and as JSON.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::acts::{Act, Durable};
use super::book::Count;
use super::paint::Line;
use super::person::HeldOrder;
use super::plan::Plan;
use super::server::DATA;
use crate::failure::{CommandEnd, Failure};
use crate::screen::Tone;
use crate::text::{count, width};

/// The width that every terminal has. Lines of the end are not cut, so that commands can be copied.
const COLUMNS_MAX: usize = 80;

/// Everything that is reported at the end.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) durable: &'a Durable,
    pub(super) retried: &'a Act,
    pub(super) elapsed: Duration,
    pub(super) kept: Option<&'a Path>,
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    ok: bool,
    seed: u64,
    orders: u32,
    kills: usize,
    seconds: f64,
    indelible: Figures,
    /// How many orders are complete, as the server told the customers.
    completed: u32,
    /// How many executions there are: one per order, although each order was placed twice.
    executions: u32,
    /// How many charges with an unknown outcome the service was asked about.
    asked: u32,
    settled: u32,
    held: &'a [HeldOrder],
    retry_loop: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

#[derive(Serialize)]
struct Figures {
    crashes: u32,
    /// How many requests to charge arrived.
    requests: u32,
    #[serde(flatten)]
    count: Count,
}

impl From<&Act> for Figures {
    fn from(act: &Act) -> Self {
        Self { crashes: act.crashes, requests: act.progress.arrivals, count: act.count }
    }
}

impl Report<'_> {
    /// What is wrong, if anything: every card must have been charged exactly once, and every order
    /// be complete.
    fn wrong(&self) -> Option<String> {
        let (Count { charged_once, charged_more, not_charged, .. }, orders) =
            (self.durable.act.count, self.plan.orders);
        if charged_once != orders {
            return Some(format!(
                "of {orders} cards, Indelible charged {charged_more} twice or more and \
                 {not_charged} not at all"
            ));
        }
        let (complete, executions) = (self.durable.complete, self.durable.executions);
        if complete != orders || executions != orders {
            return Some(format!(
                "of {orders} orders, {complete} are complete, in {executions} executions"
            ));
        }
        None
    }

    pub(super) fn verdict(&self) -> CommandEnd {
        match self.wrong() {
            None => CommandEnd::Well,
            Some(wrong) => CommandEnd::Wrong(Failure::new(wrong).hint(format!(
                "this must never be: please report it, with what --seed {} --keep DIR keeps",
                self.plan.seed
            ))),
        }
    }

    pub(super) fn json(&self) -> String {
        let document = Document {
            v: 1,
            ok: self.wrong().is_none(),
            seed: self.plan.seed,
            orders: self.plan.orders,
            kills: self.plan.kill_points.len(),
            seconds: (self.elapsed.as_secs_f64() * 10.0).round() / 10.0,
            indelible: (&self.durable.act).into(),
            completed: self.durable.complete,
            executions: self.durable.executions,
            asked: self.durable.act.progress.asked,
            settled: self.durable.act.progress.settled,
            held: &self.durable.held,
            retry_loop: self.retried.into(),
            kept: self.kept.map(|path| path.display().to_string()),
        };
        serde_json::to_string_pretty(&document).expect("texts and numbers are JSON")
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = self.table();
        if let Some(wrong) = self.wrong() {
            lines.extend([
                Line::default(),
                Line::default().then(Tone::Bad, format!("WRONG: {wrong}")),
            ]);
        }
        let executions = count(self.durable.executions.into(), "execution");
        lines.push(Line::new(format!(
            "Each order was placed twice, under one key: {executions}. Seed {}.",
            self.plan.seed
        )));
        for held in &self.durable.held {
            lines.push(Line::default());
            lines.extend(story(held));
        }
        lines.push(Line::default());
        lines.extend(
            [
                "A retry loop that keeps its keys is right too, where the payment service honours",
                "them. Many do not, and this one does not. Indelible sends a key as well.",
            ]
            .map(Line::new),
        );
        lines.push(Line::default());
        lines.extend(self.onward());
        lines
    }

    fn table(&self) -> Vec<Line> {
        let (own, other) = (&self.durable.act, self.retried);
        let head = Line::default().then(
            Tone::Strong,
            format!(
                "{:32}{:>12}{:>24}",
                "As the payment services counted", "Indelible", "a plain retry loop"
            ),
        );
        let row = |name: &str, own: u32, other: u32| {
            (Line::new(format!("{name:32}{own:>12}")), format!("{other:>24}"))
        };
        let plain = |(line, other): (Line, String)| line.then(None, other);
        let more =
            row("cards charged twice or more", own.count.charged_more, other.count.charged_more);
        let well = if self.wrong().is_none() { Tone::Good } else { Tone::Bad };
        let tone = (other.count.charged_more > 0).then_some(Tone::Bad);
        vec![
            head,
            plain(row("orders", self.plan.orders, self.plan.orders)),
            plain(row("crashes survived", own.crashes, other.crashes)),
            Line::new(format!("{:32}", "cards charged once"))
                .then(well, format!("{:>12}", own.count.charged_once))
                .then(None, format!("{:>24}", other.count.charged_once)),
            more.0.then(tone, more.1),
            plain(row("cards not charged", own.count.not_charged, other.count.not_charged)),
        ]
    }

    fn onward(&self) -> Vec<Line> {
        let command = |command: &str, what: &str| {
            Line::new("  ").then(Tone::Strong, format!("{command:31}")).then(Tone::Faint, what)
        };
        let mut lines = Vec::new();
        if let Some(kept) = self.kept {
            let data = kept.join(DATA);
            lines.push(Line::new(format!(
                "Everything is kept in {}. To look at it:",
                kept.display()
            )));
            lines.push(command(&format!("indelible serve --data {}", data.display()), ""));
            lines.push(command("indelible show last", "beside it, in another terminal"));
        }
        lines.push(command("indelible new my-shop", "go on with a project of your own"));
        lines.push(command("indelible serve", "a server for it"));
        lines.push(command("docs/guides/first-workflow.md", "step by step"));
        lines
    }
}

/// How a held order was resolved.
fn story(held: &HeldOrder) -> Vec<Line> {
    let HeldOrder { order, why, command, in_the_book, completed, .. } = held;
    let found = match in_the_book {
        true => "It was in the book, so they typed:",
        false => "It was not in the book, so they typed:",
    };
    let mut lines = told(
        format!("{order} was Indeterminate:"),
        &format!("{why}. Indelible did not guess. It held the order and asked a person. {found}"),
    );
    lines.extend(wrapped(command));
    lines.push(if *completed {
        Line::new("Then the order went on, and was shipped.")
    } else {
        Line::default().then(Tone::Bad, "Then the order failed.")
    });
    lines
}

/// Bold text, and the words after it, wrapped.
fn told(strong: String, words: &str) -> Vec<Line> {
    let mut taken = width(&strong);
    let mut lines = Vec::new();
    let mut line = Line::default().then(Tone::Strong, strong);
    for word in words.split_whitespace() {
        taken += 1 + width(word);
        if taken > COLUMNS_MAX {
            taken = width(word);
            lines.push(std::mem::replace(&mut line, Line::new(word)));
        } else {
            line = line.then(None, format!(" {word}"));
        }
    }
    lines.push(line);
    lines
}

/// A command over several lines, as a shell accepts it.
fn wrapped(command: &str) -> Vec<Line> {
    // A promise is long, and gets its own line.
    let (what, rest) = command.split_once(" happened").unwrap_or((command, ""));
    if rest.is_empty() {
        return vec![Line::new("  ").then(Tone::Strong, command)];
    }
    let (command, promise) = what.rsplit_once(' ').unwrap_or((what, ""));
    let (said, reason) = rest.split_once(" --reason").unwrap_or((rest, ""));
    let parts = [
        format!("{command} \\"),
        format!("  {promise} \\"),
        format!("  happened{said} \\"),
        format!("  --reason{reason}"),
    ];
    parts.map(|part| Line::new("  ").then(Tone::Strong, part)).to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::demo::book::Progress;
    use crate::screen::Screen;

    const ORDERS: u32 = 12;

    const WELL: Count =
        Count { charged_once: ORDERS, charged_more: 0, not_charged: 0, charges: 12 };

    fn act(count: Count) -> Act {
        Act { crashes: 2, count, progress: Progress::default() }
    }

    /// The report of such an end: the error if it fails, the object, and the lines.
    fn told_of(durable: &Durable) -> (Option<String>, Value, Vec<String>) {
        let plan = Plan::new(7, ORDERS, 2);
        let charges = 15;
        let retried = act(Count { charged_once: 9, charged_more: 3, charges, ..WELL });
        let elapsed = Duration::from_secs(9);
        let report = Report { plan: &plan, durable, retried: &retried, elapsed, kept: None };
        let failure = match report.verdict() {
            CommandEnd::Well => None,
            CommandEnd::Wrong(failure) => Some(failure.to_string()),
        };
        let screen = Screen::new(None, None);
        let lines = report.lines().iter().map(|line| line.paint(screen, usize::MAX)).collect();
        (failure, serde_json::from_str(&report.json()).unwrap(), lines)
    }

    /// The demo fails if a card was charged twice or not at all, if an order is not complete, or if
    /// one was executed twice. The retry loop's result never counts.
    #[test]
    fn whatever_is_wrong_is_told() {
        let twice = Count { charged_once: 11, charged_more: 1, charges: 13, ..WELL };
        let never = Count { charged_once: 11, not_charged: 1, charges: 11, ..WELL };
        // As many charges as there are cards.
        let both = Count { charged_once: 10, charged_more: 1, not_charged: 1, charges: 12 };
        for (count, complete, executions, why) in [
            (WELL, 12, 12, None),
            (
                twice,
                12,
                12,
                Some("of 12 cards, Indelible charged 1 twice or more and 0 not at all"),
            ),
            (
                never,
                12,
                12,
                Some("of 12 cards, Indelible charged 0 twice or more and 1 not at all"),
            ),
            (both, 12, 12, Some("of 12 cards, Indelible charged 1 twice or more and 1 not at all")),
            (WELL, 11, 12, Some("of 12 orders, 11 are complete, in 12 executions")),
            (WELL, 12, 13, Some("of 12 orders, 12 are complete, in 13 executions")),
            (WELL, 12, 11, Some("of 12 orders, 12 are complete, in 11 executions")),
        ] {
            let durable = Durable { act: act(count), complete, executions, held: Vec::new() };
            let (failure, object, lines) = told_of(&durable);
            let expected = why.map(|why| format!("error: {why}\nhint: this must never be: "));
            match (&failure, &expected) {
                (Some(failure), Some(expected)) => {
                    assert!(failure.starts_with(expected), "{failure}");
                    assert!(failure.contains("--seed 7"), "{failure}");
                }
                _ => assert_eq!(failure, expected),
            }
            assert_eq!(object["ok"], why.is_none(), "{object}");
            assert_eq!(object["executions"], executions);
            let wrong: Vec<_> = lines.iter().filter(|line| line.starts_with("WRONG: ")).collect();
            let expected = why.map(|why| format!("WRONG: {why}"));
            assert_eq!(wrong, expected.iter().collect::<Vec<_>>());
            let key = format!("under one key: {executions} executions. Seed 7.");
            assert!(lines.iter().any(|line| line.contains(&key)), "{lines:#?}");
        }
    }

    /// A held order shows the reason that the server gave, and the report fits on a screen.
    #[test]
    fn a_held_order_says_why() {
        let promise = "x".repeat(60);
        for why in ["the engine stopped while the request was in flight", "the time limit passed"] {
            let why = format!("{why}; the reconciler cannot tell whether it happened");
            let held = HeldOrder {
                order: "order-1000".parse().unwrap(),
                promise: promise.clone(),
                why: why.clone(),
                in_the_book: true,
                resolution: "happened",
                reason: "it is in their book",
                command: format!("indelible resolve {promise} happened --status 201 --reason 'so'"),
                completed: true,
            };
            let durable =
                Durable { act: act(WELL), complete: 12, executions: 12, held: vec![held] };
            let (_, _, lines) = told_of(&durable);
            assert!(lines.iter().all(|line| width(line) <= COLUMNS_MAX), "{lines:#?}");
            assert!(lines.len() < 24, "{lines:#?}");
            let story = format!("order-1000 was Indeterminate: {why}. Indelible did not guess.");
            assert!(lines.join(" ").contains(&story), "{lines:#?}");
        }
    }
}
