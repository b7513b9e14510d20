//! Rows that the encoder never writes, made by hand: each is refused, with where and why. Random
//! ones are in `fuzz.rs`.

use super::*;
use crate::binary::number::tag;
use crate::names::NameError;

/// Reads one event at sequence 0 and time 0 whose fields are `fields`.
fn read(tag: u8, fields: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let row = [&[VERSION, 0, 1, tag, 0], fields].concat();
    decode(&root(), row.into())
}

/// Reads one event, and says at which byte of its fields what is wrong.
fn malformed(tag: u8, fields: &[u8]) -> (usize, &'static str) {
    match read(tag, fields) {
        Err(DecodeError::Malformed { offset, what }) => (offset - 5, what),
        other => panic!("expected a refusal: {other:?}"),
    }
}

fn decoded(row: &[u8]) -> Result<Vec<Record>, DecodeError> {
    decode(&root(), Bytes::copy_from_slice(row))
}

/// Rows of other versions are refused before anything else is looked at.
#[test]
fn versions() {
    for found in [0, 2, 255] {
        let error = decoded(&[found, 0xff, 0xff]).unwrap_err();
        assert_eq!(error, DecodeError::UnknownVersion { found, known: 1 });
    }
    assert_eq!(
        decoded(&[2]).unwrap_err().to_string(),
        "the row has format version 2, but this build reads version 1: a newer Indelible wrote \
         it, or it is not a journal"
    );
    assert_eq!(decoded(&[]), Err(DecodeError::Truncated { offset: 0 }));
}

/// A header that promises too little, or more than there can be.
#[test]
fn headers() {
    let what = "a batch has an event";
    assert_eq!(decoded(&[1, 0, 0]), Err(DecodeError::Malformed { offset: 1, what }));
    // So many events in so few bytes; nothing is reserved for them.
    let all = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let row = [&[1, 0][..], &all, &[tag::EXECUTION_RESUMED, 0]].concat();
    assert_eq!(decoded(&row), Err(DecodeError::Truncated { offset: 2 }));
    // Two events where there is one more number.
    let what = "the last sequence is not 64 bits";
    let row = [&[1][..], &all, &[2, tag::EXECUTION_RESUMED, 0, tag::EXECUTION_RESUMED, 0]].concat();
    assert_eq!(decoded(&row), Err(DecodeError::Malformed { offset: 1, what }));
    let row = [&[1][..], &all, &[1, tag::EXECUTION_RESUMED, 0]].concat();
    assert_eq!(decoded(&row).unwrap()[0].sequence, Sequence::new(u64::MAX));
    let what = "a number is longer than it needs to be";
    assert_eq!(decoded(&[1, 0x80, 0, 1, 17, 0]), Err(DecodeError::Malformed { offset: 1, what }));
    let row = [1, 0, 1, tag::EXECUTION_RESUMED, 0, 9, 9];
    assert_eq!(decoded(&row), Err(DecodeError::TrailingBytes { offset: 5, count: 2 }));
}

/// Numbers that stand for nothing, everywhere that a number stands for something.
#[test]
fn unknown_numbers() {
    for unknown in [0, 21, 255] {
        let error = DecodeError::Malformed { offset: 3, what: "an unknown event" };
        assert_eq!(read(unknown, &[]), Err(error));
    }
    assert_eq!(malformed(tag::INVOKE_SCHEDULED, &[0, 2]), (1, "an unknown kind of call"));
    assert_eq!(malformed(tag::INVOKE_COMPLETED, &[0, 1, 2]), (2, "an unknown outcome"));
    assert_eq!(malformed(tag::INVOKE_COMPLETED, &[0, 1, 1, 9]), (3, "an unknown kind of failure"));
    assert_eq!(malformed(tag::INVOKE_RETRYING, &[0, 1, 5]), (2, "an unknown cause of a retry"));
    assert_eq!(malformed(tag::EXECUTION_AWAITING, &[5]), (0, "an unknown kind of await"));
    let detail = "a failure has a detail (1) or has none (0)";
    assert_eq!(malformed(tag::EXECUTION_FAILED, &[0, 0, 2]), (2, detail));
}

/// Numbers that a type does not have.
#[test]
fn out_of_range() {
    let wide = [0x80, 0x80, 0x80, 0x80, 0x10];
    assert_eq!(malformed(tag::TIMER_FIRED, &wide), (0, "a number is not 32 bits"));
    assert_eq!(malformed(tag::INVOKE_STARTED, &[0, 0]), (1, "attempts count from 1"));
    assert_eq!(malformed(tag::SIGNAL_DELIVERED, &[0]), (0, "deliveries count from 1"));
    let mut late = Vec::new();
    varint::write(&mut late, Timestamp::MAX.as_micros() + 1);
    let retrying = [&[0, 1, 0][..], &late].concat();
    assert_eq!(malformed(tag::INVOKE_RETRYING, &retrying), (3, "a time is past the year 9999"));
    let row = [&[1, 0, 1, tag::EXECUTION_RESUMED][..], &late].concat();
    let what = "a time is past the year 9999";
    assert_eq!(decoded(&row), Err(DecodeError::Malformed { offset: 4, what }));
}

/// Texts that are none, and names that are no names.
#[test]
fn texts() {
    assert_eq!(malformed(tag::CANCEL_REQUESTED, &[1, 0xff]), (0, "a text is not UTF-8"));
    let named = |name: &[u8]| {
        let length = u8::try_from(name.len()).unwrap();
        read(tag::SIGNAL_DELIVERED, &[&[1, length][..], name, &[0, 0]].concat())
    };
    assert!(named(b"go").is_ok());
    let refused = |source| Err(DecodeError::Name { offset: 6, source });
    assert_eq!(named(b""), refused(NameError::Blank));
    assert_eq!(named(b" "), refused(NameError::Blank));
    assert_eq!(named(b"a\nb"), refused(NameError::Control(1)));
    // A length of all the memory there is.
    let row = [&[0][..], &[0xff; 9], &[1]].concat();
    assert_eq!(read(tag::EXECUTION_COMPLETED, &row), Err(DecodeError::Truncated { offset: 6 }));
}

