//! Everything the seed decides: the orders, the faults of their charges, and when the process is
//! killed. Pure: the same seed gives the same plan, for Indelible and for the retry loop.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bench::random::Random;

/// One in so many orders loses the answer to its charge, and as many lose the charge itself.
const LOST_ONE_IN: u32 = 10;

/// How long the payment service takes, in milliseconds, when it is slow.
const SLOW_MS: std::ops::RangeInclusive<u64> = 10..=80;

/// How long it takes at best.
const QUICK_MS: u64 = 3;

/// How many customers come together in a wave.
const WAVE: u32 = 8;

/// The time between two waves, and the bound for all of them together.
const WAVE_INTERVAL: Duration = Duration::from_millis(900);
const WAVES_TIME_MAX: Duration = Duration::from_secs(8);

/// The customers of a wave come within this time, in milliseconds.
const WAVE_MS: u64 = 40;

/// What can be ordered.
const ITEMS: [&str; 6] = ["tea", "a kettle", "two cups", "a spoon", "honey", "a teapot"];

/// The uses of random numbers: each has a stream of its own.
#[derive(Debug, Clone, Copy)]
enum Use {
    Faults,
    Kills,
    Order,
    Latency,
    Patience,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) orders: u32,
    /// How many orders have begun to be charged when the process is killed, in rising order.
    pub(super) kill_points: Vec<u32>,
    /// In the order of numbers.
    faults: Vec<Fault>,
}

/// What goes wrong with the first charge of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// The connection breaks, and nothing was charged.
    LostBefore,
    /// The card is charged, and then the connection breaks.
    LostAfter,
    /// The same, and the payment service cannot say afterwards whether it was charged.
    Unknowable,
}

/// The number of an order, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Number(u32);

/// An order, as the workflow takes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) item: String,
    pub(super) cents: u64,
    /// The address of the payment service.
    pub(super) payments: String,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order-{}", self.0)
    }
}

impl std::str::FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = text.strip_prefix("order-").and_then(|number| number.parse().ok());
        number.map(Self).ok_or(())
    }
}

