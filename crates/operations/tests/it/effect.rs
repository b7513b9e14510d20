//! What follows an attempt, driven through a real journal: for any policy and any endings, the
//! journal accepts every step, and what is promised holds.

use std::sync::Arc;

use indelible_journal::{
    Backoff, ComponentDigest, ErrorKind, ExecutionId, Failure, FunctionName, Idempotency, Invoke,
    InvokeKind, Journal, JournalKey, Limits, Micros, Namespace, OnUnknown, OpenInvoke, OperationId,
    OperationKey, Outcome, Payload, PromiseId, Reconciler, RetryBound, RetryCause, RetryClass,
    RetryPolicy, RootHash, Started, Timestamp,
};
use indelible_operations::effect::{Ended, Next, Situation, Unknown, after, unresolved};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const NOW: Timestamp = Timestamp::EPOCH;

/// How one attempt ends, and what others say if they are asked.
#[derive(Debug, Clone, Copy)]
struct Ending {
    ended: Ended,
    in_time: bool,
    reconciler: Says,
    person: Says,
}

/// What a reconciler or a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Happened,
    NotDone,
    Again,
    Nothing,
}

fn endings() -> impl Strategy<Value = Vec<Ending>> {
    let ended = prop_oneof![
        4 => select(vec![200, 404, 429, 500, 502, 503, 504])
            .prop_map(|status| Ended::Answered { status }),
        1 => Just(Ended::TooLarge),
        3 => Just(Ended::NotSent),
        1 => Just(Ended::Refused),
        2 => Just(Ended::Unknown(Unknown::NoAnswer)),
        2 => Just(Ended::Unknown(Unknown::TimedOut)),
        2 => Just(Ended::Unknown(Unknown::EngineLost)),
    ];
    let says = select(vec![Says::Happened, Says::NotDone, Says::Nothing]);
    let person = select(vec![Says::Happened, Says::NotDone, Says::Again, Says::Again]);
    let ending = (ended, prop::bool::weighted(0.9), says, person).prop_map(
        |(ended, in_time, reconciler, person)| Ending { ended, in_time, reconciler, person },
    );
    vec(ending, 1..12)
}

fn policies() -> impl Strategy<Value = (InvokeKind, RetryPolicy)> {
    let what = select(vec![
        (InvokeKind::Http, RetryClass::PERSIST),
        (InvokeKind::Http, RetryClass::PERSIST_IDEM),
        (InvokeKind::Http, RetryClass::VOLATILE),
        (InvokeKind::Http, RetryClass::VOLATILE_IDEM),
        (InvokeKind::Function, RetryClass::VOLATILE),
        (InvokeKind::Function, RetryClass::VOLATILE_IDEM),
    ]);
    let bound = prop_oneof![
        4 => (0u32..4).prop_map(RetryBound::Bounded),
        1 => Just(RetryBound::Unbounded),
    ];
    let on_unknown = select(vec![OnUnknown::Hold, OnUnknown::Indeterminate]);
    let not_processed = subsequence(vec![429, 502, 503], 0..=3);
    let no_answer = prop::option::of(subsequence(vec![500, 502], 0..=2));
    (what, bound, any::<bool>(), on_unknown, not_processed, no_answer).prop_map(
        |((kind, class), bound, reconciles, on_unknown, not_processed, no_answer)| {
            let function = FunctionName::new("did_it_happen").expect("it is a name");
            let reconciler = Reconciler { function, settle: Micros::from_secs(1) };
            let policy = RetryPolicy {
                class,
                bound,
                backoff: Backoff { base: Micros::ZERO, cap: Micros::ZERO },
                reconciler: reconciles.then_some(reconciler),
                on_unknown,
                not_processed: not_processed.into_iter().collect(),
                no_answer: no_answer.map(|statuses| statuses.into_iter().collect()),
                ..RetryPolicy::default()
            };
            (kind, policy)
        },
    )
}

