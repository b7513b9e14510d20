//! Values that were made to look like batches, and lengths that were made to be large.

use super::*;

/// Cuts the end off a batch whose value holds a copy of batches that would follow.
#[test]
fn a_value_that_holds_a_journal() {
    let folder = Folder::new();
    let first = batch(5, &[(b"first", b"1")]);
    let copy: Vec<u8> = (8..40).flat_map(|seqno| batch(seqno, &[(b"k", b"v")])).collect();
    let value = [noise(1, 900), copy.clone(), noise(2, 5000)].concat();
    let whole = [first.clone(), batch(6, &[(b"backup", &value), (b"x", b"y")])].concat();
    folder.write(&whole);
    assert_eq!(batches(&folder.examine().unwrap()), 2);

    // The copy lies within a value and something follows it: the tail may go.
    let mut bytes = whole.clone();
    super::tears::lose(&mut bytes, first.len(), |sector| sector == 8);
    assert_eq!(folder.torn(&bytes).at, first.len() as u64);
    assert_eq!(folder.torn(&whole[..whole.len() - 5]).at, first.len() as u64);

    // The data ends with the copy. It cannot be told from real batches, so it stays.
    let end = first.len() + 13 + 21 + 6 + 900 + copy.len();
    let found = folder.damage(&whole[..end]);
    assert!(!found.what.is_empty());
    let mut zeros = whole[..end].to_vec();
    zeros.resize(whole.len() + 4096, 0);
    folder.damage(&zeros);

    // A sector is lost right after the copy: it could be the torn batch after real ones.
    let edge = 1024 - (first.len() + 13 + 21 + 6 + copy.len()) % 512;
    let value = [noise(1, edge), copy.clone(), noise(2, 5000)].concat();
    let mut bytes = [first.clone(), batch(6, &[(b"backup", &value)])].concat();
    let end = first.len() + 13 + 21 + 6 + edge + copy.len();
    assert_eq!(end % 512, 0);
    super::tears::lose(&mut bytes, first.len(), |sector| sector == end / 512 + 1);
    assert_eq!(folder.torn(&bytes).at, first.len() as u64);
    super::tears::lose(&mut bytes, first.len(), |sector| sector == end / 512);
    let found = folder.damage(&bytes);
    assert!(found.what.contains("sequence number 8, follows"), "{found}");

    // Copies of older batches do not matter: their numbers are past.
    let old: Vec<u8> = (1..5).flat_map(|seqno| batch(seqno, &[(b"k", b"v")])).collect();
    let whole =
        [first.clone(), batch(6, &[(b"old", &[noise(3, 700), old, noise(4, 700)].concat())])];
    let mut bytes = whole.concat();
    super::tears::lose(&mut bytes, first.len(), |sector| sector == 1);
    assert_eq!(folder.torn(&bytes).at, first.len() as u64);
}

/// Lengths that the file cannot have: no memory is taken for them, and a whole file is no tear.
#[test]
fn lengths_that_are_a_lie() {
    let folder = Folder::new();
    let first = batch(5, &[(b"first", b"1")]);
    let mut lie = batch(6, &[(b"large", &noise(1, 2000))]);
    lie[13 + 13..13 + 21].fill(0xff);
    let found = folder.damage(&[first.clone(), lie.clone()].concat());
    assert_eq!(found.offset, Some(first.len() as u64 + 13));
    // Without its end, it is what a write of four gigabytes leaves.
    lie.truncate(1500);
    assert_eq!(folder.torn(&[first.clone(), lie].concat()).at, first.len() as u64);
}

/// A value full of starts of batches that lead nowhere: the search ends, and in reason.
#[test]
fn a_value_full_of_starts() {
    let folder = Folder::new();
    let first = batch(5, &[(b"first", b"1")]);
    let fake = batch(7, &[(b"k", &noise(1, 100))]);
    let value: Vec<u8> = fake[..40].iter().copied().cycle().take(4 << 20).collect();
    let mut bytes = [first.clone(), batch(6, &[(b"fakes", &value)])].concat();
    bytes.truncate(bytes.len() - 2);
    folder.write(&bytes);
    match folder.examine() {
        Ok(report) => assert_eq!(report.torn.unwrap().at, first.len() as u64),
        Err(error) => assert!(error.to_string().contains("too much like batches"), "{error}"),
    }
}
