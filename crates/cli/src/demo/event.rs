//! Events of the demo, reported by the payment service, the customers and the killer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::book::Book;
use super::plan::Number;
use crate::screen::Tone;

pub(super) type Tell = UnboundedSender<Event>;
pub(super) type Events = UnboundedReceiver<Event>;

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// An act begins, with a payment service of its own.
    Begins { who: Who, book: Arc<Book> },
    /// The server is being started.
    Starting,
    /// The process is up for the first time.
    Up { who: Who, process: u32 },
    /// The process was killed, while so many charges were in flight.
    Killed { kill: u32, kills: u32, in_flight: u32 },
    /// It is up again.
    Back { who: Who, after: Duration },
    /// An order is complete.
    Complete,
    /// An order has failed.
    Failed { order: Number, why: String },
    /// The payment service lost a connection on purpose.
    Lost { order: Number, charged: bool },
    /// A charge came a second time, or later, and the card was charged again.
    ChargedAgain { order: Number, times: u32 },
    /// The payment service was asked for the first time whether a key was charged.
    Asked { order: Option<Number>, said: ServiceAnswer },
    /// A charge that had not happened was sent again.
    SentAgain { order: Number },
    /// An order waits for a person.
    Held { order: Number },
    /// A person has resolved the order.
    Resolved { order: Number, how: &'static str },
}

/// Which process an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Server,
    RetryLoop,
}

/// What the payment service answers about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServiceAnswer {
    NotCharged,
    Working,
    CannotSay,
    Charged,
}

impl Event {
    /// A line for people; none for events that are only counted.
    pub(super) fn line(&self) -> Option<(Option<Tone>, String)> {
        let nameless = || "a charge that never came".to_owned();
        Some(match self {
            Self::Begins { .. } | Self::Complete => return None,
            Self::Starting => (None, "a server is started, and the shop deployed".to_owned()),
            Self::Up { who: Who::Server, process } => {
                (None, format!("the shop is open; its server is process {process}"))
            }
            Self::Up { who: Who::RetryLoop, process } => {
                (None, format!("the retry loop is up, process {process}"))
            }
            Self::Killed { kill, kills, in_flight } => {
                let charges = if *in_flight == 1 { "charge" } else { "charges" };
                (
                    Some(Tone::Bad),
                    format!("kill -9 ({kill} of {kills}), {in_flight} {charges} in flight"),
                )
            }
            Self::Back { who, after } => {
                let then = match who {
                    Who::Server => "each order goes on where it was",
                    Who::RetryLoop => "it goes on with what is not marked done",
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
                    ServiceAnswer::NotCharged => "not so far; asked again soon",
                    ServiceAnswer::Working => "it is being worked on",
                    ServiceAnswer::CannotSay => "their service cannot say",
                };
                (None, format!("{what}: was it charged? {said}"))
            }
            Self::SentAgain { order } => {
                (None, format!("{order}: it was not, so it is charged now"))
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
        for who in [Who::Server, Who::RetryLoop] {
            events.extend([Event::Up { who, process }, Event::Back { who, after }]);
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
