//! Exports: what is written is read, and any byte that is different is found in its line.

use std::collections::BTreeMap;

use indelible_ledger::export::{
    LineError, LineFault, Verified, Verifier, end_line, header_line, record_line,
};
use indelible_ledger::proof::{Checkpoint, LtHash};
use indelible_ledger::{
    Actor, Answer, Application, Limits, Operation, Origin, OriginId, Proposal, Record, Request,
    Run, TransactionId, Vault,
};
use indelible_test_support::Prng;

use crate::golden::{every_operation, every_transaction};
use crate::support::{
    Entities, Server, add, at, attempt, batch, check, client, delete, euro, get, incarnation, json,
    key, scope, sequence, set, single, transfer, unit,
};

fn checkpoint(vault: &Vault) -> Checkpoint {
    Checkpoint {
        scope: scope(),
        incarnation: vault.incarnation(),
        height: vault.height(),
        head: vault.head(),
        state_hash: vault.state_hash(),
    }
}

/// A vault, where each of its transactions began, and their records: every origin, every operation.
fn story() -> (Vec<Vault>, Vec<Record>) {
    let mut vault = Vault::new(&scope(), incarnation());
    let mut entities = Entities::default();
    let (mut vaults, mut records) = (vec![vault.clone()], Vec::new());
    let mut apply = |origin: Origin, request: Request| {
        let number = vaults.len() as u64;
        let id = TransactionId::from_bytes(u128::from(number).to_be_bytes());
        let proposal = Proposal { id, origin, request, actor: Actor::new("user:é\"\u{1b}") };
        let now = at(1_700_000_000_000_000 + number);
        let result = vault.apply(proposal, now, &Limits::DEFAULT, &mut entities).unwrap();
        let Application::Applied(applied) = result else { panic!("{result:?}") };
        entities.store(&applied);
        vaults.push(vault.clone());
        records.push(applied.record);
    };
    let key_of = |text: &str| Origin::Key(OriginId::new(text).unwrap());
    for (number, origin) in every_transaction().into_iter().enumerate() {
        apply(origin.origin, single(vec![set(&format!("n{number}"), json("{\"x\": null}"))]));
    }
    for operation in every_operation() {
        // What each operation needs to be applied to: it has a transaction of its own before.
        let before = match &operation {
            Operation::Set {
                condition: Some(indelible_ledger::Condition::Content(content)),
                ..
            } => {
                vec![set("a", content.clone())]
            }
            Operation::Set { condition: Some(_), .. } => vec![get("a")],
            Operation::Check { .. } => vec![set("a", json("1"))],
            Operation::Add { max: Some(_), .. } => vec![set("a", euro(-i128::MAX))],
            Operation::Transfer { .. } => vec![set("a", euro(5)), set("b", euro(0))],
            Operation::Delete { condition: Some(_), .. } => continue,
            _ => vec![set("a", euro(1)), set("b", json("\n[1]\n")), set("c", json("\"plain\""))],
        };
        apply(key_of("before"), single(before));
        apply(key_of("operation"), single(vec![operation]));
    }
    apply(
        Origin::Client { client: client("c"), sequence: sequence(1), attempt: attempt(3) },
        batch(vec![
            vec![add("a", -1), check("a", indelible_ledger::Condition::Present)],
            vec![delete("b")],
        ]),
    );
    (vaults, records)
}

fn lines(start: &Vault, records: &[Record]) -> Vec<String> {
    let header = header_line(&checkpoint(start), start.state());
    let last = records
        .last()
        .map_or((start.height(), start.head()), |record| (record.transaction.height, record.head));
    let mut lines = vec![header];
    lines.extend(records.iter().map(record_line));
    lines.push(end_line(last.0, last.1));
    lines
}

fn verify<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Verified, LineError> {
    let mut verifier = Verifier::new();
    for line in lines {
        verifier.line(line)?;
    }
    verifier.finish()
}

fn verify_bytes(file: &[u8]) -> Result<Verified, LineError> {
    verify(file.split_inclusive(|byte| *byte == b'\n'))
}

/// An export is verified from the beginning and from any height, without values of before.
#[test]
fn what_is_written_is_verified() {
    let (vaults, records) = story();
    let last = vaults.last().unwrap();
    for (at, start) in vaults.iter().enumerate() {
        let lines = lines(start, &records[at..]);
        let verified = verify(lines.iter().map(String::as_bytes)).unwrap();
        assert_eq!(verified.start, checkpoint(start));
        assert_eq!(verified.transactions, (records.len() - at) as u64);
        assert_eq!((verified.height, verified.head), (last.height(), last.head()));
        assert_eq!(verified.state_hash, last.state_hash());
    }
}

