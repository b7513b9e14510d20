//! A bit that changed, anywhere: no batch may be lost for it.

use super::*;

/// Three batches, of which none has a sector of zeros, and the last one's first byte.
fn journal() -> (Vec<u8>, usize) {
    let first = batch(0x0105, &[(b"a", b"1"), (b"bb", b"")]);
    let second = batch(0x0107, &[(b"key", &noise(1, 90))]);
    let third = batch(0x0200, &[(b"k", &noise(2, 60)), (b"last", &noise(3, 700))]);
    let last = first.len() + second.len();
    ([first, second, third].concat(), last)
}

/// Every bit of a journal, and of the zeros after it. A changed sequence number may go unseen,
/// as long as they rise; all else in a batch is damage.
#[test]
fn every_bit() {
    let folder = Folder::new();
    let (whole, last) = journal();
    let first_items = batch(1, &[(b"a", b"1"), (b"bb", b"")]).len();
    let seqno = |start: usize, at: usize| (start + 5..start + 13).contains(&at);
    for zeros in [0, 1700] {
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + zeros, 0);
        for at in 0..bytes.len() {
            // In the zeros it matters where a bit is, and hardly which.
            let step = if at < whole.len() { 1 } else { 5 };
            for bit in (0..8).step_by(step) {
                bytes[at] ^= 1 << bit;
                folder.write(&bytes);
                let place = format!("bit {bit} of byte {at}, {zeros} zeros");
                match folder.examine() {
                    Err(PreflightError::Damaged(damage)) => {
                        assert!(damage.offset.is_some(), "{place}");
                    }
                    Err(error) => panic!("{place}: {error}"),
                    Ok(report) => {
                        assert_eq!(batches(&report), 3, "{place}");
                        assert_eq!(report.journals[0].bytes, whole.len() as u64, "{place}");
                        assert_eq!(report.torn.is_some(), at >= whole.len(), "{place}");
                        let unseen = [0, first_items, last].iter().any(|start| seqno(*start, at));
                        assert!(unseen || at >= whole.len(), "{place}");
                    }
                }
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

/// The last batch has sectors of zeros of its own. Still every bit is damage: those that lead
/// through the batch are wrong where there is data, and of the others one makes it whole.
#[test]
fn every_bit_beside_zeros() {
    let folder = Folder::new();
    let first = batch(5, &[(b"first", &noise(1, 300))]);
    let last = batch(6, &[(b"zeros", &[0; 1600]), (b"noise", &noise(2, 40))]);
    let mut bytes = [first.clone(), last].concat();
    let end = bytes.len();
    bytes.resize(end + 1024, 0);
    // Each bit of what leads through the batch, and some of the rest, for the time it takes.
    let value = first.len() + 13 + 21 + 5;
    for at in
        (first.len()..value).chain((value..value + 1600).step_by(211)).chain(value + 1600..end)
    {
        for bit in [0, 1, 4, 7] {
            bytes[at] ^= 1 << bit;
            folder.write(&bytes);
            match folder.examine() {
                Ok(report) => {
                    assert_eq!((batches(&report), report.torn), (2, None), "bit {bit} of {at}");
                    assert!((first.len() + 5..first.len() + 13).contains(&at), "bit {bit} of {at}");
                }
                Err(error) => assert!(matches!(error, PreflightError::Damaged(_)), "{error}"),
            }
            bytes[at] ^= 1 << bit;
        }
    }
}

/// A last batch that is too large to try every bit: it has all its sectors, so it is damage.
#[test]
fn a_large_last_batch() {
    let folder = Folder::new();
    let mut bytes = [batch(5, &[(b"a", b"1")]), batch(6, &[(b"k", &noise(1, 20_000))])].concat();
    let end = bytes.len();
    for zeros in [0, 4096] {
        bytes.resize(end + zeros, 0);
        for at in (60..end).step_by(997).chain(end - 20..end) {
            bytes[at] ^= 8;
            let found = folder.damage(&bytes);
            assert!(found.what.contains("no part of it is missing"), "{found}");
            bytes[at] ^= 8;
        }
    }
}

/// Both lengths of an item are wrong in the same way: its value takes in a whole batch, and ends
/// in the zeros of the next. That batch leads to the end of the data, so it is one.
#[test]
fn a_length_that_ends_in_zeros() {
    let folder = Folder::new();
    let mut bytes = batch(5, &[(b"k", &noise(1, 10))]);
    bytes.extend(batch(6, &[(b"k", &noise(2, 10))]));
    bytes.extend(batch(7, &[(b"k", &[0; 8192])]));
    bytes[13 + 13 + 1] = 8;
    bytes[13 + 17 + 1] = 8;
    let found = folder.damage(&bytes);
    assert!(found.what.contains("sequence number 6, follows"), "{found}");
}

/// Batches of one size: with a wrong length one swallows whole others after it.
#[test]
fn a_length_that_swallows_batches() {
    let folder = Folder::new();
    let overhead = batch(1, &[(b"k", b"")]).len();
    let value = noise(1, 64 - overhead);
    let mut bytes: Vec<u8> = (1..40).flat_map(|seqno| batch(seqno, &[(b"k", &value)])).collect();
    for at in [0, 10, 30, 36, 37, 38] {
        for bit in 6..12 {
            let length = at * 64 + 13 + 11 + bit / 8;
            bytes[length] ^= 1 << (bit % 8);
            let found = folder.damage(&bytes);
            assert!(found.offset.unwrap() >= at as u64 * 64, "{found}");
            bytes[length] ^= 1 << (bit % 8);
        }
    }
}

/// Sequence numbers that do not rise, or rise too far, are damage though all checksums are right.
#[test]
fn sequence_numbers() {
    let folder = Folder::new();
    let items: &[(&[u8], &[u8])] = &[(b"k", b"v")];
    let far = 9 + (1 << 32);
    for (second, fine) in [(9, false), (8, false), (10, true), (far, true), (far + 1, false)] {
        let bytes = [batch(9, items), batch(second, items), batch(second + 1, items)].concat();
        if fine {
            folder.write(&bytes);
            assert_eq!(batches(&folder.examine().unwrap()), 3);
        } else {
            let found = folder.damage(&bytes);
            assert_eq!(found.offset, Some(batch(9, items).len() as u64));
            assert!(found.what.contains("sequence number"), "{found}");
        }
    }
    folder.damage(&batch(1 << 63, items));
}
