//! How long records live, and that an id whose record has gone is never executed again.

use indelible_journal::{Micros, OperationId, Payload, RetryClass, Timestamp};
use indelible_operations::Binding;
use indelible_operations::id;
use indelible_operations::retention::{AHEAD_MAX, Age, Retention};
use indelible_operations::state::{
    self, Attempt, Decision, Input, Interest, Operation, Refusal, Resolution, State,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const DAY: Micros = Micros::from_secs(24 * 3600);
const WEEK: Micros = Micros::from_secs(7 * 24 * 3600);

/// How coarse time is in the random tests: so that things often fall on the same moment.
const GRAIN: u64 = 10;

/// Milliseconds since some day, so that ids can be older than that.
fn at(millis: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + millis * 1_000).expect("it is a time")
}

fn binding() -> Binding {
    Binding::of("method", &Payload::empty())
}

fn in_state(state: State<()>) -> Operation<()> {
    Operation { binding: binding(), run: state::Run::FIRST, state }
}

/// V-56, C-3: records that would go while callers still retry are refused as configuration.
#[test]
fn a_window_covers_the_callers_retries() {
    let error = Retention::new(Micros::from_secs(3_599), Micros::from_secs(3_600), AHEAD_MAX)
        .expect_err("it is too short");
    assert_eq!(
        error.to_string(),
        "operations are kept for 3599s after their end, but callers retry for 3600s: a late \
         retry would run the operation again"
    );
    assert!(Retention::new(DAY, DAY, AHEAD_MAX).is_ok());
    assert_eq!(Retention::new(WEEK, DAY, AHEAD_MAX).map(|kept| kept.window()), Ok(WEEK));
}

/// V-59, C-3: an id without a record is Expired from the end of the window on, and refused if it
/// was made in the future; one that carries no time is always new.
#[test]
fn what_an_unknown_id_means() {
    let kept = Retention::new(DAY, DAY, AHEAD_MAX).expect("it is long enough");
    let (made, hour) = (at(0), 3_600_000);
    let id = id::mint(made, &[1; 10], None);
    let age = |now| kept.age(&id, now);
    assert_eq!(age(made), Age::Fresh);
    assert_eq!(age(at(24 * hour - 1)), Age::Fresh);
    assert_eq!(age(at(24 * hour)), Age::Expired);
    assert_eq!(age(Timestamp::MAX), Age::Expired);
    let ahead = |millis| kept.age(&id::mint(at(millis), &[1; 10], None), made);
    assert_eq!(ahead(600_000), Age::Fresh);
    assert_eq!(ahead(600_001), Age::TooFarAhead);
    assert_eq!(age(Timestamp::EPOCH), Age::TooFarAhead);
    let own = OperationId::new("order-1").expect("it is a name");
    assert_eq!(kept.age(&own, Timestamp::MAX), Age::Fresh);
    assert_eq!(kept.age(&own, Timestamp::EPOCH), Age::Fresh);
}

/// V-57, V-58: while it is Live, a record stays; so does the one of a persist operation that is
/// Indeterminate, until a person decides. All others go when their window is over.
#[test]
fn what_may_go() {
    let kept = Retention::new(DAY, DAY, AHEAD_MAX).expect("it is long enough");
    let (since, gone) = (at(0), Some(at(24 * 3_600_000)));
    let idempotency = RetryClass::VOLATILE.idempotency;
    for (state, expected) in [
        (State::Live(RetryClass::PERSIST), None),
        (State::Live(RetryClass::VOLATILE_IDEM), None),
        (State::Indeterminate(RetryClass::PERSIST), None),
        (State::Indeterminate(RetryClass::PERSIST_IDEM), None),
        (State::Indeterminate(RetryClass::VOLATILE), gone),
        (State::Released(idempotency), gone),
        (State::Sealed(()), gone),
    ] {
        let operation = in_state(state);
        assert_eq!(kept.until(&operation, None, since), expected, "{operation:?}");
    }
    // V-56, C-3: if its id was made by a clock that is ahead of ours, it stays for that longer.
    let sealed = in_state(State::Sealed(()));
    let created = |millis| Some(at(millis));
    assert_eq!(kept.until(&sealed, created(5), since), created(24 * 3_600_000 + 5));
    assert_eq!(kept.until(&sealed, Some(Timestamp::EPOCH), since), gone);
    // Later than any time there is.
    assert_eq!(kept.until(&sealed, Some(Timestamp::MAX), since), None);
    let forever = Retention::new(Micros::new(u64::MAX), DAY, AHEAD_MAX).expect("long enough");
    assert_eq!(forever.until(&sealed, None, since), None);
}

