//! Waits: jitter within its bounds, caps that nothing exceeds, exponents that saturate.

use indelible_delivery::schedule::{Jitter, Schedule, backoff, worst_case};
use indelible_journal::{Backoff, Micros, RetryBound};
use proptest::prelude::*;

use crate::support::{EVEN, exponential, seconds};

const EDGES: [u32; 5] = [0, 1, 1 << 31, u32::MAX - 1, u32::MAX];

/// O-22: from the first retry to the 70th, every wait is within [0.9, 1.1) of the doubled base, or
/// the cap.
#[test]
fn waits_double_within_bounds_up_to_the_cap() {
    let cap = 60_000_000_u64;
    let waits = Backoff { base: seconds(2), cap: Micros::new(cap) };
    for n in 0..=70 {
        let doubled = 2_000_000_u128 << n;
        for random in EDGES {
            let wait = u128::from(backoff(waits, n, Jitter(random)).get());
            assert!(wait <= u128::from(cap), "retry {n}");
            if wait < u128::from(cap) {
                assert!(wait * 10 >= doubled * 9 && wait * 10 < doubled * 11, "retry {n}: {wait}");
            } else {
                assert!(doubled * 11 > u128::from(cap) * 10, "retry {n}");
            }
        }
    }
    // The cap comes after the jitter: half of 70 s is not cut to less than the cap.
    assert_eq!(backoff(waits, 5, Jitter(0)).get(), 57_600_000);
    assert_eq!(backoff(waits, 5, Jitter(u32::MAX)).get(), cap);
}

/// O-22: no number overflows.
#[test]
fn the_exponent_saturates() {
    let all = Backoff { base: Micros::new(u64::MAX), cap: Micros::new(u64::MAX) };
    for n in [0, 62, 63, 64, 1_000, u32::MAX] {
        let wait = backoff(all, n, Jitter(u32::MAX)).get();
        assert!(wait >= u64::MAX / 10 * 9, "retry {n}: {wait}");
    }
    let none = Backoff { base: Micros::ZERO, cap: seconds(1) };
    assert_eq!(backoff(none, u32::MAX, EVEN), Micros::ZERO);
}

/// O-23: the worst case is every wait at the cap.
#[test]
fn the_worst_case_is_every_wait_at_the_cap() {
    assert_eq!(worst_case(RetryBound::Bounded(7), seconds(60)), Some(seconds(420)));
    assert_eq!(worst_case(RetryBound::Bounded(0), seconds(60)), Some(Micros::ZERO));
    assert_eq!(worst_case(RetryBound::Unbounded, seconds(60)), None);
}

/// C-36: the webhook profile has ten attempts over about 75 hours, and its longest wait is a cap.
#[test]
fn the_standard_schedule_is_that_of_the_specification() {
    let standard = Schedule::standard();
    let waits: Vec<u64> = (0..20)
        .map_while(|n| standard.wait(n, EVEN))
        .map(|wait| (wait.get() + 500_000) / 1_000_000)
        .collect();
    assert_eq!(waits, [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]);
    assert_eq!(waits.iter().sum::<u64>(), 75 * 3_600 + 35 * 60 + 5);
    assert_eq!(standard.wait(8, Jitter(u32::MAX)), Some(seconds(86_400)));
}

/// C-36: a schedule has as many retries as it says.
#[test]
fn schedules_end() {
    assert!(exponential(3).wait(2, EVEN).is_some());
    assert!(exponential(3).wait(3, EVEN).is_none());
    assert!(Schedule::Steps(vec![]).wait(0, EVEN).is_none());
}

proptest! {
    /// O-22: the bounds hold for every base, cap, retry and random number, and no schedule takes
    /// longer than its horizon (O-23).
    #[test]
    fn every_wait_is_within_bounds(
        base in 0..1_u64 << 50,
        cap in 0..1_u64 << 60,
        retries in 0..100_u32,
        random: u32,
        steps in proptest::collection::vec(1..1_u64 << 40, 0..20),
    ) {
        let waits = Backoff { base: Micros::new(base), cap: Micros::new(cap) };
        let wait = u128::from(backoff(waits, retries, Jitter(random)).get());
        let doubled = u128::from(base) << retries.min(63);
        prop_assert!(wait <= u128::from(cap));
        prop_assert!(wait * 10 < doubled * 11 || base == 0);
        prop_assert!((wait + 1) * 10 >= doubled * 9 || wait == u128::from(cap));

        let steps = Schedule::Steps(steps.into_iter().map(Micros::new).collect());
        let all: u64 = (0..20).map_while(|n| steps.wait(n, Jitter(random))).map(Micros::get).sum();
        prop_assert!(all <= steps.horizon().unwrap().get());
    }
}
