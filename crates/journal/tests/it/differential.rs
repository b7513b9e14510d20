//! The state machine against the slow checker: the same verdict on the same journals, event by
//! event. The machine keeps what its next decision needs; the checker looks through everything
//! every time. They were written apart, from the same text.

use std::collections::BTreeSet;

use indelible_journal::{Journal, JournalKey, Record, Rule, Sequence};
use indelible_test_support::Prng;
use proptest::prelude::*;

use crate::support::generate::{Generated, generate};
use crate::support::mutate::mutate;
use crate::support::{checker, render};

/// How many times each journal is mutated.
const MUTATIONS: usize = 32;

fn config(cases: u32) -> ProptestConfig {
    // A seed is no smaller than another: to shrink it would only find another failure.
    let max_shrink_iters = 0;
    ProptestConfig { cases, max_shrink_iters, failure_persistence: None, ..Default::default() }
}

/// The machine's verdict on a whole journal: the first event that it refuses, and for which rule.
fn machine(key: &JournalKey, records: &[Record]) -> Option<(usize, Rule)> {
    let mut journal = Journal::new(key.clone());
    records.iter().enumerate().find_map(|(index, record)| {
        let refusal = journal.append_record(record.clone()).err()?;
        assert_eq!(refusal.sequence, place(index), "a refusal names the place: {refusal}");
        Some((index, refusal.rule))
    })
}

fn place(index: usize) -> Sequence {
    Sequence::new(u64::try_from(index).expect("journals are short"))
}

/// Both verdicts on a journal; panics unless they are the same.
fn same_verdict(what: &str, key: &JournalKey, records: &[Record]) -> Option<Rule> {
    let (fast, slow) = (machine(key, records), checker::check(key, records));
    let same = match (&fast, &slow) {
        (None, None) => true,
        (Some((at, rule)), Some((index, broken))) => at == index && broken.contains(rule.id()),
        _ => false,
    };
    let shown = fast.iter().map(|(at, _)| at).chain(slow.iter().map(|(at, _)| at)).max();
    let shown = &records[..shown.map_or(records.len(), |at| at + 1)];
    assert!(
        same,
        "{what}: the machine says {fast:?}, the checker says {slow:?}\n{}",
        render(key, shown)
    );
    fast.map(|(_, rule)| rule)
}

/// Offers every event that was rejected on the way to the machine, where it was rejected; returns
/// the rules that the machine named.
fn refusals(made: &Generated) -> Vec<Rule> {
    let key = &made.execution.key;
    let mut journal = Journal::new(key.clone());
    let mut rules = Vec::new();
    for index in 0..=made.journal.len() {
        for rejected in made.rejected.iter().filter(|rejected| rejected.at == index) {
            let untouched = journal.clone();
            let verdict = journal.append_record(rejected.record.clone());
            let shown = || {
                let mut shown = made.journal[..index].to_vec();
                shown.push(rejected.record.clone());
                render(key, &shown)
            };
            let refusal = match verdict {
                Ok(_) => panic!("accepted, but breaks {:?}\n{}", rejected.broken, shown()),
                Err(refusal) => refusal,
            };
            assert!(
                rejected.broken.contains(refusal.rule.id()),
                "refused: {refusal}; breaks {:?}\n{}",
                rejected.broken,
                shown()
            );
            assert_eq!(refusal.sequence, place(index), "a refusal names the place: {refusal}");
            assert_eq!(journal, untouched, "a refusal changed the journal\n{}", shown());
            rules.push(refusal.rule);
        }
        if let Some(record) = made.journal.get(index) {
            journal.append_record(record.clone()).expect("the journal is legal");
        }
    }
    rules
}

/// Mutates a journal in many ways and compares the verdicts; returns the rules that the machine
/// named.
fn mutations(seed: u64, made: &Generated) -> Vec<Rule> {
    let mut rng = Prng::new(!seed);
    let mut rules = Vec::new();
    for _ in 0..MUTATIONS {
        let (what, mutated) = mutate(&mut rng, made);
        rules.extend(same_verdict(what, &made.execution.key, &mutated));
    }
    rules
}

proptest! {
    #![proptest_config(config(2_000))]

    /// J-7, J-32, J-56, C-15, C-16, C-22, C-23, C-37: what is legal is accepted, event by event,
    /// and folds to the same status
    #[test]
    fn legal_journals_are_accepted(seed: u64) {
        let made = generate(seed);
        let key = &made.execution.key;
        let mut journal = Journal::new(key.clone());
        let mut appended = Journal::new(key.clone());
        prop_assert_eq!(journal.status(), None);
        for (index, record) in made.journal.iter().enumerate() {
            let prefix = &made.journal[..=index];
            let entry = journal.append_record(record.clone());
            let entry = entry.map_err(|refusal| {
                TestCaseError::fail(format!("refused: {refusal}\n{}", render(key, prefix)))
            })?;
            prop_assert_eq!(entry.as_record(), record);
            prop_assert_eq!(journal.len(), place(index).get() + 1);
            prop_assert_eq!(journal.status().cloned(), checker::status(prefix));
            // The place that a record states is the one that it is given if it states none.
            let same = appended.append(record.timestamp, record.event.clone());
            prop_assert_eq!(same.as_ref(), Ok(&entry));
        }
        prop_assert_eq!(&journal, &appended);
        let recovered = Journal::recover(key.clone(), made.journal.clone());
        prop_assert_eq!(recovered.as_ref(), Ok(&journal));
    }

    /// S-1, S-2, S-3, S-4, S-5, SE-1, SE-2, SE-3, SE-4, SE-5, CF-1, CF-2, CF-3, CF-4, JS-1, JS-2,
    /// JS-3, JS-4, JS-5, JS-6, JS-7, J-1, J-2, J-35, J-39, J-41, J-44, J-45, J-46, J-47, J-49,
    /// J-50, J-78, C-16, C-18, C-19, C-20, C-21, C-22, C-23, C-26, C-29, C-32, C-37: what is
    /// illegal is refused, for a rule that it breaks, and leaves no trace
    #[test]
    fn illegal_events_are_refused_and_leave_no_trace(seed: u64) {
        refusals(&generate(seed));
    }

    /// J-53, J-54, J-55, J-57, J-58, J-59, J-60, J-61, J-62, J-63, J-64, J-65, J-66, J-67, J-68,
    /// J-69, J-92: a journal that was tampered with is accepted by both or refused by both, at the
    /// same event
    #[test]
    fn mutated_journals_get_the_same_verdict(seed: u64) {
        mutations(seed, &generate(seed));
    }
}

/// J-87: every rule refuses something, so none of the above passes for want of trying.
#[test]
fn every_rule_refuses_something() {
    let mut named = BTreeSet::new();
    for seed in 0..600 {
        let made = generate(seed);
        named.extend(refusals(&made));
        named.extend(mutations(seed, &made));
    }
    let all: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    let never: Vec<Rule> = all.difference(&named).copied().collect();
    assert_eq!(never, [], "the machine never refused for these");
}
