//! Tests of the log: what was logged is found, whatever happens to the files meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use indelible_api::log::Level;
use indelible_journal::{Attempts, Micros, PromiseId, RootHash, Timestamp};
use indelible_runtime::world;

use super::*;

/// Counts microseconds by itself, and further when it is told.
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1, Ordering::Relaxed)).unwrap()
    }

    fn elapsed(&self) -> Micros {
        Micros::new(self.0.load(Ordering::Relaxed))
    }
}

/// Remembers what it is told.
#[derive(Default)]
struct Told {
    lines: Mutex<Vec<String>>,
    trouble: Mutex<Vec<String>>,
}

impl Observer for Told {
    fn logged(&self, line: LogLine<'_>) {
        self.lines.lock().unwrap().push(line.message.to_owned());
    }

    fn trouble(&self, trouble: &Trouble<'_>) {
        self.trouble.lock().unwrap().push(trouble.to_string());
    }
}

struct House {
    folder: tempfile::TempDir,
    clock: Arc<Ticks>,
    told: Arc<Told>,
    options: Options,
}

impl House {
    fn new(segment_bytes: u64, segments_max: usize) -> Self {
        let options = Options {
            log_segment_bytes: segment_bytes,
            log_segments_max: segments_max,
            ..Options::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Ticks(AtomicU64::new(1_000_000)));
        Self { folder, clock, told: Arc::default(), options }
    }

    fn logs(&self) -> std::path::PathBuf {
        self.folder.path().join("logs")
    }

    fn open(&self) -> LogFile {
        let (clock, told) = (self.clock.clone(), self.told.clone());
        LogFile::new(self.logs(), &self.options, clock, told)
    }
}

fn key(root: u8, path: &[u32]) -> JournalKey {
    let promise = PromiseId::new(RootHash::from_bytes([root; 32]), path).unwrap();
    let attempts: Attempts = vec!["1"; path.len() + 1].join(".").parse().unwrap();
    JournalKey::new(ExecutionId::new(promise).unwrap(), attempts).unwrap()
}

fn log(logs: &LogFile, key: &JournalKey, message: &str) {
    let fields = [("order".to_owned(), "7".to_owned())];
    logs.logged(LogLine { key, level: world::Level::Info, message, fields: &fields });
}

fn place(text: &str) -> LogPosition {
    text.parse::<LogPosition>().unwrap()
}

/// Everything of an execution, in pages of so many, and where that ends.
fn all(
    logs: &LogFile,
    key: &JournalKey,
    from: Option<LogPosition>,
    limit: usize,
) -> (Vec<String>, LogPosition) {
    let (mut messages, mut from) = (Vec::new(), from);
    for _ in 0..10_000 {
        let page = logs.read(key.execution_id(), from, limit).unwrap();
        assert!(page.lines.len() <= limit);
        messages.extend(page.lines.into_iter().map(|line| line.message));
        from = Some(place(&page.next));
        if !page.more {
            return (messages, place(&page.next));
        }
    }
    panic!("it comes to no end")
}

fn files(folder: &Path) -> Vec<u64> {
    segments::list(folder).unwrap()
}