/// C-38: a policy has one encoding.
#[test]
fn policies() {
    // Child 0, a function named `f`, the policy, an empty payload.
    let policy = |bytes: &[u8]| [&[0, 0, 1, b'f'][..], bytes, &[0, 0]].concat();
    assert!(read(tag::INVOKE_SCHEDULED, &policy(&[0, 3])).is_ok());
    let what = |bytes: &[u8]| malformed(tag::INVOKE_SCHEDULED, &policy(bytes));
    assert_eq!(what(&[0x80, 0]), (5, "a second flag byte without flags"));
    for reserved in [0x10, 0x20, 0x40, 0x80] {
        assert_eq!(what(&[0x80, 1 | reserved]), (5, "a reserved policy flag is set"));
    }
    let usual = [0x10, 3, 0xc0, 0x84, 0x3d, 0x80, 0x8e, 0xce, 0x1c];
    assert_eq!(what(&usual), (6, "the usual backoff is left out"));
    assert_eq!(what(&[0x80, 2, 3, 0]), (7, "an empty list of statuses is left out"));
    assert_eq!(what(&[0x80, 2, 3, 2, 9, 9]), (7, "statuses are not ascending"));
    assert_eq!(what(&[0x80, 2, 3, 2, 9, 8]), (7, "statuses are not ascending"));
    assert_eq!(what(&[0x80, 2, 3, 1, 0x80, 0x80, 4]), (7, "a status is not 16 bits"));
    assert!(read(tag::INVOKE_SCHEDULED, &policy(&[0x80, 8, 3, 0])).is_ok());
    assert!(read(tag::INVOKE_SCHEDULED, &policy(&[0x80, 8, 3, 1, 9])).is_ok());
    assert_eq!(what(&[0x80, 8, 3, 2, 9, 9]), (7, "statuses are not ascending"));
}

/// C-32: a start says only what its execution's id does not.
#[test]
fn starts() {
    for reserved in [0x10, 0x20, 0x40, 0x80] {
        let what = "a reserved flag of ExecutionStarted is set";
        assert_eq!(malformed(tag::EXECUTION_STARTED, &[reserved]), (0, what));
    }
    let child = ExecutionId::new(root().child(0)).unwrap();
    let what = "a child's parent is left out";
    assert_eq!(
        decode(&child, Bytes::from_static(&[1, 0, 1, tag::EXECUTION_STARTED, 0, 1])),
        Err(DecodeError::Malformed { offset: 5, what })
    );
    // A starter as deep as no execution is: digest, name, attempt, limits, hash, 64 segments.
    let starter = [&[1][..], &[0; 32], &[1, b'f', 1, 0, 0, 0], &[0; 32], &[64], &[0; 66]].concat();
    let at = 1 + 32 + 6 + 32;
    assert_eq!(
        malformed(tag::EXECUTION_STARTED, &starter),
        (at, "a parent is deeper than calls nest")
    );
}

/// J-90: runs that overflow, and runs that stand for more than a batch may hold, over one set or
/// over many.
#[test]
fn wait_sets() {
    let set = |runs: &[(u64, u64)]| {
        let mut bytes = vec![1];
        varint::write(&mut bytes, runs.len() as u64 + 1);
        for (gap, more) in runs {
            varint::write(&mut bytes, *gap);
            varint::write(&mut bytes, *more);
        }
        bytes
    };
    let what = |runs: &[(u64, u64)]| malformed(tag::EXECUTION_AWAITING, &set(runs));
    let (last, most) = (u64::from(u32::MAX), WAIT_MEMBERS_MAX as u64);
    let wide = "a member of a wait set is not 32 bits";
    assert!(read(tag::EXECUTION_AWAITING, &set(&[(last, 0)])).is_ok());
    assert_eq!(what(&[(last, 1)]), (2, wide));
    assert_eq!(what(&[(last + 1, 0)]), (2, wide));
    assert_eq!(what(&[(0, u64::MAX)]), (2, wide));
    assert_eq!(what(&[(u64::MAX, 0)]), (2, wide));
    assert_eq!(what(&[(0, 0), (u64::MAX, 0)]), (4, wide));
    assert_eq!(what(&[(last, 0), (0, 0)]).1, wide);

    let large = "the wait sets of a batch are too large";
    assert!(read(tag::EXECUTION_AWAITING, &set(&[(0, most - 1)])).is_ok());
    assert_eq!(what(&[(0, most)]), (2, large));
    assert_eq!(what(&[(0, last)]), (2, large));
    assert_eq!(what(&[(0, most - 1), (0, 0)]).1, large);

    let event = [&[tag::EXECUTION_AWAITING, 0][..], &set(&[(0, most / 2)])].concat();
    let row = [&[1, 0, 2][..], &event, &event].concat();
    assert!(matches!(decoded(&row), Err(DecodeError::Malformed { what, .. }) if what == large));
    // More runs than there are bytes for.
    assert_eq!(
        read(tag::EXECUTION_AWAITING, &[1, 3, 0, 0]),
        Err(DecodeError::Truncated { offset: 6 })
    );
    // The rest of a join set is its number.
    assert!(read(tag::EXECUTION_AWAITING, &[1, 0, 7]).is_ok());
    assert_eq!(read(tag::EXECUTION_AWAITING, &[1, 0]), Err(DecodeError::Truncated { offset: 7 }));
}