/// An execution that has scheduled one effect.
fn scheduled(kind: InvokeKind, policy: &RetryPolicy) -> (Journal, PromiseId) {
    let component_digest = ComponentDigest::of(b"a component");
    let operation = OperationKey {
        namespace: Namespace::new("test").expect("it is a name"),
        operation_id: OperationId::new("1").expect("it is a name"),
    };
    let root = RootHash::derive(&component_digest, None, &operation);
    let key = JournalKey::first(ExecutionId::root_of(root));
    let started = Started {
        component_digest,
        function_name: FunctionName::new("order").expect("it is a name"),
        input: Payload::empty(),
        parent_id: None,
        idempotency_key: Some(operation),
        attempts: key.attempts().clone(),
        limits: Limits { memory_bytes_max: 1, stack_bytes_max: 1, table_elements_max: 1 },
        retry_policy: None,
        trace_parent: None,
    };
    let (mut journal, _) = Journal::start(key, NOW, started).expect("a journal begins with it");
    let invoke = Invoke {
        kind,
        function_name: FunctionName::new("charge").expect("it is a name"),
        input: Payload::empty(),
        retry_policy: Arc::new(policy.clone()),
    };
    let (promise, _) = journal.schedule_invoke(NOW, invoke).expect("it runs");
    (journal, promise)
}

/// What became of the effect.
#[derive(Debug)]
struct Story {
    /// What followed each attempt.
    nexts: Vec<Next>,
    /// Attempts after a lost engine, or on a reconciler's or a person's word: none counts towards
    /// the bound.
    uncounted: usize,
    over: bool,
}

/// More attempts than any bound here allows.
const ATTEMPTS_MAX: usize = 60;