/// Any flipped bit of an export is found, in the line where it is. A flipped line break makes two lines
/// one: that one is wrong.
#[test]
fn any_flipped_bit_is_found_in_its_line() {
    let (vaults, records) = story();
    let mut random = Prng::new(24);
    for start in [0, 5] {
        let lines = lines(&vaults[start], &records[start..]);
        let mut verifier = Verifier::new();
        for (at, line) in lines.iter().enumerate() {
            // The lines before it are right, and need not be read again for every bit.
            let rest = lines[at..].concat().into_bytes();
            for byte in 0..line.len() {
                // Every byte; all bits of one now and then, which keeps the time short.
                let bits = if random.one_in(16) { 0..8 } else { byte % 8..byte % 8 + 1 };
                for bit in bits {
                    let mut flipped = rest.clone();
                    flipped[byte] ^= 1 << bit;
                    let mut reading = verifier.clone();
                    let mut pieces = flipped.split_inclusive(|byte| *byte == b'\n');
                    let first = pieces.next().expect("there is a line");
                    let wrong = reading.line(first).expect_err("a byte is different");
                    assert_eq!(wrong.line, at as u64 + 1, "byte {byte}, bit {bit}: {wrong}");
                    assert!(!wrong.to_string().contains('\u{1b}'));
                }
            }
            verifier.line(line.as_bytes()).unwrap();
        }
    }
}

/// A file that was cut off anywhere is found to be, and so are lines that are missing, doubled, in
/// another order, or after the end.
#[test]
fn lines_that_are_missing_or_moved() {
    let (vaults, records) = story();
    let lines = lines(&vaults[0], &records);
    let file = lines.concat().into_bytes();
    for end in (0..file.len()).step_by(97).chain([file.len() - 1]) {
        verify_bytes(&file[..end]).expect_err("it was cut off");
    }
    let all: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    for at in 0..all.len() {
        let mut without = all.clone();
        without.remove(at);
        let wrong = verify(without).expect_err("a line is missing");
        assert_eq!(wrong.line, at as u64 + 1, "{wrong}");
        let mut doubled = all.clone();
        doubled.insert(at, all[at]);
        assert_eq!(verify(doubled).expect_err("a line is doubled").line, at as u64 + 2);
        if at + 1 < all.len() {
            let mut swapped = all.clone();
            swapped.swap(at, at + 1);
            assert_eq!(verify(swapped).expect_err("two lines changed places").line, at as u64 + 1);
        }
    }
    let cut = verify(all[..4].iter().copied()).unwrap_err();
    assert_eq!(cut, LineError { line: 5, fault: LineFault::NoEnd });
    assert_eq!(verify([]).unwrap_err().line, 1);
}

/// Each fault by a forger who keeps to the form: what is said must follow from the lines before.
#[test]
fn forged_lines() {
    let (vaults, records) = story();
    let at = records.iter().position(|record| !record.before.is_empty()).unwrap();
    let fault = |forge: &dyn Fn(&mut Record)| {
        let mut records = records.clone();
        forge(&mut records[at]);
        let lines = lines(&vaults[0], &records);
        let wrong = verify(lines.iter().map(String::as_bytes)).unwrap_err();
        assert_eq!(wrong.line, at as u64 + 2);
        wrong.fault
    };
    let seven = indelible_ledger::Height::new(77);
    assert_eq!(fault(&|record| record.before.clear()), LineFault::StateHash);
    assert_eq!(fault(&|record| record.before[0].1.version = seven), LineFault::StateHash);
    assert_eq!(fault(&|record| record.before.push(record.before[0].clone())), LineFault::Before);
    let foreign = |record: &mut Record| record.before[0].0 = key("zz");
    assert_eq!(fault(&foreign), LineFault::Before);
    assert_eq!(fault(&|record| record.head = records[0].head), LineFault::Head);
    assert_eq!(fault(&|record| record.state_hash = records[0].state_hash), LineFault::StateHash);
    assert_eq!(fault(&|record| record.transaction.actor = Actor::new("user:me")), LineFault::Head);
    assert_eq!(fault(&|record| record.transaction.time = crate::support::at(0)), LineFault::Time);
    let refused = |record: &mut Record| {
        record.transaction.request = single(vec![add("nothing", 1)]);
    };
    let code = indelible_ledger::Code::KeyNotFound;
    assert_eq!(fault(&refused), LineFault::Refused { code });

    // Headers that lie, with a digest that fits.
    let header =
        |start: Checkpoint, state: &LtHash| verify([header_line(&start, state).as_bytes()]);
    let start = checkpoint(&vaults[0]);
    let head = records[0].head;
    let wrong = header(Checkpoint { head, ..start.clone() }, vaults[0].state()).unwrap_err();
    assert_eq!(wrong, LineError { line: 1, fault: LineFault::Genesis });
    let wrong = header(checkpoint(&vaults[3]), vaults[2].state()).unwrap_err();
    assert_eq!(wrong.fault, LineFault::HeaderState);
    let fault = |line: &str| verify([line.as_bytes()]).unwrap_err().fault;
    let line = header_line(&start, vaults[0].state());
    assert_eq!(
        fault(&line.replacen("\"version\":1,", "\"version\":2,\"new\":0,", 1)),
        LineFault::Version { version: 2 }
    );
    assert_eq!(fault(&line.replacen("shop", "shoq", 1)), LineFault::HeaderDigest);
    assert_eq!(fault("{\"journal\":1}\n"), LineFault::NoHeader);
    assert_eq!(fault(&line[..line.len() - 1]), LineFault::Unfinished);
    assert_eq!(
        fault(&" ".repeat(indelible_ledger::bounds::LINE_BYTES_MAX + 1)),
        LineFault::TooLong
    );
}

