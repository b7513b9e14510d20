//! Tests of the typed tables: journals with their executions and indexes, lists, retention,
//! windows, and the check that finds what does not fit.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::sync::Arc;

use bytes::Bytes;
use indelible_journal::{
    FunctionName, Journal, JournalKey, Micros, Namespace, OperationId, Timestamp,
};
use indelible_records::check::{self, Findings};
use indelible_records::executions::{self, AdvanceError, Execution, Standing};
use indelible_records::idempotency_keys::{Answer, KeyOutcome, KeyRecord, SERVER};
use indelible_records::labels::Label;
use indelible_records::listing::{self, Cursor, Filter, LOOKED_AT_MAX, Whose};
use indelible_records::operations::Operation;
use indelible_records::retention::{self, Keeper, Plan, Retention};
use indelible_records::windows::{self, Id, WindowedRecord};
use indelible_records::{audit, components, journals, queue, retention_clock, settings, timers};
use indelible_store::embedded;
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Position, Scan, Store, SubmitError, Table};

use crate::support::{key_record, operation_record, operation_row, shop};
use indelible_test_store::rows::{NAMESPACES, Run, at, audit_entry, key, put_clock};
use indelible_test_support::Prng;

fn memory() -> Store {
    Store::start(Arc::new(MemoryBackend::new()), &indelible_records::TABLES, Bounds::DEFAULT)
        .unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    // All futures here are ready at once: there is room.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("there is room"),
    }
}

fn checked(store: &Store) -> Findings {
    check::check(store, &mut |_| {}).unwrap()
}

fn assert_sound(store: &Store) {
    let findings = checked(store);
    assert_eq!(findings.problems, [], "{} in all", findings.problems_count);
}

fn count(store: &Store, table: Table) -> usize {
    let counts = check::count(store).unwrap();
    counts.iter().find(|counted| counted.table == table.name()).unwrap().rows as usize
}

/// A journal reads back from every event on, in pages of every size, and recovers to itself; an
/// append at another length than the journal has is refused with what is there.
#[test]
fn journals_read_back_from_anywhere() {
    let store = memory();
    let key = key(1, &[], &[1]);
    let mut run = Run::start(1, &key, "order", at(10));
    run.submit(&store);
    for step in 1..30_usize {
        run.work(at(10 + step as u64), step % 4 + 1);
        run.submit(&store);
    }
    let length = run.journal.len();
    for from in 0..=length + 1 {
        for rows_max in [1, 2, 7, 100] {
            let mut records = Vec::new();
            let mut next = Some(from);
            while let Some(at) = next {
                let events = journals::read(&store, &key, at, rows_max).unwrap().value;
                records.extend(events.records);
                next = events.next;
            }
            let sequences: Vec<_> = records.iter().map(|record| record.sequence.get()).collect();
            assert_eq!(sequences, (from..length).collect::<Vec<_>>(), "{from} {rows_max}");
            if from == 0 {
                assert_eq!(Journal::recover(key.clone(), records).unwrap(), run.journal);
            }
        }
    }
    let mut stale = Run::start(1, &key, "order", at(10));
    let mut batch = Batch::new();
    stale.flush(&mut batch);
    let Err(SubmitError::Refused(refusal)) = store.try_submit(batch) else { panic!() };
    assert_eq!(refusal.condition.table, indelible_records::EXECUTIONS);
    assert_eq!(executions::get(&store, &key).unwrap().value, run.stored);
    assert_sound(&store);
}

/// A change that contradicts itself is refused before it is submitted.
#[test]
fn contradictory_changes_are_refused() {
    let key = key(1, &[], &[1]);
    let mut run = Run::start(1, &key, "order", at(10));
    run.flush(&mut Batch::new());
    let before = run.stored.clone().unwrap();
    let advance = |change: &dyn Fn(&mut Execution)| {
        let mut after = before.clone();
        change(&mut after);
        executions::advance(&mut Batch::new(), Some(&before), &after, &[])
    };
    assert!(advance(&|after| after.standing = Standing::Stuck).is_ok());
    assert!(matches!(advance(&|after| after.length = 2), Err(AdvanceError::Length { .. })));
    assert!(matches!(advance(&|after| after.created_at = at(9)), Err(AdvanceError::Fixed(_))));
    let renamed = |after: &mut Execution| after.function = FunctionName::new("other").unwrap();
    assert!(matches!(advance(&renamed), Err(AdvanceError::Fixed(_))));
    let moved = |after: &mut Execution| after.namespace = Some(Namespace::new("other").unwrap());
    assert!(matches!(advance(&moved), Err(AdvanceError::Fixed(_))));
    assert!(matches!(advance(&|after| after.namespace = None), Err(AdvanceError::Fixed(_))));
    let mut other = Run::start(1, &key, "order", at(10));
    other.work(at(11), 1);
    let entry = other.journal.record_time(at(12)).unwrap().1;
    let mut after = before.clone();
    after.length = 2;
    let skipped = executions::advance(&mut Batch::new(), Some(&before), &after, &[entry]);
    assert!(
        matches!(skipped, Err(AdvanceError::Sequence { first: 2, expected: 1 })),
        "{skipped:?}"
    );
}

