//! Broken lines: whatever is done to a valid one, reading it never panics, and what still reads
//! is exported to a line that reads as the same.

use indelible_journal::json;
use indelible_test_support::Prng;

const FIXTURE: &str = include_str!("../fixtures/journal-v2.jsonl");
const MUTATIONS: u32 = 200_000;

/// Pieces that matter to JSON, to numbers, or to this format.
const PIECES: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[[[[[",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\n",
    b",",
    b":",
    b"0",
    b"9",
    b"-",
    b".",
    b"1e999",
    b"99999999999999999999",
    b"null",
    b" ",
    b"\n",
    b"\r",
    b"\xef\xbb\xbf",
    b"\"v\":2,",
];

fn mutate(line: &mut Vec<u8>, other: &[u8], random: &mut Prng) {
    let at = random.index(line.len() + 1);
    match random.index(7) {
        0 if at < line.len() => line[at] ^= 1 << random.index(8),
        1 => {
            let end = (at + 1 + random.index(12)).min(line.len());
            line.drain(at.min(end)..end);
        }
        2 => line.truncate(at),
        3 => {
            let from = random.index(other.len());
            let to = (from + random.index(80)).min(other.len());
            line.splice(at..at, other[from..to].iter().copied());
        }
        4 => {
            // The tails of two lines swapped: often still valid JSON.
            let from = random.index(other.len());
            line.truncate(at);
            line.extend_from_slice(&other[from..]);
        }
        5 if at < line.len() => {
            // Digits stay digits: still JSON, but another number, id or time.
            match line[at..].iter().position(u8::is_ascii_digit) {
                Some(digit) => line[at + digit] = b"0123456789"[random.index(10)],
                None => line[at] = b'0',
            }
        }
        _ => {
            let piece = PIECES[random.index(PIECES.len())];
            line.splice(at..at, piece.iter().copied());
        }
    }
}

#[test]
fn mutated_lines_never_panic_and_what_reads_is_stable() {
    let lines: Vec<&[u8]> = FIXTURE.lines().map(str::as_bytes).collect();
    let mut random = Prng::new(0x1de1_1b1e);
    let (mut read, mut refused) = (0_u32, 0_u32);
    for _ in 0..MUTATIONS {
        let mut line = lines[random.index(lines.len())].to_vec();
        for _ in 0..=random.index(3) {
            mutate(&mut line, lines[random.index(lines.len())], &mut random);
        }
        let line = String::from_utf8_lossy(&line);
        match json::parse_line(&line) {
            Ok((key, record)) => {
                read += 1;
                let mut out = Vec::new();
                json::write_line(&key, &record, &mut out);
                let again = json::parse_line(std::str::from_utf8(&out).unwrap());
                assert_eq!(again, Ok((key, record)), "{line}");
            }
            Err(error) => {
                refused += 1;
                assert!((1..=line.len() + 1).contains(&error.column), "{error} in {line}");
                assert!(!error.message.is_empty());
            }
        }
    }
    // Neither side is idle, or the test would prove nothing.
    assert!(read > 1_000 && refused > 10_000, "{read} read, {refused} refused");
}
