//! The payment service's own book: which requests arrived, how often each card was charged, and
//! what the service was asked. All figures about charges come from here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use super::event::{Event, EventSender, ServiceAnswer};
use super::plan::{Fault, Number, Plan};

/// A book of one payment service.
#[derive(Debug)]
pub(super) struct Book {
    plan: Plan,
    events: EventSender,
    progress: watch::Sender<Progress>,
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    orders: BTreeMap<Number, Account>,
    keys: HashMap<String, Entry>,
}

/// What is known of an order.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    arrivals: u32,
    charges: u32,
}

/// What is known of a key.
#[derive(Debug, Default)]
struct Entry {
    order: Option<Number>,
    /// How many requests under the key are being worked on.
    working: u32,
    /// The charge, if there is one.
    charge: Option<String>,
    /// The best answer that the service gave about the key.
    said: Option<ServiceAnswer>,
    /// Whether the client knows what became of the charge.
    settled: bool,
}

/// The figures that are shown while the demo runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// How many orders have begun to be charged.
    pub(super) orders: u32,
    /// How many requests to charge have arrived.
    pub(super) arrivals: u32,
    /// How many of them are being worked on.
    pub(super) in_flight: u32,
    /// How many charges the service was asked about.
    pub(super) asked: u32,
    /// How many of those are settled: the client knows what became of them.
    pub(super) settled: u32,
}

/// The final count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    pub(super) charged_once: u32,
    pub(super) charged_more: u32,
    pub(super) not_charged: u32,
    /// How often cards were charged, in all.
    pub(super) charges: u32,
}

/// What to do with a request that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivalAction {
    pub(super) arrival: u32,
    pub(super) fault: Fault,
}

