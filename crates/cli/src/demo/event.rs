//! Events of the demo, reported by the payment service, the customers and the process killer, and
//! the line that each of them prints.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::book::Book;
use super::plan::Number;
use crate::screen::Tone;

/// Where the parts of the demo report their events.
pub(super) type EventSender = UnboundedSender<Event>;
pub(super) type Events = UnboundedReceiver<Event>;

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// An act begins, with a payment service of its own.
    Begins { program: Program, book: Arc<Book> },
    /// The server is being started.
    Starting,
    /// The process is up for the first time.
    Up { program: Program, process: u32 },
    /// The process was killed with `in_flight` charges in flight.
    Killed { kill: u32, kills: u32, in_flight: u32 },
    /// The killed process is up again.
    Back { program: Program, after: Duration },
    /// An order is complete.
    Complete,
    /// An order has failed.
    Failed { order: Number, why: String },
    /// The payment service lost a connection on purpose.
    Lost { order: Number, charged: bool },
    /// A charge was repeated, and the card was charged again: `times` times in all.
    ChargedAgain { order: Number, times: u32 },
    /// The payment service was asked whether a key was charged, and gave its first or a better
    /// answer. `order` is `None` if no charge has arrived under the key.
    Asked { order: Option<Number>, said: ServiceAnswer },
    /// The client learned that a charge had not happened, and sent it again.
    SentAgain { order: Number },
    /// An order waits for a person.
    Held { order: Number },
    /// A person has resolved the order.
    Resolved { order: Number, how: &'static str },
}

/// Which program an act runs and kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Server,
    RetryLoop,
}

/// How the payment service answers whether a key was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceAnswer {
    NotCharged,
    Working,
    CannotSay,
    Charged,
}

impl Event {
    /// The line to print, with its tone; `None` for events that are only counted.
    pub(super) fn line(&self) -> Option<(Option<Tone>, String)> {
        let nameless = || "a charge that never came".to_owned();
        Some(match self {
            Self::Begins { .. } | Self::Complete => return None,
            Self::Starting => (None, "starting a server and deploying the shop".to_owned()),
            Self::Up { program: Program::Server, process } => {
                (None, format!("the shop is open; its server is process {process}"))
            }
            Self::Up { program: Program::RetryLoop, process } => {
                (None, format!("the retry loop is up, process {process}"))
            }
            Self::Killed { kill, kills, in_flight } => {
                let charges = if *in_flight == 1 { "charge" } else { "charges" };
                (
                    Some(Tone::Bad),
                    format!("kill -9 ({kill} of {kills}), {in_flight} {charges} in flight"),
                )
            }
            Self::Back { program, after } => {
                let then = match program {
                    Program::Server => "each order continues where it was",
                    Program::RetryLoop => "it continues with the orders not marked done",
                };
                (Some(Tone::Good), format!("back after {} ms: {then}", after.as_millis()))
            }
            Self::Failed { order, why } => (Some(Tone::Bad), format!("{order} failed: {why}")),
            Self::Lost { order, charged: true } => {
                (None, format!("{order}: charged, but the answer was lost"))
            }
            Self::Lost { order, charged: false } => {
                (None, format!("{order}: the connection broke, nothing was charged"))
            }
            Self::ChargedAgain { order, times } => {
                let times = if *times == 2 { "twice".to_owned() } else { format!("{times} times") };
                (Some(Tone::Bad), format!("{order}: the card is charged {times}"))
            }
            Self::Asked { order, said } => {
                let what = order.map_or_else(nameless, |order| order.to_string());
                let said = match said {
                    ServiceAnswer::Charged => "yes",
                    ServiceAnswer::NotCharged => "not yet; Indelible asks again",
                    ServiceAnswer::Working => "the charge is in progress",
                    ServiceAnswer::CannotSay => "the service cannot tell",
                };
                (None, format!("{what}: was it charged? {said}"))
            }
            Self::SentAgain { order } => {
                (None, format!("{order}: it had not happened, so the charge is sent again"))
            }
            Self::Held { order } => {
                (Some(Tone::Bad), format!("{order}: the outcome is unknown, so it is held"))
            }
            Self::Resolved { order, how } => {
                (Some(Tone::Good), format!("{order}: a person looked it up and said: {how}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the time in front, every line fits 80 columns. Only the reason why an order failed may
    /// be longer.
    #[test]
    fn lines_fit() {
        let order: Number = "order-1000".parse().unwrap();
        let (process, after) = (4_194_304, Duration::from_secs(99));
        let mut events = vec![
            Event::Starting,
            Event::Killed { kill: 20, kills: 20, in_flight: 8 },
            Event::Lost { order, charged: true },
            Event::Lost { order, charged: false },
            Event::ChargedAgain { order, times: 20 },
            Event::SentAgain { order },
            Event::Held { order },
            Event::Resolved { order, how: "run-again" },
        ];
        for program in [Program::Server, Program::RetryLoop] {
            events.extend([Event::Up { program, process }, Event::Back { program, after }]);
        }
        for said in [
            ServiceAnswer::NotCharged,
            ServiceAnswer::Working,
            ServiceAnswer::CannotSay,
            ServiceAnswer::Charged,
        ] {
            events.extend([None, Some(order)].map(|order| Event::Asked { order, said }));
        }
        for event in events {
            let (_, text) = event.line().unwrap();
            assert!(text.len() <= 71, "{text}");
        }
        assert!(Event::Complete.line().is_none());
    }
}