/// A population of executions in all standings, and what lists of it should show.
struct Population {
    store: Store,
    runs: Vec<Run>,
}

const FUNCTIONS: [&str; 4] = ["order", "order2", "ord", "größe"];

fn populate(numbers: &mut Prng, trees: u64) -> Population {
    let store = memory();
    let mut runs = Vec::new();
    for tree in 0..trees {
        // Few different times: lists have to tell executions of one moment apart.
        let created = at(1000 + numbers.below(trees / 3 + 1));
        for path in [&[][..], &[0], &[1], &[0, 2]].iter().take(1 + numbers.below(4) as usize) {
            let attempts = vec![1; path.len() + 1];
            let function = FUNCTIONS[numbers.below(4) as usize];
            let mut run = Run::start(tree, &key(tree, path, &attempts), function, created);
            run.submit(&store);
            change(&mut run, numbers);
            run.submit(&store);
            runs.push(run);
        }
    }
    Population { store, runs }
}

/// One of few labels, which begin alike.
fn label(numbers: &mut Prng) -> Label {
    let name = ["order", "orde", "o"][numbers.below(3) as usize];
    let value = ["1", "12", "", "1=✓"][numbers.below(4) as usize];
    Label::new(name, value).unwrap()
}

/// Brings an execution into some other standing, and perhaps gives it a label.
fn change(run: &mut Run, numbers: &mut Prng) {
    if run.row().standing.is_terminal() {
        return;
    }
    if numbers.below(3) == 0 {
        run.labels.set(label(numbers)).unwrap();
    }
    let now = at(run.journal.last_timestamp().as_micros() + 1 + numbers.below(50));
    let running = run.stuck.is_none() && run.row().standing == Standing::Running;
    match numbers.below(9) {
        0 if running => run.block(now),
        1 if run.row().standing == Standing::Blocked => run.wake(now),
        2 => run.request_cancel(now),
        3 => run.stuck = Some("stuck ✗".to_owned()),
        4 => run.stuck = None,
        // The standings of what is over come last.
        choice @ 5..=8 if running => run.end(now, Standing::ALL[choice as usize - 1]),
        _ if running => run.work(now, 1),
        _ => {}
    }
}

/// Makes some fail that could go on, and tries them again, some several times.
fn try_again(population: &mut Population, numbers: &mut Prng) {
    for mut index in 0..population.runs.len() {
        while population.runs[index].row().standing == Standing::Running && numbers.below(3) > 0 {
            let run = &mut population.runs[index];
            let failed_at = run.journal.last_timestamp().as_micros() + numbers.below(3);
            run.end(at(failed_at), Standing::Failed);
            run.submit(&population.store);
            // At the same moment, or later.
            let mut next = run.again(at(failed_at + numbers.below(2)));
            next.submit(&population.store);
            index = population.runs.len();
            population.runs.push(next);
        }
    }
}

/// What a list should show, by looking at everything.
fn expected(runs: &[Run], filter: &Filter) -> Vec<JournalKey> {
    let was_followed = |key: &JournalKey| {
        let others = runs.iter().map(Run::key);
        others.filter(|other| other.execution_id() == key.execution_id()).any(|other| other > key)
    };
    let mut rows: Vec<Execution> = runs
        .iter()
        .filter_map(|run| run.stored.clone())
        .filter(|row| filter.with_children || row.key.execution_id().is_root())
        .filter(|row| match &filter.whose {
            Whose::All => filter.labels.is_empty() || row.namespace.is_some(),
            Whose::Callers => row.namespace.is_some(),
            Whose::Namespaces(names) => {
                row.namespace.as_ref().is_some_and(|name| names.contains(name))
            }
        })
        .filter(|row| {
            filter.labels.iter().all(|label| row.labels.get(label.name()) == Some(label.value()))
        })
        .filter(|row| filter.standings.is_empty() || filter.standings.contains(&row.standing))
        .filter(|row| filter.function.as_ref().is_none_or(|function| *function == row.function))
        .filter(|row| filter.created_from.is_none_or(|from| row.created_at >= from))
        .filter(|row| filter.created_before.is_none_or(|before| row.created_at < before))
        .filter(|row| !filter.latest_only || !was_followed(&row.key))
        .collect();
    let depth = |row: &Execution| {
        (row.key.execution_id().root().to_string(), row.key.execution_id().depth())
    };
    rows.sort_by_key(|row| {
        let path = row.key.execution_id().path().to_vec();
        (std::cmp::Reverse(row.created_at), depth(row), path, row.key.attempts().clone())
    });
    rows.into_iter().map(|row| row.key).collect()
}

