//! The end: what the payment services counted, and how the one order was resolved that nobody could
//! know about. As text, and as JSON.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::acts::{Act, Durable};
use super::book::Count;
use super::paint::{Line, Style};
use super::person::Held;
use super::plan::Plan;
use super::server::DATA;
use crate::failure::{Failure, Verdict};

/// Everything that is told in the end.
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
    /// How many orders are complete, as customers were told.
    completed: u32,
    /// How many executions there are: one an order, although each was placed twice.
    executions: u32,
    /// Charges of which nobody knew whether they happened, and of which the service was asked.
    asked: u32,
    settled: u32,
    held: &'a [Held],
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
    /// What is wrong, if anything is: every card must have been charged exactly once, and every
    /// order be complete.
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

    pub(super) fn verdict(&self) -> Verdict {
        match self.wrong() {
            None => Verdict::Well,
            Some(wrong) => Verdict::Wrong(Failure::new(wrong).hint(format!(
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
                Line::default().then(Style::Bad, format!("WRONG: {wrong}")),
            ]);
        }
        let (seed, requests) = (self.plan.seed, self.plan.orders * 2);
        let executions = self.durable.executions;
        lines.push(Line::new(format!(
            "Orders were placed twice, by key: {requests} requests, {executions} executions. Seed {seed}."
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
            Style::Strong,
            format!(
                "{:32}{:>12}{:>24}",
                "As the payment services counted", "Indelible", "a plain retry loop"
            ),
        );
        let row = |name: &str, own: u32, other: u32| {
            (Line::new(format!("{name:32}{own:>12}")), format!("{other:>24}"))
        };
        let plain = |(line, other): (Line, String)| line.then(Style::Plain, other);
        let more =
            row("cards charged twice or more", own.count.charged_more, other.count.charged_more);
        let well = if self.wrong().is_none() { Style::Good } else { Style::Bad };
        let style = if other.count.charged_more > 0 { Style::Bad } else { Style::Plain };
        vec![
            head,
            plain(row("orders", self.plan.orders, self.plan.orders)),
            plain(row("crashes survived", own.crashes, other.crashes)),
            Line::new(format!("{:32}", "cards charged once"))
                .then(well, format!("{:>12}", own.count.charged_once))
                .then(Style::Plain, format!("{:>24}", other.count.charged_once)),
            more.0.then(style, more.1),
            plain(row("cards not charged", own.count.not_charged, other.count.not_charged)),
        ]
    }

    fn onward(&self) -> Vec<Line> {
        let command = |command: &str, what: &str| {
            Line::new("  ").then(Style::Strong, format!("{command:31}")).then(Style::Faint, what)
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

/// How an order that was held came to its end.
fn story(held: &Held) -> Vec<Line> {
    let Held { order, command, in_the_book, completed, .. } = held;
    let found = if *in_the_book { "It was in their book:" } else { "It was not in their book:" };
    let mut lines = vec![
        Line::default()
            .then(Style::Strong, format!("{order} was Indeterminate. "))
            .then(Style::Plain, "The answer was lost, and the payment service could"),
        Line::new("not say whether it had charged the card. Indelible did not guess. It held the"),
        Line::new(format!("order and asked a person, who looked it up. {found}")),
    ];
    lines.extend(wrapped(command));
    lines.push(if *completed {
        Line::new("Then the order went on, and was shipped.")
    } else {
        Line::default().then(Style::Bad, "Then the order failed.")
    });
    lines
}

/// A command over several lines, as a shell takes it.
fn wrapped(command: &str) -> Vec<Line> {
    // A promise is long, and alone on its line.
    let (what, rest) = command.split_once(" happened").unwrap_or((command, ""));
    if rest.is_empty() {
        return vec![Line::new("  ").then(Style::Strong, command)];
    }
    let (command, promise) = what.rsplit_once(' ').unwrap_or((what, ""));
    let (said, reason) = rest.split_once(" --reason").unwrap_or((rest, ""));
    let parts = [
        format!("{command} \\"),
        format!("  {promise} \\"),
        format!("  happened{said} \\"),
        format!("  --reason{reason}"),
    ];
    parts.map(|part| Line::new("  ").then(Style::Strong, part)).to_vec()
}