impl Book {
    pub(super) fn new(plan: Plan, events: EventSender) -> Self {
        Self { plan, events, progress: watch::Sender::default(), pages: Mutex::default() }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Receives every change of the figures.
    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// A request to charge has arrived.
    pub(super) fn arrived(&self, key: &str, order: Number) -> ArrivalAction {
        let mut pages = self.pages();
        let account = pages.orders.entry(order).or_default();
        account.arrivals += 1;
        let arrival = account.arrivals;
        let entry = pages.keys.entry(key.to_owned()).or_default();
        entry.order = Some(order);
        entry.working += 1;
        // The client was told that the charge had not happened, and sends it again. That settles
        // the question; the new charge may raise another.
        let sent_again = entry.said.take().is_some() && !entry.settled;
        entry.settled = false;
        self.progress.send_modify(|now| {
            now.orders += u32::from(arrival == 1);
            now.arrivals += 1;
            now.in_flight += 1;
            now.settled += u32::from(sent_again);
        });
        if sent_again {
            self.report(Event::SentAgain { order });
        }
        ArrivalAction { arrival, fault: self.plan.fault(order, arrival) }
    }

    /// Charges the card whatever was charged before: keys are recorded, but not honoured. Returns
    /// the receipt.
    pub(super) fn charge(&self, key: &str, order: Number) -> String {
        let mut pages = self.pages();
        let account = pages.orders.entry(order).or_default();
        account.charges += 1;
        let times = account.charges;
        let receipt = format!(r#"{{"charge":"{order}/{times}"}}"#);
        if let Some(entry) = pages.keys.get_mut(key) {
            entry.charge = Some(receipt.clone());
        }
        if times > 1 {
            self.report(Event::ChargedAgain { order, times });
        }
        receipt
    }

    /// A request was answered, or its connection was broken on purpose.
    pub(super) fn over(&self, key: &str, order: Number, fault: Fault) {
        let mut pages = self.pages();
        if let Some(entry) = pages.keys.get_mut(key) {
            entry.working -= 1;
        }
        self.progress.send_modify(|now| now.in_flight -= 1);
        match fault {
            Fault::None => {}
            Fault::LostBefore => self.report(Event::Lost { order, charged: false }),
            Fault::LostAfter | Fault::Unknowable => {
                self.report(Event::Lost { order, charged: true });
            }
        }
    }

    /// Answers whether a key was charged, with the receipt if it was.
    pub(super) fn ask(&self, key: &str) -> (ServiceAnswer, Option<String>) {
        let mut pages = self.pages();
        let entry = pages.keys.entry(key.to_owned()).or_default();
        let unknowable = entry.order.is_some_and(|order| self.plan.is_unknowable(order));
        let (said, receipt) = match &entry.charge {
            _ if unknowable => (ServiceAnswer::CannotSay, None),
            Some(receipt) => (ServiceAnswer::Charged, Some(receipt.clone())),
            None if entry.working > 0 => (ServiceAnswer::Working, None),
            None => (ServiceAnswer::NotCharged, None),
        };
        let first = entry.said.is_none();
        let news = entry.said.is_none_or(|before| before < said);
        let settled = said == ServiceAnswer::Charged && !entry.settled;
        entry.settled |= settled;
        entry.said = entry.said.max(Some(said));
        let order = entry.order;
        self.progress.send_modify(|now| {
            now.asked += u32::from(first);
            now.settled += u32::from(settled);
        });
        if news {
            self.report(Event::Asked { order, said });
        }
        (said, receipt)
    }

    /// What a person finds in the book for an order: its receipt, if a card was charged.
    pub(super) fn look_up(&self, order: Number) -> Option<String> {
        let pages = self.pages();
        let own = |entry: &&Entry| entry.order == Some(order);
        pages.keys.values().filter(own).find_map(|entry| entry.charge.clone())
    }

    /// A person has resolved the order.
    pub(super) fn resolved(&self, order: Number) {
        let mut pages = self.pages();
        let open = |entry: &&mut Entry| entry.order == Some(order) && entry.said.is_some();
        for entry in pages.keys.values_mut().filter(open).filter(|entry| !entry.settled) {
            entry.settled = true;
            self.progress.send_modify(|now| now.settled += 1);
        }
    }

    /// What was charged so far.
    pub(super) fn count(&self) -> Count {
        let pages = self.pages();
        let charges = |number| pages.orders.get(&number).map_or(0, |account| account.charges);
        let all: Vec<u32> = self.plan.numbers().map(charges).collect();
        let count = |which: fn(u32) -> bool| {
            let found = all.iter().filter(|charges| which(**charges)).count();
            u32::try_from(found).expect("there are a thousand orders at most")
        };
        Count {
            charged_once: count(|charges| charges == 1),
            charged_more: count(|charges| charges > 1),
            not_charged: count(|charges| charges == 0),
            charges: all.iter().sum(),
        }
    }

    fn report(&self, event: Event) {
        // The receiver is gone when the demo is over.
        _ = self.events.send(event);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(plan: &Plan) -> Book {
        Book::new(plan.clone(), tokio::sync::mpsc::unbounded_channel().0)
    }

    fn with(plan: &Plan, fault: Fault) -> Number {
        plan.numbers().find(|number| plan.fault(*number, 1) == fault).unwrap()
    }

    /// Like many services: a key that arrives twice is charged twice, and the book shows it.
    #[test]
    fn keys_are_noted_and_not_honoured() {
        let plan = Plan::new(1, 12, 0);
        let (book, order) = (book(&plan), with(&plan, Fault::LostAfter));
        for arrival in [1, 2] {
            assert_eq!(book.arrived("k", order).arrival, arrival);
            book.charge("k", order);
            book.over("k", order, Fault::None);
        }
        let count = Count { charged_once: 0, charged_more: 1, not_charged: 11, charges: 2 };
        assert_eq!(book.count(), count);
        assert_eq!(book.progress().in_flight, 0);
        assert_eq!((book.progress().orders, book.progress().arrivals), (1, 2));
    }

    /// What the service answers about a key, and when the charge counts as settled.
    #[test]
    fn it_can_be_asked() {
        let plan = Plan::new(1, 12, 0);
        let (book, order) = (book(&plan), with(&plan, Fault::None));
        assert_eq!(book.ask("k").0, ServiceAnswer::NotCharged);
        assert_eq!((book.progress().asked, book.progress().settled), (1, 0));
        book.arrived("k", order);
        assert_eq!(book.ask("k").0, ServiceAnswer::Working, "it may still be charged");
        assert_eq!((book.progress().asked, book.progress().settled), (2, 1), "it was sent again");
        let receipt = book.charge("k", order);
        for _ in 0..2 {
            assert_eq!(book.ask("k"), (ServiceAnswer::Charged, Some(receipt.clone())));
            assert_eq!((book.progress().asked, book.progress().settled), (2, 2));
        }
        assert_eq!(book.look_up(order), Some(receipt));
    }

    /// The service cannot say what became of one order, although it is in the book.
    #[test]
    fn of_one_order_it_cannot_say() {
        let plan = Plan::new(1, 12, 0);
        let (book, order) = (book(&plan), with(&plan, Fault::Unknowable));
        assert_eq!(book.arrived("k", order).fault, Fault::Unknowable);
        book.charge("k", order);
        book.over("k", order, Fault::Unknowable);
        assert_eq!(book.ask("k"), (ServiceAnswer::CannotSay, None));
        assert!(book.look_up(order).is_some());
        assert_eq!((book.progress().asked, book.progress().settled), (1, 0));
        book.resolved(order);
        assert_eq!((book.progress().asked, book.progress().settled), (1, 1));
    }
}