fn listed(store: &Store, filter: &Filter, page: usize) -> Vec<JournalKey> {
    let mut keys = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let snapshot = store.snapshot().unwrap();
        let listing = listing::list(&snapshot, filter, cursor.as_ref(), page).unwrap().value;
        assert!(listing.executions.len() <= page);
        keys.extend(listing.executions.into_iter().map(|execution| execution.key));
        match listing.next {
            // Cursors go through text, as they do for clients.
            Some(next) => cursor = Some(next.to_string().parse().unwrap()),
            None => return keys,
        }
    }
}

/// Lists by every combination of filters, in pages of several sizes, show what looking at
/// everything shows.
#[test]
fn lists_show_what_is_there() {
    for seed in 0..6 {
        let mut numbers = Prng::new(seed);
        let mut population = populate(&mut numbers, 30);
        try_again(&mut population, &mut numbers);
        for _ in 0..60 {
            let index = numbers.below(population.runs.len() as u64) as usize;
            let run = &mut population.runs[index];
            change(run, &mut numbers);
            run.submit(&population.store);
        }
        assert_sound(&population.store);
        for case in 0..120 {
            let (with_children, latest_only) = (numbers.below(2) == 0, numbers.below(2) == 0);
            let mut filter = Filter { with_children, latest_only, ..Filter::default() };
            for standing in Standing::ALL {
                if case % 3 > 0 && numbers.below(3) == 0 {
                    filter.standings.push(standing);
                }
            }
            if numbers.below(2) == 0 {
                let name = FUNCTIONS[numbers.below(4) as usize];
                filter.function = Some(FunctionName::new(name).unwrap());
            }
            if numbers.below(2) == 0 {
                let name = NAMESPACES[numbers.below(4) as usize];
                filter.whose = Namespace::new(name).unwrap().into();
            } else if numbers.below(3) == 0 {
                let some = [NAMESPACES[0], NAMESPACES[3]].map(|name| Namespace::new(name).unwrap());
                filter.whose = [Whose::Callers, Whose::Namespaces(some.to_vec())]
                    [numbers.below(2) as usize]
                    .clone();
            }
            if numbers.below(3) == 0 {
                filter.labels.push(label(&mut numbers));
                filter.labels.extend((numbers.below(3) == 0).then(|| label(&mut numbers)));
            }
            if numbers.below(3) == 0 {
                filter.created_from = Some(at(998 + numbers.below(14)));
            }
            if numbers.below(3) == 0 {
                filter.created_before = Some(at(998 + numbers.below(14)));
            }
            if numbers.below(40) == 0 {
                filter.created_before = Some(Timestamp::EPOCH);
            }
            let expected = expected(&population.runs, &filter);
            let page = [1, 2, 3, 10, 1000][numbers.below(5) as usize];
            assert_eq!(listed(&population.store, &filter, page), expected, "{filter:?} {page}");
        }
    }
}

/// While executions change, start and go between pages, what stays as it is comes exactly once.
#[test]
fn cursors_survive_changes() {
    let mut numbers = Prng::new(7);
    let mut population = populate(&mut numbers, 150);
    let filter = Filter { standings: vec![Standing::Completed], ..Filter::default() };
    let steady = expected(&population.runs, &filter);
    assert!(steady.len() > 5);
    let mut seen = Vec::new();
    let mut cursor = None;
    for tree in 1000.. {
        let snapshot = population.store.snapshot().unwrap();
        let listing = listing::list(&snapshot, &filter, cursor.as_ref(), 2).unwrap().value;
        seen.extend(listing.executions.into_iter().map(|execution| execution.key));
        let Some(next) = listing.next else { break };
        cursor = Some(next);
        for run in &mut population.runs {
            change(run, &mut numbers);
            run.submit(&population.store);
        }
        let mut new = Run::start(tree, &key(tree, &[], &[1]), "order", at(990 + numbers.below(40)));
        new.end(at(2000), Standing::Completed);
        new.submit(&population.store);
    }
    for key in &steady {
        assert_eq!(seen.iter().filter(|seen| *seen == key).count(), 1, "{key}");
    }
    let mut distinct = seen.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len());
}