/// Runs the effect until it is over, or for long enough; its caller is ending from some attempt on.
fn run(
    kind: InvokeKind,
    policy: &RetryPolicy,
    endings: &[Ending],
    closing_from: usize,
) -> Result<Story, TestCaseError> {
    let (mut journal, promise) = scheduled(kind, policy);
    let idem = policy.class.idempotency == Idempotency::Idem;
    let mut story = Story { nexts: Vec::new(), uncounted: 0, over: false };
    // Kept beside the journal, from what happened and not from what was decided: whether an
    // attempt before this one may have happened.
    let mut happened_maybe = false;
    for (attempt, ending) in endings.iter().cycle().take(ATTEMPTS_MAX).enumerate() {
        let closing = attempt >= closing_from;
        prop_assert!(journal.start_invoke(NOW, &promise).is_ok());
        let open: OpenInvoke = journal.open_invoke(&promise).expect("it has no outcome");
        prop_assert_eq!(open.maybe_performed, happened_maybe);
        let situation = Situation {
            policy,
            retries_counted: open.retries_counted,
            maybe_performed: open.maybe_performed,
            in_time: ending.in_time,
            closing,
        };
        let next = after(ending.ended, &situation);
        story.nexts.push(next);

        let nothing_left = match ending.ended {
            Ended::NotSent | Ended::Refused => true,
            Ended::Answered { status } => policy.not_processed.contains(status),
            Ended::TooLarge | Ended::Unknown(_) => false,
        };
        let is_unknown = match ending.ended {
            Ended::Unknown(_) => true,
            Ended::Answered { status } => {
                policy.is_no_answer(status) && !policy.not_processed.contains(status)
            }
            _ => false,
        };
        let again = matches!(next, Next::Again { .. });
        if !idem && is_unknown {
            prop_assert!(!again, "not idem, unknown, and made again: {next:?}");
        }
        if idem {
            let safe = !matches!(next, Next::Indeterminate | Next::Hold | Next::Ask);
            prop_assert!(safe, "idem, and not simply made again: {next:?}");
        }
        if closing {
            prop_assert!(!again && !matches!(next, Next::Hold | Next::Ask), "closing: {next:?}");
        }
        if next == Next::Fail(ErrorKind::NotPerformed) {
            prop_assert!(nothing_left && !happened_maybe, "it may have happened");
        }
        if !ending.in_time {
            prop_assert!(!again, "no time is left");
        }

        // What others say, until it is an event.
        let next = match (next, ending.reconciler) {
            (Next::Ask, Says::Nothing) => unresolved(policy, closing),
            (Next::Ask, said) => {
                if said == Says::NotDone {
                    let cause = RetryCause::ReconciledNotDone;
                    prop_assert!(open.may_retry(cause, ErrorKind::NotPerformed));
                    Next::Again { cause, error: ErrorKind::NotPerformed }
                } else {
                    Next::Answer
                }
            }
            (next, _) => next,
        };
        let next = match (next, ending.person) {
            (Next::Hold, Says::Again) => {
                Next::Again { cause: RetryCause::Operator, error: ErrorKind::Indeterminate }
            }
            (Next::Hold, Says::NotDone) => Next::Fail(ErrorKind::NotPerformed),
            (Next::Hold, _) => Next::Answer,
            (next, _) => next,
        };
        let outcome = match next {
            Next::Again { cause, error } => {
                prop_assert!(open.may_retry(cause, error), "{cause:?} for {error}");
                let failure = Failure::new(error, "it did not work");
                let accepted = journal.retry_invoke(NOW, &promise, cause, failure, NOW);
                prop_assert!(accepted.is_ok(), "{accepted:?}");
                story.uncounted += usize::from(!cause.counts());
                let denied = nothing_left || cause == RetryCause::ReconciledNotDone;
                happened_maybe |= !denied || cause == RetryCause::Operator;
                continue;
            }
            Next::Answer | Next::TooLarge => Outcome::Ok(Payload::empty()),
            Next::Fail(kind) => Failure::new(kind, "it did not work").into(),
            Next::Indeterminate => Failure::new(ErrorKind::Indeterminate, "nobody knows").into(),
            Next::Ask | Next::Hold => unreachable!("somebody said something"),
        };
        let accepted = journal.complete_invoke(NOW, &promise, outcome);
        prop_assert!(accepted.is_ok(), "{accepted:?}");
        story.over = true;
        break;
    }
    Ok(story)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    /// V-24, C-28, C-29, C-38, C-40, C-41: whatever the policy and however attempts end, the
    /// journal accepts what follows; what is unknown and not idem is never made again; what is idem
    /// is never Indeterminate; a caller that is ending waits for no person; what is said not to
    /// have happened did not.
    #[test]
    fn the_journal_accepts_what_follows(
        (kind, policy) in policies(),
        endings in endings(),
        closing_from in 0usize..20,
    ) {
        let story = run(kind, &policy, &endings, closing_from)?;
        // C-1: with a bound, it ends. Only what does not count can go on.
        if let RetryBound::Bounded(most) = policy.bound {
            let attempts = story.nexts.len();
            let most = most as usize + 1 + story.uncounted;
            prop_assert!(attempts <= most, "{attempts} attempts, {most} allowed");
        }
        if closing_from < ATTEMPTS_MAX {
            prop_assert!(story.over, "an effect of a caller that is ending is settled");
            prop_assert!(story.nexts.len() <= closing_from + 1);
        }
    }

    /// C-1, C-40: with a bound, and an engine that lives, an effect is over after so many attempts;
    /// no person has to end it.
    #[test]
    fn a_bounded_effect_ends(
        (kind, policy) in policies(),
        endings in endings(),
        most in 0u32..6,
    ) {
        let policy = RetryPolicy { bound: RetryBound::Bounded(most), ..policy };
        let dies = Ended::Unknown(Unknown::EngineLost);
        let lives: Vec<Ending> = endings
            .into_iter()
            .map(|ending| Ending {
                ended: if ending.ended == dies { Ended::NotSent } else { ending.ended },
                reconciler: Says::Nothing,
                person: Says::Happened,
                ..ending
            })
            .collect();
        let story = run(kind, &policy, &lives, usize::MAX)?;
        prop_assert!(story.over);
        prop_assert!(story.nexts.len() <= most as usize + 1, "{:?}", story.nexts);
    }
}