/// Lines come back with everything that belongs to them, those of the execution and of what it
/// called and no others, in pages of any size; and what is logged later comes behind `next`.
#[test]
fn lines_are_found_and_followed() {
    let house = House::new(1 << 20, 4);
    let logs = house.open();
    let (root, child, grandchild) = (key(1, &[]), key(1, &[3]), key(1, &[3, 0]));
    let (sibling, other) = (key(1, &[30]), key(2, &[3]));
    assert_eq!(all(&logs, &root, None, 10), (vec![], place("1_0")));
    assert!(!house.logs().exists(), "nothing is made before the first line");
    for (number, key) in [&root, &child, &other, &grandchild, &sibling].iter().enumerate() {
        log(&logs, key, &format!("line {number}"));
    }
    for limit in [1, 2, 3, 100] {
        let expected = ["line 0", "line 1", "line 3", "line 4"].map(str::to_owned).to_vec();
        assert_eq!(all(&logs, &root, None, limit).0, expected);
        assert_eq!(all(&logs, &child, None, limit).0, ["line 1", "line 3"]);
        assert_eq!(all(&logs, &grandchild, None, limit).0, ["line 3"]);
        assert_eq!(all(&logs, &other, None, limit).0, ["line 2"]);
        assert_eq!(all(&logs, &key(3, &[]), None, limit).0, Vec::<String>::new());
    }
    let page = logs.read(child.execution_id(), None, 1).unwrap();
    let line = &page.lines[0];
    assert_eq!(
        (line.execution_id.as_str(), line.attempts.as_str()),
        (&*child.execution_id().to_string(), "1.1")
    );
    assert_eq!((line.level, line.at.as_str()), (Level::Info, "1970-01-01T00:00:01.000001Z"));
    assert_eq!(line.fields, BTreeMap::from([("order".to_owned(), "7".to_owned())]));
    // Followed: nothing twice, nothing left out.
    let (_, end) = all(&logs, &root, None, 100);
    assert_eq!(all(&logs, &root, Some(end), 100), (vec![], end));
    log(&logs, &other, "not mine");
    log(&logs, &child, "later");
    assert_eq!(all(&logs, &root, Some(end), 100).0, ["later"]);
    // The inner observer is still told.
    assert_eq!(house.told.lines.lock().unwrap().len(), 7);
    assert_eq!((logs.written(), logs.dropped()), (7, 0));
    // Another process finds them.
    drop(logs);
    let logs = house.open();
    log(&logs, &root, "another process");
    assert_eq!(all(&logs, &root, Some(end), 100).0, ["later", "another process"]);
}

/// Files grow to their bound, their number is bounded, the oldest is deleted, and a reader of a
/// deleted file continues with the next.
#[test]
fn the_oldest_go() {
    let house = House::new(2_000, 3);
    let logs = house.open();
    let root = key(1, &[]);
    log(&logs, &root, "0");
    let (_, early) = all(&logs, &root, None, 10);
    for number in 1..100 {
        log(&logs, &root, &number.to_string());
    }
    let numbers = files(&house.logs());
    assert_eq!(numbers.len(), 3);
    assert!(numbers[0] > 1);
    for number in &numbers {
        let bytes = fs::metadata(segments::path(&house.logs(), *number)).unwrap().len();
        assert!(bytes <= 2_000, "{bytes}");
    }
    let (left, end) = all(&logs, &root, None, 7);
    let first: usize = left[0].parse().unwrap();
    assert!(first > 1);
    assert_eq!(left, (first..100).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(all(&logs, &root, Some(early), 7), (left, end));
    // A line that is larger than a file has one to itself.
    let large = "x".repeat(5_000);
    log(&logs, &root, &large);
    log(&logs, &root, "behind it");
    assert_eq!(all(&logs, &root, Some(end), 7).0, [large, "behind it".to_owned()]);
    assert_eq!(files(&house.logs()).len(), 3);
}

/// A torn line is skipped, wherever it was cut, and the next process appends after it.
#[test]
fn a_torn_line_is_passed_over() {
    let house = House::new(1 << 20, 4);
    let root = key(1, &[]);
    let logs = house.open();
    log(&logs, &root, "whole");
    let path = segments::path(&house.logs(), 1);
    let whole = fs::read(&path).unwrap();
    log(&logs, &root, "torn");
    let both = fs::read(&path).unwrap();
    drop(logs);
    for cut in whole.len()..both.len() {
        fs::write(&path, &both[..cut]).unwrap();
        let logs = house.open();
        let (before, place) = all(&logs, &root, None, 10);
        assert_eq!(before, ["whole"], "{cut}");
        log(&logs, &root, "next");
        let expected: &[_] = if cut + 1 == both.len() { &["torn", "next"] } else { &["next"] };
        assert_eq!(all(&logs, &root, Some(place), 10).0, expected, "{cut}");
    }
    // Zeros that a power cut left instead of the end.
    let mut zeros = whole.clone();
    zeros.resize(whole.len() + 700_000, 0);
    fs::write(&path, zeros).unwrap();
    let logs = house.open();
    log(&logs, &root, "next");
    assert_eq!(all(&logs, &root, None, 10).0, ["whole", "next"]);
    // A file that was torn and is not the newest.
    fs::write(&path, &both[..both.len() - 5]).unwrap();
    fs::write(segments::path(&house.logs(), 2), &whole).unwrap();
    assert_eq!(all(&logs, &root, None, 10).0, ["whole", "whole"]);
}

/// Bits that were flipped lose the lines that they are in, and no others; nothing else is shown.
#[test]
fn damage_is_passed_over() {
    let house = House::new(1 << 20, 4);
    let (root, other) = (key(1, &[]), key(2, &[]));
    let logs = house.open();
    for number in 0..20 {
        log(&logs, if number % 2 == 0 { &root } else { &other }, &number.to_string());
    }
    let path = segments::path(&house.logs(), 1);
    let good = fs::read(&path).unwrap();
    let expected: Vec<_> = (0..10).map(|number| (2 * number).to_string()).collect();
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, bytes).unwrap();
        let (found, _) = all(&logs, &root, None, 3);
        // A line feed that is gone takes two lines with it; a digit of a message is not sealed.
        let kept = expected.iter().filter(|line| found.contains(line)).count();
        assert!(kept >= 8 && found.len() <= 10, "{at}: {found:?}");
    }
}