/// A page of one function of a namespace looks at a bounded number of entries of the index: it may be
/// short, or empty, and says where to go on; all pages together show everything. It does not read what
/// it passes over.
#[test]
fn a_page_by_namespace_and_function_is_bounded() {
    let store = memory();
    let of = |tree: u64| if tree == 0 { "rare" } else { "usual" };
    let mut batch = Batch::new();
    for tree in 0..=LOOKED_AT_MAX as u64 {
        // The rare one is the oldest.
        let mut run = Run::start(tree, &key(tree, &[], &[1]), of(tree), at(10 + tree));
        run.namespace = Some(Namespace::new("shop").unwrap());
        run.flush(&mut batch);
        if tree % 500 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    store.submit_blocking(batch).unwrap();
    let filter = Filter {
        whose: Namespace::new("shop").unwrap().into(),
        function: Some(FunctionName::new("rare").unwrap()),
        ..Filter::default()
    };
    let snapshot = store.snapshot().unwrap();
    let first = listing::list(&snapshot, &filter, None, 10).unwrap().value;
    assert!(first.executions.is_empty() && first.next.is_some(), "{first:?}");
    let second = listing::list(&snapshot, &filter, first.next.as_ref(), 10).unwrap().value;
    assert_eq!(second.next, None);
    let keys: Vec<_> = second.executions.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [key(0, &[], &[1])]);

    // Without any row there is only the index: it leads past the others, and to one that is gone.
    let executions = indelible_records::EXECUTIONS;
    let mut gone = Batch::new();
    for (key, _) in store.scan(&Scan::all(executions, 2 * LOOKED_AT_MAX)).unwrap().value.rows {
        gone.delete(executions, key);
    }
    store.submit_blocking(gone).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(listing::list(&snapshot, &filter, None, 10).unwrap().value, first);
    assert!(listing::list(&snapshot, &filter, first.next.as_ref(), 10).is_err());
}

