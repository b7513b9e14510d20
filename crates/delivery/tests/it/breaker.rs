//! The circuit breaker: when it opens, what it lets through, and that a restart changes nothing.

use indelible_delivery::breaker::{Admission, Breaker, Sample, State, Thresholds};
use indelible_delivery::pace::Pace;
use proptest::prelude::*;

use crate::support::{at, at_micros};

const THRESHOLDS: Thresholds = Thresholds::DEFAULT;

fn stored(breaker: &Breaker) -> Breaker {
    Breaker::decode(&breaker.encode()).unwrap()
}

fn fail(breaker: &mut Breaker, second: u64) -> bool {
    breaker.record(Sample::Failed, at(second), at(second), &THRESHOLDS)
}

fn open() -> Breaker {
    let mut breaker = Breaker::default();
    for second in 0..9 {
        assert!(!fail(&mut breaker, second));
    }
    assert!(fail(&mut breaker, 9), "the tenth attempt is enough");
    breaker
}

/// Half of ten attempts open it; it says since when, and with which share.
#[test]
fn a_share_of_failures_opens_it() {
    let breaker = open();
    let state = State::Open { since: at(9), until: at(39), attempts: 10, failed: 10 };
    assert_eq!(breaker.state(), state);

    let mut mixed = Breaker::default();
    for second in 0..20 {
        let sample = if second % 3 == 0 { Sample::Failed } else { Sample::Delivered };
        assert!(!mixed.record(sample, at(second), at(second), &THRESHOLDS), "a third is not half");
    }
}

/// What is older than the window counts no longer.
#[test]
fn the_window_moves() {
    let mut breaker = Breaker::default();
    for second in 0..9 {
        fail(&mut breaker, second);
    }
    assert!(!fail(&mut breaker, 200));
    assert_eq!(breaker.state(), State::Closed);
    // A clock that goes back does not empty it.
    for _ in 0..8 {
        assert!(!fail(&mut breaker, 100));
    }
    assert!(fail(&mut breaker, 100));
}

/// An open breaker lets nothing through, then one trial, whatever restarts in between; its end
/// decides.
#[test]
fn one_trial_decides() {
    for (sample, closes) in [(Sample::Delivered, true), (Sample::Failed, false)] {
        let mut breaker = stored(&open());
        assert_eq!(breaker.admit(at(20)), Admission::Wait(at(39)));
        assert_eq!(stored(&breaker).admit(at(39)), Admission::Trial);
        assert_eq!(breaker.admit(at(39)), Admission::Trial);
        breaker = stored(&breaker);
        assert!(matches!(breaker.admit(at(40)), Admission::Wait(_)), "there is only one");
        // An attempt that began before it opened ends now.
        assert!(!breaker.record(Sample::Delivered, at(8), at(41), &THRESHOLDS));
        assert!(breaker.record(sample, at(39), at(42), &THRESHOLDS));
        let expected = if closes { Admission::Attempt } else { Admission::Wait(at(72)) };
        assert_eq!(breaker.admit(at(42)), expected);
    }
}

/// A trial whose process died does not keep the endpoint shut for ever.
#[test]
fn a_lost_trial_is_followed_by_another() {
    let mut breaker = open();
    assert_eq!(breaker.admit(at(39)), Admission::Trial);
    let mut breaker = stored(&breaker);
    let Admission::Wait(until) = breaker.admit(at(40)) else { panic!("the trial is under way") };
    assert_eq!(breaker.admit(until), Admission::Trial);
}

/// An operator closes it.
#[test]
fn it_can_be_reset() {
    let mut breaker = open();
    breaker.reset();
    assert_eq!(breaker, Breaker::default());
}

/// A rate lets a burst of one second through, and then so many a second.
#[test]
fn a_rate_is_kept() {
    let rate = 10.try_into().unwrap();
    let mut pace = Pace::default();
    for _ in 0..10 {
        assert_eq!(pace.admit(at(0), rate), Ok(()));
    }
    let next = pace.admit(at(0), rate).unwrap_err();
    assert_eq!(next, at_micros(100_000));
    assert_eq!(pace.admit(next, rate), Ok(()));
    assert!(pace.admit(next, rate).is_err());
    let quiet = (0..20).filter(|_| pace.admit(at(100), rate).is_ok()).count();
    assert_eq!(quiet, 10);
}

proptest! {
    /// However its inputs come, at most one trial is admitted for each time that it opens, and its
    /// row reads back.
    #[test]
    fn trials_are_single(inputs in proptest::collection::vec((0..3_u8, 0..40_u64), 1..200)) {
        let mut breaker = Breaker::default();
        let (mut now, mut trial) = (0, None);
        for (what, passed) in inputs {
            now += passed;
            match what {
                0 => match breaker.admit(at(now)) {
                    Admission::Trial => {
                        let lost = trial.is_none_or(|since| now >= since + 600);
                        prop_assert!(lost);
                        trial = Some(now);
                    }
                    Admission::Wait(until) => prop_assert!(until > at(now)),
                    Admission::Attempt => prop_assert_eq!(breaker.state(), State::Closed),
                },
                sample => {
                    let sample = if sample == 1 { Sample::Failed } else { Sample::Delivered };
                    if breaker.record(sample, at(now), at(now), &THRESHOLDS) {
                        trial = None;
                    }
                }
            }
            prop_assert_eq!(&stored(&breaker), &breaker);
        }
    }

    /// No second has more than two bursts.
    #[test]
    fn rates_hold(rate in 1..50_u32, gaps in proptest::collection::vec(0..200_000_u64, 1..200)) {
        let mut pace = Pace::default();
        let (mut now, mut begun) = (0, Vec::new());
        for gap in gaps {
            now += gap;
            if pace.admit(at_micros(now), rate.try_into().unwrap()).is_ok() {
                begun.push(now);
            }
        }
        for from in &begun {
            let count = begun.iter().filter(|at| (*from..from + 1_000_000).contains(at)).count();
            prop_assert!(count <= 2 * rate as usize);
        }
    }
}