/// A forged position shows nothing that a real one would not.
#[test]
fn places_that_were_made_up() {
    let house = House::new(1 << 20, 4);
    let (root, other) = (key(1, &[]), key(2, &[]));
    let logs = house.open();
    // A message that looks like a line of another tree.
    let mut fake = Vec::new();
    let line = LogLine { key: &root, level: world::Level::Info, message: "fake", fields: &[] };
    line::write(&mut fake, Timestamp::EPOCH, &line, 4_096);
    let fake = String::from_utf8(fake).unwrap();
    log(&logs, &other, &format!("a\n{fake}"));
    log(&logs, &root, "real");
    let bytes = fs::metadata(segments::path(&house.logs(), 1)).unwrap().len();
    for offset in 0..bytes + 10 {
        let (found, end) = all(&logs, &root, Some(LogPosition { segment: 1, offset }), 10);
        assert!(found.is_empty() || found == ["real"], "{offset}: {found:?}");
        assert_eq!(end.to_string(), format!("1_{bytes}"));
    }
    for far in ["0_0", "0_99999", "2_0", "99_7", "18446744073709551615_18446744073709551615"] {
        let (found, end) = all(&logs, &root, Some(place(far)), 10);
        assert_eq!(end.to_string(), format!("1_{bytes}"), "{far}");
        assert_eq!(found.len(), usize::from(far.starts_with('0')), "{far}");
    }
}

/// One page looks at a bounded part of the files, and says that there may be more.
#[test]
fn a_page_is_bounded() {
    let house = House::new(8 << 20, 8);
    let (root, other) = (key(1, &[]), key(2, &[]));
    let logs = house.open();
    let long = "x".repeat(16_000);
    log(&logs, &root, "first");
    for _ in 0..1_100 {
        log(&logs, &other, &long);
    }
    log(&logs, &root, "last");
    assert!(files(&house.logs()).len() > 2);
    let first = logs.read(root.execution_id(), None, 10).unwrap();
    assert_eq!((first.lines.len(), first.more), (1, true));
    assert_eq!(all(&logs, &root, None, 10).0, ["first", "last"]);
    // Many large lines are several pages.
    let page = logs.read(other.execution_id(), None, 500).unwrap();
    assert!(page.more && page.lines.len() < 100, "{}", page.lines.len());
    assert_eq!(all(&logs, &other, None, 500).0.len(), 1_100);
}

