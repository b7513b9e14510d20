//! Writes that power loss cut short: each must be found, and nothing else cut with it.

use super::*;

const SECTOR: usize = 512;

/// Zeroes the sectors that are lost, as far as they lie after `from`.
pub(super) fn lose(bytes: &mut [u8], from: usize, mut lost: impl FnMut(usize) -> bool) {
    let len = bytes.len();
    for sector in from / SECTOR..=(len - 1) / SECTOR {
        if lost(sector) {
            bytes[(sector * SECTOR).max(from)..((sector + 1) * SECTOR).min(len)].fill(0);
        }
    }
}

/// A first batch that ends `past` bytes after the edge of a sector.
fn first(past: usize) -> Vec<u8> {
    let overhead = batch(5, &[(b"first", b"")]).len();
    let len = (2 * SECTOR + past - overhead % SECTOR) % SECTOR + SECTOR;
    let first = batch(5, &[(b"first", &noise(1, len))]);
    assert_eq!(first.len() % SECTOR, past);
    first
}

/// A batch of several items, over several sectors.
fn last() -> Vec<u8> {
    let (a, b, c) = (noise(2, 300), noise(3, 2000), noise(4, 40));
    batch(7, &[(b"key a", &a), (b"key b", &b), (b"c", &c), (b"d", b""), (b"e", &c)])
}

/// A file that is shorter, or a prefix with zeros after it: at every byte of the last batch.
#[test]
fn a_prefix() {
    let folder = Folder::new();
    let first = first(77);
    let whole = [first.clone(), last()].concat();
    folder.write(&whole);
    assert_eq!(batches(&folder.examine().unwrap()), 2);
    folder.write(&whole[..first.len()]);
    assert_eq!(folder.examine().unwrap().torn, None);
    for len in first.len() + 1..whole.len() {
        for zeros in [0, 1, 5, 3 * SECTOR] {
            let mut bytes = whole[..len].to_vec();
            bytes.resize(len + zeros, 0);
            let torn = folder.torn(&bytes);
            assert_eq!(torn.at, first.len() as u64, "{len} bytes, {zeros} zeros");
            // A batch has zeros in it, too, that are not data when they come last.
            let data = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            assert_eq!(torn.bytes, (data - first.len()) as u64);
        }
    }
}

/// Each sector of the last batch alone, wherever in a sector the batch starts.
#[test]
fn one_sector() {
    let folder = Folder::new();
    for past in (0..SECTOR - 1).step_by(5).chain(SECTOR - 16..SECTOR - 1) {
        let first = first(past);
        let whole = [first.clone(), last()].concat();
        for sector in first.len() / SECTOR..=(whole.len() - 1) / SECTOR {
            let mut bytes = whole.clone();
            lose(&mut bytes, first.len(), |lost| lost == sector);
            let torn = folder.torn(&bytes);
            assert_eq!(torn.at, first.len() as u64, "{past} bytes past the edge, sector {sector}");
            bytes.resize(bytes.len() + 2 * SECTOR, 0);
            assert_eq!(folder.torn(&bytes), torn);
        }
    }
}

/// Many sectors at once. All of them gone is no torn write but none.
#[test]
fn some_sectors() {
    let folder = Folder::new();
    let mut random = Prng::new(3);
    for round in 0..2000 {
        let first = first(random.index(SECTOR - 1));
        let mut bytes = [first.clone(), last()].concat();
        let whole = bytes.clone();
        lose(&mut bytes, first.len(), |_| random.one_in(2));
        folder.write(&bytes);
        let report = folder.examine().unwrap();
        let none = bytes[first.len()..].iter().all(|byte| *byte == 0);
        match &report.torn {
            Some(torn) => assert_eq!(torn.at, first.len() as u64, "round {round}"),
            None => assert!(none || bytes == whole, "round {round}"),
        }
        assert_eq!(batches(&report), if bytes == whole { 2 } else { 1 });
    }
}

/// fjall writes a large batch in several writes, and the disk may have the sector where two of them
/// meet as it was between them, whatever else arrived.
#[test]
fn between_two_writes() {
    let folder = Folder::new();
    let mut met = 0;
    for past in (0..SECTOR).step_by(7) {
        let first = first(past);
        let starts = [13, 13 + 21 + 5 + 300, 13 + 2 * (21 + 5) + 2300];
        let end = last().len() - 13;
        for start in starts.into_iter().chain([end]).map(|start| first.len() + start) {
            let mut bytes = [first.clone(), last()].concat();
            let edge = start.next_multiple_of(SECTOR).min(bytes.len());
            // If only a tag is lost, it looks like one changed bit.
            if bytes[start + 1..edge.max(start + 1)].iter().all(|byte| *byte == 0) {
                continue;
            }
            met += 1;
            bytes[start..edge].fill(0);
            let torn = folder.torn(&bytes);
            assert_eq!(torn.at, first.len() as u64, "{past} bytes past the edge, from {start}");
            // The next batch was written when this one was whole.
            bytes.extend(batch(8, &[(b"next", b"1")]));
            folder.damage(&bytes);
        }
    }
    assert!(met > 200, "{met}");
}

