//! What ended as Indeterminate: a standing of its own, and rows of before it was one.

use std::sync::Arc;

use indelible_journal::{ErrorKind, Failure};
use indelible_records::check;
use indelible_records::executions::{self, Execution, Standing};
use indelible_records::listing::{self, Filter, LOOKED_AT_MAX};
use indelible_store::memory::MemoryBackend;
use indelible_store::{Batch, Bounds, Store};
use indelible_test_store::rows::{Run, at, key};

/// V-46: what ended as Indeterminate is found at once, with its error, however much has failed
/// since; a list of what failed has it only if an earlier build wrote it, and that row is sound.
#[test]
fn what_is_unknown_is_found_among_failures() {
    let backend = Arc::new(MemoryBackend::new());
    let store = Store::start(backend, &indelible_records::TABLES, Bounds::DEFAULT).unwrap();
    let mut unknown = Run::start(0, &key(0, &[], &[1]), "order", at(4));
    unknown.end(at(5), Standing::Indeterminate);
    unknown.submit(&store);
    let mut earlier = Run::start(1, &key(1, &[], &[1]), "order", at(6));
    earlier.submit(&store);
    let mut batch = Batch::new();
    let before = earlier.row();
    let entry = earlier.journal.fail(at(7), Failure::new(ErrorKind::Indeterminate, "no answer"));
    let entry = entry.unwrap();
    let after = Execution { standing: Standing::Failed, ..earlier.row() };
    executions::advance(&mut batch, Some(&before), &after, &[entry]).unwrap();
    for number in 2..LOOKED_AT_MAX as u64 + 100 {
        let mut failed = Run::start(number, &key(number, &[], &[1]), "order", at(10));
        failed.end(at(11), Standing::Failed);
        failed.flush(&mut batch);
        if number % 400 == 0 {
            store.submit_blocking(std::mem::take(&mut batch)).unwrap();
        }
    }
    store.submit_blocking(batch).unwrap();
    let snapshot = store.snapshot().unwrap();
    let by =
        |standing| Filter { standings: vec![standing], latest_only: true, ..Filter::default() };
    let page = listing::list(&snapshot, &by(Standing::Indeterminate), None, 10).unwrap().value;
    let [found] = &page.executions[..] else { panic!("{page:?}") };
    assert_eq!((&found.key, page.next), (unknown.key(), None));
    assert_eq!(found.error.as_ref().map(|error| error.kind), Some(ErrorKind::Indeterminate));
    let oldest = Filter { created_before: Some(at(10)), ..by(Standing::Failed) };
    let page = listing::list(&snapshot, &oldest, None, 10).unwrap().value;
    let [found] = &page.executions[..] else { panic!("{page:?}") };
    assert_eq!(&found.key, earlier.key());
    let findings = check::check(&store, &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
}