/// With a full disk or an impossible folder, lines are dropped and counted, and that is reported
/// once. When there is room again, lines are kept again.
#[test]
fn a_full_disk_stops_nothing() {
    let house = House::new(1 << 20, 4);
    let root = key(1, &[]);
    // The device that is always full.
    fs::create_dir(house.logs()).unwrap();
    let path = segments::path(&house.logs(), 1);
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let logs = house.open();
    for number in 0..50 {
        log(&logs, &root, &number.to_string());
        house.clock.0.fetch_add(100_000, Ordering::Relaxed);
    }
    assert_eq!((logs.written(), logs.dropped()), (0, 50));
    assert_eq!(house.told.lines.lock().unwrap().len(), 50);
    let told = house.told.trouble.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("cannot be written") && told[0].contains("No space left"), "{told:?}");
    fs::remove_file(&path).unwrap();
    house.clock.0.fetch_add(2_000_000, Ordering::Relaxed);
    log(&logs, &root, "again");
    assert_eq!(all(&logs, &root, None, 10).0, ["again"]);
    assert_eq!((logs.written(), logs.dropped()), (1, 50));
    let told = house.told.trouble.lock().unwrap().clone();
    assert!(told.len() == 2 && told[1].ends_with("dropped=50"), "{told:?}");

    let house = House::new(1 << 20, 4);
    fs::write(house.logs(), "not a folder").unwrap();
    let logs = house.open();
    log(&logs, &root, "nowhere");
    log(&logs, &root, "nowhere");
    assert_eq!((logs.dropped(), house.told.trouble.lock().unwrap().len()), (2, 1));
    assert_eq!(fs::read(house.logs()).unwrap(), b"not a folder");
}

/// Many write while others read: a reader that follows gets every line once, in the order of the
/// file.
#[test]
fn readers_and_writers_at_once() {
    const LINES: usize = 500;
    let house = House::new(100_000, 100);
    let logs = house.open();
    let root = key(1, &[]);
    std::thread::scope(|scope| {
        let writers = [0, 1, 2, 3].map(|writer| {
            let (logs, key) = (&logs, key(1, &[writer]));
            scope.spawn(move || {
                for number in 0..LINES {
                    log(logs, &key, &format!("{writer} {number}"));
                }
            })
        });
        let (mut seen, mut from) = (Vec::new(), None);
        loop {
            // Checked before the read, so that the read sees every line that was written.
            let done = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
            let page = logs.read(root.execution_id(), from, 50).unwrap();
            if done && page.lines.is_empty() && !page.more {
                break;
            }
            seen.extend(page.lines.into_iter().map(|line| line.message));
            assert!(seen.len() <= 4 * LINES, "a line is there twice");
            from = Some(place(&page.next));
        }
        for writer in 0..4 {
            let own: Vec<_> =
                seen.iter().filter_map(|line| line.strip_prefix(&format!("{writer} "))).collect();
            assert_eq!(own, (0..LINES).map(|number| number.to_string()).collect::<Vec<_>>());
        }
    });
    assert_eq!(house.told.trouble.lock().unwrap().as_slice(), [] as [String; 0]);
}

/// D12: what the first version wrote is written the same, and still reads.
#[test]
fn the_first_version_still_reads() {
    const FIXTURE: &str = include_str!("../../tests/fixtures/logs-v1.jsonl");
    let root = key(0xab, &[]);
    let mut written = Vec::new();
    let fields = [("order", "A-7"), ("note", "tab\tand \"quotes\"")];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let lines = [
        (root.clone(), world::Level::Info, "charged 1250", &fields[..]),
        (key(0xab, &[0, 2]), world::Level::Warn, "\u{1b}[31mred\u{1b}[0m\nand é", &[]),
        (key(0xcd, &[]), world::Level::Error, "somebody else's", &[]),
        (root.clone(), world::Level::Debug, &"long ".repeat(400), &[]),
    ];
    for (number, (key, level, message, fields)) in lines.iter().enumerate() {
        let line = LogLine { key, level: *level, message, fields };
        let at = Timestamp::from_micros(1_794_880_000_000_000 + number as u64).unwrap();
        line::write(&mut written, at, &line, line::LINE_BYTES_MIN);
    }
    assert_eq!(String::from_utf8(written).unwrap(), FIXTURE);
    let house = House::new(1 << 20, 4);
    fs::create_dir(house.logs()).unwrap();
    // A newer line, and what is none, are passed over.
    let text = format!("{{\"v\":2,\"new\":true}}\n{FIXTURE}nonsense\n");
    fs::write(segments::path(&house.logs(), 1), text).unwrap();
    let page = house.open().read(root.execution_id(), None, 10).unwrap();
    let messages: Vec<_> = page.lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[..2], ["charged 1250", "\u{1b}[31mred\u{1b}[0m\nand é"]);
    assert!(messages[2].ends_with('…'), "{}", messages[2]);
    assert_eq!(page.lines[0].fields["note"], "tab\tand \"quotes\"");
    assert!(page.lines[2].cut && !page.lines[0].cut);
}