/// A list of last attempts passes over those that others followed, whatever it goes by; a page of it
/// looks at a bounded number of them, and may be empty and say where to go on.
#[test]
fn a_page_of_last_attempts_is_bounded() {
    let store = memory();
    // It failed for good, and is older than all that follows.
    let mut failed = Run::start(1, &key(1, &[], &[1]), "order", at(5));
    failed.end(at(6), Standing::Failed);
    failed.submit(&store);
    let mut run = Run::start(0, &key(0, &[], &[1]), "order", at(10));
    let mut batch = Batch::new();
    for attempt in 1..=LOOKED_AT_MAX as u64 {
        run.end(at(10 + attempt), Standing::Failed);
        run.flush(&mut batch);
        run = run.again(at(10 + attempt));
        if attempt % 500 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    run.end(at(100_000), Standing::Completed);
    run.submit(&store);
    let latest = |filter: Filter| Filter { latest_only: true, ..filter };
    let by = |standing| latest(Filter { standings: vec![standing], ..Filter::default() });
    let snapshot = store.snapshot().unwrap();
    let first = listing::list(&snapshot, &by(Standing::Failed), None, 10).unwrap().value;
    assert!(first.executions.is_empty() && first.next.is_some(), "{first:?}");
    let next = first.next.as_ref();
    let second = listing::list(&snapshot, &by(Standing::Failed), next, 10).unwrap().value;
    assert_eq!(second.next, None);
    let keys: Vec<_> = second.executions.into_iter().map(|row| row.key).collect();
    assert_eq!(keys, [failed.key().clone()]);
    assert_eq!(listed(&store, &by(Standing::Completed), 10), [run.key().clone()]);
    let all = listed(&store, &latest(Filter::default()), 10);
    assert_eq!(all, [run.key().clone(), failed.key().clone()]);
    // Its last attempt began later, and no other stands for it.
    let before = Filter { created_before: Some(at(100)), ..Filter::default() };
    assert_eq!(listed(&store, &latest(before), 10), [failed.key().clone()]);
}

/// Texts that are no cursors are refused.
#[test]
fn foreign_cursors_are_refused() {
    let long = "A".repeat(5000);
    for text in ["", "x", "AA", "AQAAAAAAAAAA", "!!!!", long.as_str()] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
}

/// Finished trees go after their time, whole, in steps of any size, and nothing else does: not
/// those of another end, not younger ones, not those whose root goes on at another attempt. What
/// is left is sound at every moment.
#[test]
fn retention_takes_finished_trees_only() {
    for step in [1, 2, 7, 1000] {
        let store = memory();
        let put = |tree: u64, path: &[u32], attempts: &[u32], end: Option<Standing>, when| {
            let mut run = Run::start(tree, &key(tree, path, attempts), "order", at(when - 10));
            run.submit(&store);
            run.work(at(when), 2);
            if let Some(end) = end {
                run.end(at(when), end);
            }
            run.submit(&store);
        };
        for (path, attempts) in [(&[][..], &[1][..]), (&[0], &[1, 1]), (&[0, 3], &[1, 1, 1])] {
            put(1, path, attempts, Some(Standing::Completed), 1000);
            put(2, path, attempts, Some(Standing::Completed), 1001);
            put(3, path, attempts, Some(Standing::Failed), 500);
            put(4, path, attempts, Some(Standing::Cancelled), 500);
        }
        // A second attempt at the root is under way, then over.
        put(5, &[], &[1], Some(Standing::Completed), 900);
        put(5, &[], &[2], None, 950);
        put(6, &[], &[1], Some(Standing::Failed), 700);
        put(6, &[], &[2], Some(Standing::Completed), 800);
        // A child that is not over, though its root is.
        put(7, &[], &[1], Some(Standing::Completed), 600);
        put(7, &[0], &[1, 1], None, 600);
        let retention = Retention { completed: Some(Micros::new(100)), ..Retention::default() };
        let mut trees = 0;
        let mut unfinished = Vec::new();
        for round in 0.. {
            let swept = block_on(retention::sweep(&store, at(1100), &retention, step)).unwrap();
            assert!(swept.rows <= step + 4, "{swept:?}");
            assert_sound(&store);
            trees += swept.trees;
            unfinished = swept.unfinished;
            if swept.rows == 0 {
                assert!(!swept.more);
                break;
            }
            assert!(round < 100, "it comes to an end");
        }
        assert_eq!(trees, 2, "trees 1 and 6");
        assert_eq!(unfinished, [key(7, &[0], &[1, 1])]);
        for (tree, kept) in [(1, 0), (2, 3), (3, 3), (4, 3), (5, 2), (6, 0), (7, 2)] {
            let root = key(tree, &[], &[1]).execution_id().root().as_bytes().to_vec();
            for table in [indelible_records::EXECUTIONS, indelible_records::JOURNALS] {
                let page = store.scan(&Scan::prefix(table, root.clone(), 100)).unwrap().value;
                let per = if table == indelible_records::JOURNALS { 2 } else { 1 };
                assert_eq!(page.rows.len(), kept * per, "tree {tree} of {}", table.name());
            }
        }
        assert_eq!(count(&store, indelible_records::BY_STATUS), 13);
    }
}

fn replace<R: windows::RecordBody>(
    store: &Store,
    id: &Id,
    before: Option<&WindowedRecord<R>>,
    after: Option<&WindowedRecord<R>>,
) -> Result<Position, SubmitError> {
    let mut batch = Batch::new();
    windows::replace(&mut batch, id, before, after);
    store.try_submit(batch)
}

fn led_to(operation: &str) -> KeyOutcome {
    KeyOutcome::Operation(OperationId::new(operation).unwrap())
}

/// C-3, C-31: the check finds an operation and a key that do not name each other, or do not go
/// together; what is left while they go, and a key that is used again then, is no damage.
#[test]
fn keys_and_operations_name_each_other() {
    let done = || KeyOutcome::Answer(Answer::Done);
    let fits: [&str; 0] = [];
    let no_key = ["the record of its key points elsewhere"];
    let no_operation = ["it contradicts the record of its operation"];
    let operation = |expires_at, led_by| Some(operation_record(expires_at, led_by, ""));
    let key = |expires_at, led_to| Some(key_record(expires_at, led_to));
    for (operation, key, expected) in [
        (operation(None, Some("key")), key(None, led_to("op")), &fits[..]),
        (operation(Some(9), Some("key")), key(Some(8), led_to("op")), &fits),
        (operation(Some(9), Some("key")), None, &fits),
        (operation(Some(9), Some("key")), key(Some(20), done()), &fits),
        (operation(None, Some("key")), None, &no_key),
        (operation(None, Some("key")), key(Some(20), done()), &no_key),
        (None, key(None, led_to("op")), &no_operation),
        (operation(None, None), key(None, led_to("op")), &no_operation),
        (operation(Some(9), Some("key")), key(Some(9), led_to("op")), &no_operation),
        (operation(Some(9), Some("key")), key(None, led_to("op")), &no_operation),
        (None, key(None, done()), &["it has no window"]),
        (None, key(None, KeyOutcome::Target(SERVER)), &["it has no window"]),
    ] {
        let store = memory();
        if operation.is_some() {
            replace(&store, &operation_row("op"), None, operation.as_ref()).unwrap();
        }
        if key.is_some() {
            replace(&store, &Id::idempotency_key(&shop(), "key"), None, key.as_ref()).unwrap();
        }
        let problems = checked(&store).problems;
        let found: Vec<_> = problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(found, expected, "{operation:?} {key:?}");
    }
}

/// C-3, C-80: the check finds an end that is none, and what is no answer to anything.
#[test]
fn ends_and_answers_are_looked_into() {
    let store = memory();
    let gone = operation_record(Some(9), None, "gone");
    replace(&store, &operation_row("op"), None, Some(&gone)).unwrap();
    let answer = |key: &str| Id::for_answer(&shop(), &SERVER, key);
    for (id, led_to) in [
        (answer("a start"), led_to("op")),
        (answer("a note"), KeyOutcome::Target(SERVER)),
        (Id { name: "nothing".to_owned(), ..answer("") }, KeyOutcome::Answer(Answer::Done)),
    ] {
        replace(&store, &id, None, Some(&key_record(Some(9), led_to))).unwrap();
    }
    let problems = checked(&store).problems;
    let found: Vec<_> = problems.iter().map(|problem| problem.what.as_str()).collect();
    let end = "its end differs from the end of its execution";
    assert_eq!(
        found,
        [
            end,
            "it is not a valid answer",
            "it is not a valid \
         answer",
            "it names no target"
        ]
    );
}

/// A record of an operation or key outlives its execution, and goes by its own window alone; one
/// that is in progress never goes (C-3).
#[test]
fn records_go_by_their_own_window() {
    let store = memory();
    let mut run = Run::start(1, &key(1, &[], &[1]), "order", at(10));
    run.end(at(20), Standing::Completed);
    run.submit(&store);
    let record = |expires_at| operation_record(expires_at, None, "");
    let answer = |expires_at| key_record(Some(expires_at), KeyOutcome::Answer(Answer::Done));
    let (op, busy) = (operation_row("op"), operation_row("busy"));
    let soon = Id::idempotency_key(&shop(), "soon");
    replace(&store, &op, None, Some(&record(Some(5000)))).unwrap();
    replace(&store, &busy, None, Some(&record(None))).unwrap();
    replace(&store, &soon, None, Some(&answer(100))).unwrap();
    let twice = replace(&store, &op, None, Some(&record(None))).unwrap_err();
    assert!(matches!(twice, SubmitError::Refused(_)), "{twice}");
    // A window that is set anew takes its old entry along.
    replace(&store, &soon, Some(&answer(100)), Some(&answer(200))).unwrap();
    assert_sound(&store);

    let forget = Retention { completed: Some(Micros::new(1)), ..Retention::default() };
    while block_on(retention::sweep(&store, at(1000), &forget, 100)).unwrap().rows > 0 {}
    assert_eq!(count(&store, indelible_records::EXECUTIONS), 0);
    assert_eq!(windows::get(&store, &op).unwrap().value, Some(record(Some(5000))));

    let purge = |now| block_on(windows::purge(&store, at(now), 10)).unwrap().records;
    assert_eq!(purge(199), 0);
    assert_eq!(purge(200), 1);
    assert_eq!(windows::get::<KeyRecord>(&store, &soon).unwrap().value, None);
    assert_eq!(purge(1_000_000), 1);
    assert_eq!(windows::get::<Operation>(&store, &op).unwrap().value, None);
    assert_eq!(windows::get(&store, &busy).unwrap().value, Some(record(None)));
    assert_eq!((count(&store, indelible_records::EXPIRIES), purge(u64::MAX >> 12)), (0, 0));
    assert_sound(&store);
}

/// Purging in bounded steps says when there is more.
#[test]
fn purging_is_bounded() {
    let store = memory();
    for number in 0..25_u64 {
        let record = operation_record(Some(number), None, "");
        replace(&store, &operation_row(&number.to_string()), None, Some(&record)).unwrap();
    }
    let step = || {
        let purged = block_on(windows::purge(&store, at(1000), 10)).unwrap();
        (purged.records, purged.more)
    };
    assert_eq!([step(), step(), step(), step()], [(10, true), (10, true), (5, false), (0, false)]);
}

/// Queue and timers come in order, page by page, and go one by one.
#[test]
fn queue_and_timers_come_in_order() {
    let store = memory();
    let mut numbers = Prng::new(3);
    let mut batch = Batch::new();
    for tree in 0..20 {
        Run::start(tree, &key(tree, &[], &[1]), "order", at(1)).flush(&mut batch);
    }
    let mut entries: Vec<_> = (0..20)
        .map(|tree| queue::Entry { ticket: numbers.below(9), key: key(tree, &[], &[1]) })
        .collect();
    let mut due: Vec<_> = (0..20)
        .map(|tree| timers::Timer {
            due: at(numbers.below(9)),
            key: key(tree, &[], &[1]),
            child: [None, Some(0), Some(7)][numbers.below(3) as usize],
        })
        .collect();
    entries.iter().for_each(|entry| queue::put(&mut batch, entry));
    due.iter().for_each(|timer| timers::put(&mut batch, timer));
    store.try_submit(batch).unwrap();
    assert_sound(&store);
    entries.sort();
    due.sort();
    let mut came = Vec::new();
    while let page = queue::next(&store, came.last(), 3).unwrap().value
        && !page.is_empty()
    {
        came.extend(page);
    }
    assert_eq!(trees(came, queue::Row::tree), entries);
    let mut came = Vec::new();
    while let page = timers::next(&store, came.last(), 3).unwrap().value
        && !page.is_empty()
    {
        came.extend(page);
    }
    assert_eq!(trees(came, timers::Row::tree), due);
    let mut batch = Batch::new();
    queue::delete(&mut batch, &entries[0]);
    timers::delete(&mut batch, &due[0]);
    store.try_submit(batch).unwrap();
    let (next_entry, next_timer) = (entries[1].clone(), due[1].clone());
    assert_eq!(queue::next(&store, None, 1).unwrap().value, [queue::Row::Tree(next_entry)]);
    assert_eq!(timers::next(&store, None, 1).unwrap().value, [timers::Row::Tree(next_timer)]);
}

fn trees<Row, Of>(rows: Vec<Row>, tree: fn(Row) -> Option<Of>) -> Vec<Of> {
    rows.into_iter().filter_map(tree).collect()
}

/// D14: a row of the queue or of the timers whose room is not known is damage, which is noted once;
/// lists go on behind it, page by page.
#[test]
fn rows_of_unknown_rooms_are_passed_over() {
    let store = memory();
    let mut run = Run::start(1, &key(1, &[], &[1]), "order", at(1));
    run.submit(&store);
    let entry = queue::Entry { ticket: 7, key: run.key().clone() };
    let timer = timers::Timer { due: at(7), key: run.key().clone(), child: None };
    let unknown = [&7_u64.to_be_bytes()[..], &[0], b"key of a room"].concat();
    let mut batch = Batch::new();
    queue::put(&mut batch, &entry);
    timers::put(&mut batch, &timer);
    batch.put(indelible_records::QUEUE, unknown.clone(), Bytes::new());
    batch.put(indelible_records::TIMERS, unknown.clone(), Bytes::new());
    store.try_submit(batch).unwrap();
    for _ in 0..2 {
        let first = queue::next(&store, None, 1).unwrap().value;
        assert_eq!(first, [queue::Row::UnknownRoom(unknown.clone().into())]);
        let rest = queue::next(&store, first.last(), 1).unwrap().value;
        assert_eq!(rest, [queue::Row::Tree(entry.clone())]);
        let first = timers::from(&store, at(7), 1).unwrap().value;
        let key = unknown.clone().into();
        assert_eq!(first, [timers::Row::UnknownRoom { due: at(7), key }]);
        let rest = timers::next(&store, first.last(), 1).unwrap().value;
        assert_eq!(rest, [timers::Row::Tree(timer.clone())]);
        assert_eq!(store.damage().places(), 2);
    }
    let problems = checked(&store).problems;
    let tables: Vec<_> = problems.iter().map(|problem| problem.table).collect();
    assert_eq!(tables, ["queue", "timers"]);
    for problem in problems {
        assert_eq!(problem.what, "it belongs to an unknown room");
    }
}

/// Components, settings and the audit record read back.
#[test]
fn plain_rows_read_back() {
    let store = memory();
    let mut batch = Batch::new();
    let component = vec![7; 3 << 20];
    let digest = components::put(&mut batch, &component);
    put_clock(&mut batch, 30);
    let entries = [(5, 1), (5, 2), (9, 0)].map(|(micros, id)| audit_entry(micros, [id; 16]));
    entries.iter().for_each(|entry| audit::put(&mut batch, entry));
    store.try_submit(batch).unwrap();
    assert_eq!(components::get(&store, &digest).unwrap().value.unwrap(), component);
    assert_eq!(retention_clock::get(&store).unwrap().value.unwrap().time, at(30));
    assert_eq!(settings::get(&store, "other").unwrap().value, None);
    let [first, second, third] = entries;
    assert_eq!(audit::before(&store, at(9), 10).unwrap().value, [second, first]);
    assert_eq!(audit::before(&store, at(10), 1).unwrap().value, [third]);
    assert_sound(&store);
}

/// The check finds a row that is missing, changed, foreign or left over, in every table that
/// belongs to an execution or a record.
#[test]
fn the_check_finds_what_does_not_fit() {
    let mut numbers = Prng::new(11);
    let population = populate(&mut numbers, 12);
    let store = &population.store;
    let mut batch = Batch::new();
    let (run, other) = (&population.runs[0], &population.runs[1]);
    queue::put(&mut batch, &queue::Entry { ticket: 1, key: run.key().clone() });
    timers::put(&mut batch, &timers::Timer { due: at(1), key: other.key().clone(), child: None });
    let done = KeyOutcome::Answer(Answer::Done);
    for (name, expires_at, led_by) in [("op", Some(9), None), ("op-2", None, Some("key"))] {
        let record = operation_record(expires_at, led_by, "");
        windows::replace(&mut batch, &operation_row(name), None, Some(&record));
    }
    for (id, record) in [
        (Id::idempotency_key(&shop(), "key"), key_record(None, led_to("op-2"))),
        (Id::for_answer(&shop(), &SERVER, "other"), key_record(Some(9), done)),
    ] {
        windows::replace(&mut batch, &id, None, Some(&record));
    }
    put_clock(&mut batch, 30);
    components::put(&mut batch, b"component");
    audit::put(&mut batch, &audit_entry(1, [0; 16]));
    store.try_submit(batch).unwrap();
    assert_sound(store);

    let mut broken = 0;
    for table in indelible_records::TABLES {
        let rows = store.scan(&Scan::all(table, 1000)).unwrap().value.rows;
        let sealed = rows.first().is_some_and(|(_, value)| !value.is_empty());
        for (key, value) in rows.iter().take(20) {
            let mut breaks = Vec::new();
            let mut lost = Batch::new();
            lost.delete(table, key.clone());
            // Nothing points to a setting, a component, an audit entry or work to do.
            let pointed_to = [
                indelible_records::SETTINGS,
                indelible_records::COMPONENTS,
                indelible_records::AUDIT,
                indelible_records::QUEUE,
                indelible_records::TIMERS,
            ];
            if !pointed_to.contains(&table) {
                breaks.push(lost);
            }
            let mut moved = Batch::new();
            let mut elsewhere = key.to_vec();
            let last = elsewhere.len() - 1;
            elsewhere[last] ^= 0x40;
            moved.put(table, elsewhere, value.clone());
            breaks.push(moved);
            if sealed {
                let mut flipped = value.to_vec();
                let at = numbers.below(flipped.len() as u64) as usize;
                flipped[at] ^= 1 << numbers.below(8);
                let mut changed = Batch::new();
                changed.put(table, key.clone(), flipped);
                breaks.push(changed);
            }
            for batch in breaks {
                let mut mend = Batch::new();
                for write in batch.writes() {
                    match store.get(table, &write.key).unwrap().value {
                        Some(value) => mend.put(table, write.key.clone(), value),
                        None => mend.delete(table, write.key.clone()),
                    };
                }
                let shown = format!("{batch:?}");
                store.try_submit(batch).unwrap();
                assert!(!checked(store).problems.is_empty(), "{} {shown}", table.name());
                store.try_submit(mend).unwrap();
                broken += 1;
            }
        }
    }
    assert!(broken > 200, "{broken}");
    assert_sound(store);
}

/// A row of an index that is too short to lead anywhere, as a backup from elsewhere may have it, is
/// damage: a list says so.
#[test]
fn a_short_index_row_is_damage() {
    for latest_only in [false, true] {
        let store = memory();
        let mut batch = Batch::new();
        batch.put(indelible_records::BY_STATUS, [0, Standing::Running as u8].to_vec(), "");
        store.try_submit(batch).unwrap();
        let filter = Filter { latest_only, ..Filter::default() };
        let listed = listing::list(&store.snapshot().unwrap(), &filter, None, 10);
        assert!(listed.is_err_and(|error| error.is_damage()));
        assert!(!checked(&store).problems.is_empty());
    }
}

struct Clock;

impl Keeper for Clock {
    fn now(&self) -> Timestamp {
        at(1000)
    }
}

/// The background sweeps what is due, without being asked, and stops when it is dropped.
#[test]
fn the_background_sweeps() {
    let store = memory();
    for tree in 0..50 {
        let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(10));
        run.label("order=1");
        run.end(at(20), Standing::Failed);
        run.submit(&store);
    }
    assert_eq!(count(&store, indelible_records::BY_LABEL), 50);
    let retention = Retention { failed: Some(Micros::new(5)), ..Retention::default() };
    let hour = std::time::Duration::from_secs(3600);
    let plan = Plan { retention, interval: hour, records_later: Micros::ZERO, apart: false };
    let background = retention::Background::start(&store, plan, Clock).unwrap();
    background.wait_for_rounds(1);
    assert_eq!(background.rounds(), (1, None));
    drop(background);
    for table in [
        indelible_records::EXECUTIONS,
        indelible_records::JOURNALS,
        indelible_records::BY_STATUS,
        indelible_records::BY_FUNCTION,
        indelible_records::BY_NAMESPACE,
        indelible_records::BY_LABEL,
        indelible_records::FINISHED,
    ] {
        assert_eq!(count(&store, table), 0, "{}", table.name());
    }
}

/// On disk, what was swept is gone from the files too, once its space is reclaimed.
#[test]
fn swept_space_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let options = embedded::Options::default();
    let store = embedded::open(folder.path(), &indelible_records::TABLES, &options).unwrap();
    for tree in 0..40 {
        let mut run = Run::start(tree, &key(tree, &[], &[1]), "order", at(10));
        run.work(at(11), 2000);
        run.end(at(20), Standing::Completed);
        run.submit(&store);
    }
    // What is not on disk yet is in no file.
    store.durable(store.accepted()).wait().unwrap();
    store.reclaim(indelible_records::JOURNALS).unwrap();
    let before = store.disk_bytes(indelible_records::JOURNALS);
    assert!(before > 100_000, "{before}");
    let retention = Retention { completed: Some(Micros::new(5)), ..Retention::default() };
    while block_on(retention::sweep(&store, at(1000), &retention, 1000)).unwrap().rows > 0 {}
    store.durable(store.accepted()).wait().unwrap();
    assert_sound(&store);
    store.reclaim(indelible_records::JOURNALS).unwrap();
    let after = store.disk_bytes(indelible_records::JOURNALS);
    assert!(after < before / 10, "{after} of {before}");
}