/// What can happen to a number of operations, and to time.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Time(u64),
    /// A new intention, by a client whose clock is off by so much.
    New {
        clock: i64,
        class: RetryClass,
    },
    /// Another attempt at one of those before.
    Again(usize),
    Ends(usize, How),
    /// Records go that may.
    Sweep,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Returned,
    Lost,
    Cancelled,
    Dropped,
    Resolved,
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let class = select(vec![
        RetryClass::PERSIST,
        RetryClass::PERSIST_IDEM,
        RetryClass::VOLATILE,
        RetryClass::VOLATILE_IDEM,
    ]);
    let how = select(vec![How::Returned, How::Lost, How::Cancelled, How::Dropped, How::Resolved]);
    let happens = prop_oneof![
        3 => (0u64..4).prop_map(|grains| Happens::Time(grains * GRAIN)),
        4 => (-4i64..4, class).prop_map(|(grains, class)| {
            Happens::New { clock: grains * GRAIN.cast_signed(), class }
        }),
        6 => (0usize..20).prop_map(Happens::Again),
        6 => (0usize..20, how).prop_map(|(which, how)| Happens::Ends(which, how)),
        3 => Just(Happens::Sweep),
    ];
    vec(happens, 1..120)
}

/// An intention of a client's: its id, and what the server has of it.
#[derive(Debug, Clone)]
struct Intention<I> {
    id: I,
    class: RetryClass,
    record: Option<(Operation<()>, Timestamp)>,
    starts: u32,
    swept: bool,
}

/// One end of an intention, applied to its record.
fn end<I>(intention: &mut Intention<I>, how: How, now: Timestamp) {
    let Some((operation, _)) = &intention.record else { return };
    let input = match how {
        How::Returned => Input::Returned(operation.run, ()),
        How::Lost => Input::Lost(operation.run),
        How::Cancelled => Input::Cancelled,
        How::Dropped => Input::Dropped(Interest::NoCaller),
        How::Resolved => Input::Resolved(Resolution::Happened(())),
    };
    let step = state::apply(Some(operation), input).expect("it can happen");
    if let Some(operation) = step.put {
        intention.record = Some((operation, now));
    }
}

/// An attempt at an intention, and what must hold of it.
fn ask<I>(intention: &mut Intention<I>, age: Age, now: Timestamp) -> Result<(), TestCaseError> {
    let attempt = Attempt { class: intention.class, binding: binding(), age };
    let known = intention.record.as_ref().map(|(operation, _)| operation);
    let unknown = known.is_none();
    let step = state::attempt(known, &attempt).expect("it can happen");
    if step.decision == Decision::Start {
        intention.starts += 1;
        prop_assert!(!intention.swept, "it was forgotten, and started again");
    }
    prop_assert!(intention.starts <= 1);
    if intention.swept {
        prop_assert_eq!(&step.decision, &Decision::Refuse(Refusal::Expired));
    }
    if unknown && age == Age::TooFarAhead {
        prop_assert_eq!(&step.decision, &Decision::Refuse(Refusal::TooFarAhead));
    }
    if let Some(operation) = step.put {
        intention.record = Some((operation, now));
    }
    Ok(())
}

/// Takes the record away if it may go; true if it did.
fn sweep<I>(intention: &mut Intention<I>, until: Option<Timestamp>, now: Timestamp) -> bool {
    if until.is_none_or(|until| until > now) {
        return false;
    }
    let (operation, _) = intention.record.take().expect("it is there until then");
    assert!(!operation.state.is_live(), "a Live record went");
    intention.swept = true;
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// V-56, V-57, V-58, V-59, C-3: whatever happens, and however wrong the clocks of clients are,
    /// an id is started once in its life: when its record has gone it is refused as Expired. No
    /// Live record goes.
    #[test]
    fn a_forgotten_id_is_refused(
        window in (0u64..7).prop_map(|grains| grains * GRAIN),
        ahead in (0u64..4).prop_map(|grains| grains * GRAIN),
        happenings in happenings(),
    ) {
        let kept = Retention::new(
            Micros::from_millis(window), Micros::ZERO, Micros::from_millis(ahead),
        ).expect("nobody retries");
        let mut millis = 1_000u64;
        let mut intentions: Vec<Intention<OperationId>> = Vec::new();
        for happens in happenings {
            let now = at(millis);
            match happens {
                Happens::Time(by) => millis += by,
                Happens::New { clock, class } => {
                    let number = u8::try_from(intentions.len()).expect("there are few");
                    let made = at(millis.saturating_add_signed(clock));
                    let id = id::mint(made, &[number; 10], None);
                    let mut new =
                        Intention { id, class, record: None, starts: 0, swept: false };
                    let age = kept.age(&new.id, now);
                    prop_assert_eq!(age == Age::TooFarAhead, clock > i64::try_from(ahead)?);
                    ask(&mut new, age, now)?;
                    intentions.push(new);
                }
                Happens::Again(which) => if let Some(intention) = intentions.get_mut(which) {
                    let age = kept.age(&intention.id, now);
                    ask(intention, age, now)?;
                },
                Happens::Ends(which, how) => if let Some(intention) = intentions.get_mut(which) {
                    end(intention, how, now);
                },
                Happens::Sweep => for intention in &mut intentions {
                    let created = id::created_at(&intention.id);
                    let until = intention.record.as_ref()
                        .and_then(|(operation, since)| kept.until(operation, created, *since));
                    sweep(intention, until, now);
                },
            }
        }
    }
}