impl Plan {
    pub(super) fn new(seed: u64, orders: u32, kills: u32) -> Self {
        Self {
            seed,
            orders,
            kill_points: kill_points(seed, orders, kills),
            faults: faults(seed, orders),
        }
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = Number> + use<> {
        (1..=self.orders).map(Number)
    }

    /// What goes wrong with a charge of an order. Only the first charge has a fault: a client that
    /// does not give up gets through.
    pub(super) fn fault(&self, number: Number, arrival: u32) -> Fault {
        let index = number.0.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let fault = index.and_then(|index| self.faults.get(index));
        fault.copied().filter(|_| arrival == 1).unwrap_or(Fault::None)
    }

    /// Whether the payment service cannot say afterwards what became of a charge.
    pub(super) fn is_unknowable(&self, number: Number) -> bool {
        self.fault(number, 1) == Fault::Unknowable
    }

    /// How long a request takes before the card is charged, and after.
    pub(super) fn latency(&self, number: Number, arrival: u32) -> (Duration, Duration) {
        let mut random = self.random(Use::Latency, u64::from(number.0) << 32 | u64::from(arrival));
        let all = match random.below(3) {
            0 => QUICK_MS,
            _ => SLOW_MS.start() + random.below(SLOW_MS.end() - SLOW_MS.start() + 1),
        };
        let before = random.below(all + 1);
        (Duration::from_millis(before), Duration::from_millis(all - before))
    }

    /// When an order is placed, counted from the shop's opening.
    pub(super) fn due(&self, number: Number) -> Duration {
        let interval = WAVE_INTERVAL.min(WAVES_TIME_MAX / self.orders.div_ceil(WAVE));
        let wave = number.0.saturating_sub(1) / WAVE;
        let late = self.random(Use::Patience, number.0.into()).below(WAVE_MS);
        interval * wave + Duration::from_millis(late)
    }

    /// How long the customer waits before placing the order a second time.
    pub(super) fn patience(&self, number: Number) -> Duration {
        let mut random = self.random(Use::Patience, u64::from(number.0) << 32);
        Duration::from_millis(10 + random.below(60))
    }

    pub(super) fn order(&self, number: Number, payments: &str) -> Order {
        let mut random = self.random(Use::Order, number.0.into());
        let item = usize::try_from(random.below(ITEMS.len() as u64)).unwrap_or_default();
        Order {
            id: number.to_string(),
            item: ITEMS[item].to_owned(),
            cents: 500 + random.below(9_500),
            payments: payments.to_owned(),
        }
    }

    fn random(&self, what: Use, index: u64) -> Random {
        random(self.seed, what, index)
    }
}

fn random(seed: u64, what: Use, index: u64) -> Random {
    let mut stream = Random::of(seed, what as u64);
    Random::of(stream.number(), index)
}

/// Spreads the kills over the run, each a little off its place.
fn kill_points(seed: u64, orders: u32, kills: u32) -> Vec<u32> {
    let mut random = random(seed, Use::Kills, 0);
    let mut points: Vec<u32> = (1..=kills)
        .map(|kill| {
            let place = u64::from(orders) * u64::from(kill) / u64::from(kills + 1);
            let room = u64::from(orders) / u64::from(kills + 1);
            let place = place + random.below(room / 2 + 1);
            u32::try_from(place).unwrap_or(orders).clamp(1, orders)
        })
        .collect();
    points.sort_unstable();
    points
}

/// One unknowable order, and some whose connection breaks. The unknowable one is early, so that it
/// is held while the others go on.
fn faults(seed: u64, orders: u32) -> Vec<Fault> {
    let mut random = random(seed, Use::Faults, 0);
    let count = usize::try_from(orders).expect("a thousand at most");
    let mut faults = vec![Fault::None; count];
    let early = usize::try_from(random.below(u64::from(orders.div_ceil(2)))).unwrap_or_default();
    faults[early] = Fault::Unknowable;
    let mut others: Vec<usize> = (0..count).filter(|index| *index != early).collect();
    let lost = orders.div_ceil(LOST_ONE_IN);
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        for _ in 0..lost {
            if !others.is_empty() {
                let index = random.below(others.len() as u64);
                let index = others.swap_remove(usize::try_from(index).unwrap_or_default());
                faults[index] = fault;
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every allowed size, one order is unknowable, and kills are within the run.
    #[test]
    fn plans_are_within_bounds_and_repeat() {
        for orders in [1, 2, 3, 12, 60, 1000] {
            for kills in [0, 1, 5, 20] {
                for seed in 0..20 {
                    let plan = Plan::new(seed, orders, kills);
                    assert_eq!(plan.kill_points.len(), kills as usize);
                    assert!(plan.kill_points.is_sorted());
                    assert!(plan.kill_points.iter().all(|point| (1..=orders).contains(point)));
                    let unknowable = plan.numbers().filter(|number| plan.is_unknowable(*number));
                    assert_eq!(unknowable.count(), 1);
                    assert!(plan.numbers().all(|number| plan.fault(number, 2) == Fault::None));
                    let again = Plan::new(seed, orders, kills);
                    assert_eq!((plan.kill_points, plan.faults), (again.kill_points, again.faults));
                }
            }
        }
        let plan = Plan::new(7, 60, 5);
        let count = |fault| plan.faults.iter().filter(|own| **own == fault).count();
        assert_eq!([count(Fault::LostBefore), count(Fault::LostAfter)], [6, 6]);
        let kills: std::collections::BTreeSet<_> = plan.kill_points.iter().collect();
        assert_eq!(kills.len(), 5, "kills have places of their own: {:?}", plan.kill_points);
        assert_ne!(plan.faults, Plan::new(8, 60, 5).faults);
        for (orders, seconds) in [(1, 1), (60, 8), (1_000, 9)] {
            let plan = Plan::new(7, orders, 5);
            let last = plan.numbers().map(|number| plan.due(number)).max();
            assert!(last < Some(Duration::from_secs(seconds)), "{orders} orders: {last:?}");
        }
    }

    /// An order's name can be parsed back.
    #[test]
    fn names_read_back() {
        assert_eq!(Number(17).to_string().parse(), Ok(Number(17)));
        assert_eq!("order-".parse::<Number>(), Err(()));
        assert_eq!("17".parse::<Number>(), Err(()));
        let plan = Plan::new(1, 3, 0);
        assert_eq!(plan.fault("order-9".parse().unwrap(), 1), Fault::None);
        assert_eq!(plan.fault(Number(0), 1), Fault::None);
    }
}