/// D12: an export as it is written; a file of version 1 is read for ever.
#[test]
fn golden_export() {
    let (vaults, records) = story();
    let file = lines(&vaults[0], &records).concat();
    let fixture = include_str!("../fixtures/export-1.jsonl");
    assert_eq!(file, fixture);
    assert_eq!(verify_bytes(fixture.as_bytes()).unwrap().head, vaults.last().unwrap().head());
}

/// The largest transaction fits a line.
#[test]
fn the_largest_line() {
    let mut server = Server::new();
    let limits = Limits::DEFAULT;
    let long = |n: usize| format!("{}{n:03}", "\"".repeat(1021));
    // Quotation marks are escaped in two bytes; nothing that a key may have takes more.
    let keys = limits.operations_max;
    let name = unit(&"\"".repeat(64));
    let most = indelible_ledger::Content::amount(i128::MIN, name);
    let first: Vec<Operation> = (0..keys).map(|n| set(&long(n), most.clone())).collect();
    let text = "\u{1}".repeat(limits.transaction_bytes_max / 4 - keys * 1024 / 4);
    let mut second: Vec<Operation> = (0..keys - 4).map(|n| set(&long(n), most.clone())).collect();
    let payload = indelible_journal::Payload::new(indelible_journal::Codec::TEXT, text);
    let value = indelible_ledger::Content::value(payload);
    second.extend((0..4).map(|n| set(&long(keys - 4 + n), value.clone())));
    for (number, operations) in (1..).zip([first, second]) {
        let answer = server.send("a", number, None, &single(operations));
        assert!(matches!(answer, Answer::Fresh(_)));
    }
    let longest = record_line(&server.log[1]).len();
    assert!(longest < indelible_ledger::bounds::LINE_BYTES_MAX, "{longest}");
    let vault = Vault::new(&scope(), incarnation());
    let lines = lines(&vault, &server.log);
    verify(lines.iter().map(String::as_bytes)).unwrap();
}

/// What many clients did is verified: random operations, half of them refused.
#[test]
fn a_long_export() {
    let mut server = Server::new();
    let mut random = Prng::new(7);
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..2_000 {
        let of = ["a", "b", "c"][random.index(3)];
        let name = |random: &mut Prng| format!("k{}", random.below(20));
        let (one, other) = (name(&mut random), name(&mut random));
        let operation = match random.below(5) {
            0 => set(&one, json(&random.number().to_string())),
            1 => set(&one, euro(100)),
            2 => delete(&one),
            3 if one != other => transfer(&one, &other, 1),
            _ => add(&one, 1),
        };
        let number = next.entry(of).or_insert(1);
        let run = Run::one(client(of), sequence(*number), None, single(vec![get(&one), operation]));
        if server.run_as("client:app", run)[0].is_success() {
            *number += 1;
        }
    }
    assert!(server.log.len() > 1_000, "{}", server.log.len());
    let lines = lines(&Vault::new(&scope(), incarnation()), &server.log);
    let verified = verify(lines.iter().map(String::as_bytes)).unwrap();
    assert_eq!(verified.head, server.vault.head());
}
