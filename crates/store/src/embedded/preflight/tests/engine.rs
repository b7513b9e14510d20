//! Against fjall itself: the checks read what fjall writes, and fjall opens what is left after a
//! cut.

use super::*;
use crate::embedded::preflight::{SEALED_BYTES_MIN, Stage};

/// What fjall wrote is read batch by batch, before and after fjall opens the folder again.
#[test]
fn what_the_engine_wrote_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    for round in 1..=3_u64 {
        let (database, rows) = open(folder.path());
        commit(&database, &rows, &[(b"a", b"1"), (b"b", b"2")]);
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        batch.remove(&rows, b"a".as_slice());
        batch.insert(&rows, b"zeros".as_slice(), vec![0; 100_000]);
        batch.commit().unwrap();
        let while_open = examine(folder.path()).unwrap();
        drop((database, rows));

        let report = examine(folder.path()).unwrap();
        assert_eq!(report, while_open);
        assert_eq!(report.stage, Stage::Created);
        assert_eq!(report.torn, None);
        let [journal] = report.journals.as_slice() else { panic!("one journal") };
        assert_eq!((journal.id, journal.batches, journal.items), (0, 2 * round, 4 * round));
        let (first, last) = journal.seqnos.unwrap();
        assert!(first < last);
    }
}

/// The batches that the tests make by hand are in fjall's format.
#[test]
fn the_engine_reads_batches_made_by_hand() {
    let folder = Folder::new();
    let bytes = [batch(100, &[(b"a", b"1")]), batch(102, &[(b"b", b"2"), (b"c", b"3")])].concat();
    folder.write(&bytes);
    let report = folder.examine().unwrap();
    assert_eq!(report.journals[0].bytes, bytes.len() as u64);
    assert_eq!(report.journals[0].seqnos, Some((100, 102)));

    let (database, rows) = open(folder.path());
    assert_eq!(rows.get("c").unwrap().as_deref(), Some(b"3".as_slice()));
    commit(&database, &rows, &[(b"d", b"4")]);
    drop((database, rows));
    assert_eq!(batches(&folder.examine().unwrap()), 3);
}

/// Each commit of a journal is torn in some way, and what is cut off is that commit alone.
#[test]
fn after_the_cut_the_engine_has_all_before() {
    let value = noise(7, 5 << 20);
    let whole = [batch(10, &[(b"a", b"1")]), batch(11, &[(b"b", &noise(3, 700))])].concat();
    let last = batch(12, &[(b"c", &noise(4, 600)), (b"d", &value), (b"e", b"5")]);
    let mut random = Prng::new(11);
    for round in 0..24 {
        let folder = Folder::new();
        let mut bytes = [whole.clone(), last.clone()].concat();
        match round % 3 {
            0 => bytes.truncate(whole.len() + 1 + random.index(last.len() - 1)),
            1 => super::tears::lose(&mut bytes, whole.len(), |_| random.one_in(3)),
            _ => {
                super::tears::lose(&mut bytes, whole.len(), |sector| {
                    sector / 8 % 2 == round / 3 % 2
                });
                bytes.resize(8 << 20, 0);
            }
        }
        let torn = folder.torn(&bytes);
        assert_eq!(torn.at, whole.len() as u64, "round {round}");
        cut(&torn).unwrap();
        let report = folder.examine().unwrap();
        assert_eq!((batches(&report), report.torn), (2, None));

        let (database, rows) = open(folder.path());
        assert_eq!(rows.len().unwrap(), 2);
        commit(&database, &rows, &[(b"f", b"6")]);
        drop((database, rows));
        assert_eq!(batches(&folder.examine().unwrap()), 3);
    }
}

/// fjall rotates journals by itself; batches in the older ones count, and damage there too.
#[test]
fn several_journals() {
    let folder = tempfile::tempdir().unwrap();
    let value = noise(1, 8 << 20);
    let mut commits = 0_u64;
    let (database, rows) = open(folder.path());
    // Something that is never flushed keeps the older journals.
    let other = database.keyspace("other", KeyspaceCreateOptions::default).unwrap();
    commit(&database, &other, &[(b"held", b"1")]);
    while database.journal_count() < 3 {
        commit(&database, &rows, &[(&commits.to_be_bytes(), &value)]);
        commits += 1;
    }
    drop((database, rows, other));

    let report = examine(folder.path()).unwrap();
    assert_eq!(report.journals.len(), 3);
    assert_eq!(batches(&report), commits + 1);
    assert_eq!(report.torn, None);

    // A bit in the middle of the oldest.
    let oldest = report.journals[0].path.clone();
    let mut bytes = fs::read(&oldest).unwrap();
    let used = usize::try_from(report.journals[0].bytes).unwrap();
    bytes[used / 2] ^= 4;
    fs::write(&oldest, &bytes).unwrap();
    let found = damage(examine(folder.path()));
    assert_eq!(found.path, oldest);
    assert!(found.offset.unwrap() <= used as u64 / 2);
    bytes[used / 2] ^= 4;

    // A torn tail in one that has newer ones with data.
    let mut torn = bytes.clone();
    torn[used - 5000..].fill(0);
    fs::write(&oldest, &torn).unwrap();
    let found = damage(examine(folder.path()));
    assert!(found.what.contains("torn") && found.what.contains("has data"), "{found}");

    // An older journal lost its last batches, so many that fjall would not have begun the next one.
    // It may begin it late, when the machine is busy.
    let mut last = used;
    while last as u64 > SEALED_BYTES_MIN {
        last -= batch(1, &[(&[0; 8], &value)]).len();
    }
    fs::write(&oldest, &bytes[..last]).unwrap();
    let found = damage(examine(folder.path()));
    assert_eq!(found.offset, Some(last as u64));
    assert!(found.what.contains("next journal"), "{found}");
    fs::write(&oldest, &bytes).unwrap();
    assert_eq!(examine(folder.path()).unwrap(), report);

    // One in between is missing.
    let middle = report.journals[1].path.clone();
    let aside = folder.path().join("aside");
    fs::rename(&middle, &aside).unwrap();
    assert_eq!(damage(examine(folder.path())).path, middle);
    fs::rename(&aside, &middle).unwrap();

    // They change places: the sequence numbers tell.
    fs::rename(&middle, &aside).unwrap();
    fs::rename(&oldest, &middle).unwrap();
    fs::rename(&aside, &oldest).unwrap();
    let found = damage(examine(folder.path()));
    assert!(found.what.contains("sequence number"), "{found}");
}