/// The length of a key that leads into zeros, which go on to the edge of a sector, is damage.
#[test]
fn a_key_that_leads_into_zeros() {
    let folder = Folder::new();
    let value = [noise(6, 20), vec![0; 450], noise(7, 20)].concat();
    for past in (0..SECTOR).step_by(16) {
        let first = first(past);
        let whole = [first.clone(), batch(6, &[(b"k", b"v"), (b"l", &value), (b"m", b"")])];
        for bit in 0..9 {
            let mut bytes = whole.concat();
            bytes[first.len() + 13 + 11 + bit / 8] ^= 1 << (bit % 8);
            let found = folder.damage(&bytes);
            assert!(found.offset.is_some(), "{found}");
        }
    }
}

/// A large value with holes.
#[test]
fn a_large_value() {
    let folder = Folder::new();
    let first = first(100);
    let whole = [first.clone(), batch(6, &[(b"large", &noise(5, 5 << 20)), (b"x", b"y")])].concat();
    let mut random = Prng::new(5);
    for round in 0..12_u64 {
        let mut bytes = whole.clone();
        let (page, often) = (1 << (round % 4), 2 << round);
        let mut lost = Vec::new();
        lose(&mut bytes, first.len(), |sector| {
            lost.resize(sector / page + 1, None);
            *lost[sector / page].get_or_insert_with(|| random.one_in(often))
        });
        if bytes == whole {
            continue;
        }
        assert_eq!(folder.torn(&bytes).at, first.len() as u64, "round {round}");
    }
}

/// A batch follows the one with the hole: it was synced, so the hole is damage.
#[test]
fn a_hole_before_another_batch() {
    let folder = Folder::new();
    let before = first(200);
    let broken = [before.clone(), last()].concat();
    for after in [batch(8, &[(b"next", b"1")]), batch(1000, &[(b"next", &noise(9, 3000))])] {
        for sector in before.len() / SECTOR..(broken.len() - 1) / SECTOR {
            let mut bytes = broken.clone();
            lose(&mut bytes, before.len(), |lost| lost == sector);
            bytes.extend(&after);
            folder.damage(&bytes);
            bytes.extend(vec![0; 2 * SECTOR]);
            folder.damage(&bytes);
        }
    }
}

/// The batch that follows is itself followed by damage, so that nothing leads to the end.
#[test]
fn a_hole_before_another_batch_and_more_damage() {
    let folder = Folder::new();
    let before = first(200);
    let mut bytes = [before.clone(), last()].concat();
    lose(&mut bytes, before.len(), |lost| lost == before.len() / SECTOR);
    bytes.extend(batch(8, &[(b"next", &noise(9, 100))]));
    let mut broken = batch(9, &[(b"broken", &noise(9, 100))]);
    broken[60] ^= 1;
    bytes.extend(broken);
    let found = folder.damage(&bytes);
    assert!(found.what.contains("sequence number 8, follows"), "{found}");
}

/// Something follows a batch that is broken and complete. It is too large to try every bit.
#[test]
fn a_hole_before_a_torn_batch() {
    let folder = Folder::new();
    let broken = batch(6, &[(b"zeros", &[0; 16_384]), (b"noise", &noise(8, 100))]);
    let mut bytes = [first(0), broken].concat();
    let at = bytes.len() - 50;
    bytes[at] ^= 1;
    bytes.extend(&last()[..700]);
    let found = folder.damage(&bytes);
    assert!(found.what.contains("more data follows"), "{found}");
}

/// The write before a blank journal may be torn, if it failed; then both go.
#[test]
fn the_last_but_one() {
    for blank in [0, 64 << 20] {
        let folder = Folder::new();
        let bytes = [first(9), last()[..1000].to_vec()].concat();
        let next = folder.path().join("1.jnl");
        fs::write(&next, vec![0; blank]).unwrap();
        let torn = folder.torn(&bytes);
        assert_eq!(torn.at, first(9).len() as u64);
        assert_eq!(torn.blank, std::slice::from_ref(&next));
        cut(&torn).unwrap();
        assert!(!next.exists());
        let report = folder.examine().unwrap();
        assert_eq!((batches(&report), report.torn), (1, None));
        let (_database, rows) = open(folder.path());
        assert_eq!(rows.len().unwrap(), 1);
    }
}

/// One byte of the batch in a sector, which reads as zero: one bit would do that, so it is damage.
#[test]
fn the_first_byte_alone() {
    let folder = Folder::new();
    let first = first(SECTOR - 1);
    let mut bytes = [first.clone(), last()].concat();
    bytes[first.len()] = 0;
    let found = folder.damage(&bytes);
    assert!(found.what.contains("the rest of the batch is whole"), "{found}");
    // With another sector gone, no single bit explains it.
    lose(&mut bytes, first.len() + 1, |sector| sector == first.len() / SECTOR + 3);
    assert_eq!(folder.torn(&bytes).at, first.len() as u64);
}
