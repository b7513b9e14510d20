//! The payment service's own book: what arrived, which card was charged how often, and what it was
//! asked. Whatever the demonstration says of charges comes from here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use super::event::{Event, Said, Tell};
use super::plan::{Fault, Number, Plan};

/// A book of one payment service.
#[derive(Debug)]
pub(super) struct Book {
    plan: Plan,
    tell: Tell,
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
    /// How many requests under it are being worked on.
    working: u32,
    /// The charge, if there is one.
    charge: Option<String>,
    /// What was said when it was asked about; the best of it.
    said: Option<Said>,
    /// Whether what became of it is known to whoever asked.
    settled: bool,
}

/// Where things stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// How many orders have begun to be charged.
    pub(super) orders: u32,
    /// How many requests to charge have arrived.
    pub(super) arrivals: u32,
    /// How many of them are being worked on.
    pub(super) in_flight: u32,
    /// Of how many charges the service was asked what became of them.
    pub(super) asked: u32,
    /// Of how many of those whoever asked knows.
    pub(super) settled: u32,
}

/// What was charged, in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Count {
    pub(super) charged_once: u32,
    pub(super) charged_more: u32,
    pub(super) not_charged: u32,
    /// How often any card was charged.
    pub(super) charges: u32,
}

/// What is to be done with a request that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) arrival: u32,
    pub(super) fault: Fault,
}

impl Book {
    pub(super) fn new(plan: Plan, tell: Tell) -> Self {
        Self { plan, tell, progress: watch::Sender::default(), pages: Mutex::default() }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tells when something has changed.
    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// A request to charge has arrived.
    pub(super) fn arrived(&self, key: &str, order: Number) -> Arrived {
        let mut pages = self.pages();
        let account = pages.orders.entry(order).or_default();
        account.arrivals += 1;
        let arrival = account.arrivals;
        let entry = pages.keys.entry(key.to_owned()).or_default();
        entry.order = Some(order);
        entry.working += 1;
        // Whoever asked was told that it had not happened, and sends it. What becomes of that is
        // another question.
        let sent_again = entry.said.take().is_some() && !entry.settled;
        entry.settled = false;
        self.progress.send_modify(|now| {
            now.orders += u32::from(arrival == 1);
            now.arrivals += 1;
            now.in_flight += 1;
            now.settled += u32::from(sent_again);
        });
        if sent_again {
            self.tell(Event::SentAgain { order });
        }
        Arrived { arrival, fault: self.plan.fault(order, arrival) }
    }

    /// Charges the card, whatever was charged before: keys are noted, and not honoured. Returns the
    /// receipt.
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
            self.tell(Event::ChargedAgain { order, times });
        }
        receipt
    }

    /// A request was answered, or its connection is broken on purpose.
    pub(super) fn over(&self, key: &str, order: Number, fault: Fault) {
        let mut pages = self.pages();
        if let Some(entry) = pages.keys.get_mut(key) {
            entry.working -= 1;
        }
        self.progress.send_modify(|now| now.in_flight -= 1);
        match fault {
            Fault::None => {}
            Fault::LostBefore => self.tell(Event::Lost { order, charged: false }),
            Fault::LostAfter | Fault::Unknowable => self.tell(Event::Lost { order, charged: true }),
        }
    }

    /// Whether a key was charged; with the receipt if it was, and it can say.
    pub(super) fn ask(&self, key: &str) -> (Said, Option<String>) {
        let mut pages = self.pages();
        let entry = pages.keys.entry(key.to_owned()).or_default();
        let unknowable = entry.order.is_some_and(|order| self.plan.is_unknowable(order));
        let (said, receipt) = match &entry.charge {
            _ if unknowable => (Said::CannotSay, None),
            Some(receipt) => (Said::Charged, Some(receipt.clone())),
            None if entry.working > 0 => (Said::Working, None),
            None => (Said::NotCharged, None),
        };
        let first = entry.said.is_none();
        let news = entry.said.is_none_or(|before| before < said);
        let settled = said == Said::Charged && !entry.settled;
        entry.settled |= settled;
        entry.said = entry.said.max(Some(said));
        let order = entry.order;
        self.progress.send_modify(|now| {
            now.asked += u32::from(first);
            now.settled += u32::from(settled);
        });
        if news {
            self.tell(Event::Asked { order, said });
        }
        (said, receipt)
    }

    /// What a person finds who looks for an order: its receipt, if a card was charged for it.
    pub(super) fn look_up(&self, order: Number) -> Option<String> {
        let pages = self.pages();
        let own = |entry: &&Entry| entry.order == Some(order);
        pages.keys.values().filter(own).find_map(|entry| entry.charge.clone())
    }

    /// A person has said what became of an order.
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

    fn tell(&self, event: Event) {
        // Nobody listens any more when the demonstration is over.
        _ = self.tell.send(event);
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

    /// It is a service as many are: a key that comes twice is charged twice, and it says so.
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

    /// What it says when it is asked by key, and when whoever asked knows.
    #[test]
    fn it_can_be_asked() {
        let plan = Plan::new(1, 12, 0);
        let (book, order) = (book(&plan), with(&plan, Fault::None));
        assert_eq!(book.ask("k").0, Said::NotCharged);
        assert_eq!((book.progress().asked, book.progress().settled), (1, 0));
        book.arrived("k", order);
        assert_eq!(book.ask("k").0, Said::Working, "it may still be charged");
        assert_eq!((book.progress().asked, book.progress().settled), (2, 1), "it was sent again");
        let receipt = book.charge("k", order);
        for _ in 0..2 {
            assert_eq!(book.ask("k"), (Said::Charged, Some(receipt.clone())));
            assert_eq!((book.progress().asked, book.progress().settled), (2, 2));
        }
        assert_eq!(book.look_up(order), Some(receipt));
    }

    /// Of one order it cannot say, although it is in the book.
    #[test]
    fn of_one_order_it_cannot_say() {
        let plan = Plan::new(1, 12, 0);
        let (book, order) = (book(&plan), with(&plan, Fault::Unknowable));
        assert_eq!(book.arrived("k", order).fault, Fault::Unknowable);
        book.charge("k", order);
        book.over("k", order, Fault::Unknowable);
        assert_eq!(book.ask("k"), (Said::CannotSay, None));
        assert!(book.look_up(order).is_some());
        assert_eq!((book.progress().asked, book.progress().settled), (1, 0));
        book.resolved(order);
        assert_eq!((book.progress().asked, book.progress().settled), (1, 1));
    }
}
