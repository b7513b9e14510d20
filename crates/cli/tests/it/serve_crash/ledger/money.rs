//! Transfers between accounts, many of which must be refused, by clients who send again.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indelible_test_support::Prng;
use serde_json::{Value, json};

use super::super::kit::Place;
use super::kit::{Delivery, NamedWrite, Reply, Stream, VAULT, house, kill_between, setting};
use crate::support::export;

const CLIENTS: usize = 16;
const TRANSFERS: usize = 2_000;
/// Of all clients, between two kills.
const KILL_EVERY: usize = 500;

const ACCOUNTS: usize = 20;
/// The last accounts hold another unit.
const DOLLARS: usize = 3;
/// What each account has in the beginning.
const DEPOSIT: i64 = 1_000;
/// Up to here an account usually has enough.
const USUAL: u64 = 300;

fn account(number: usize) -> String {
    format!("account-{number:02}")
}

fn unit(account: usize) -> &'static str {
    if account < ACCOUNTS - DOLLARS { "EUR" } else { "USD" }
}

/// What a client sent, and what came of it.
struct Sent {
    /// The client and its count of transfers: what else a transfer writes tells it from all others.
    tag: (usize, usize),
    from: usize,
    to: usize,
    quantity: i64,
    sequence: u64,
    write: NamedWrite,
    reply: Reply,
}

impl Sent {
    /// Where an applied transfer is: client, sequence and height.
    fn place(&self) -> Option<(usize, usize, u64, u64)> {
        let Reply::Committed(answer) = &self.reply else { return None };
        Some((self.tag.0, self.tag.1, self.sequence, answer["height"].as_u64().unwrap()))
    }
}

/// A transfer, and a mark of its own: both take place, or neither.
fn operations(tag: (usize, usize), from: usize, to: usize, quantity: i64) -> [Value; 2] {
    let mark = json!({"codec": "json", "value": tag});
    [
        json!({"set": {"key": format!("mark-{:02}", tag.0), "to": {"value": mark}}}),
        json!({"transfer": {
            "from": account(from), "to": account(to), "quantity": quantity, "min": 0}}),
    ]
}

fn client(number: usize, transfers: usize, place: &Place, done: &AtomicUsize) -> Vec<Sent> {
    let mut random = Prng::new(number as u64);
    let mut stream = Stream::new(format!("c{number}"));
    let mut all: Vec<Sent> = Vec::new();
    for count in 0..transfers {
        let from = random.index(ACCOUNTS);
        let to = (from + 1 + random.index(ACCOUNTS - 1)) % ACCOUNTS;
        let usual = 1 + random.below(USUAL);
        let quantity = if random.one_in(5) { usual * 20 } else { usual }.try_into().unwrap();
        let tag = (number, count);
        let operations = operations(tag, from, to, quantity);
        let is_batch = random.one_in(3);
        let write =
            if is_batch { stream.next_batch(&operations) } else { stream.next(&operations) };
        let sequence = stream.last + 1;
        let reply = write.send(place, Delivery::draw(&mut random));
        stream.take(&reply);
        match &reply {
            Reply::Committed(_) => assert_eq!(unit(from), unit(to)),
            // What overdraws is refused as that, whatever the unit.
            Reply::Refused { code, .. } if code == "BELOW_MIN" => {}
            Reply::Refused { code, .. } => {
                assert_eq!(code, "UNIT_MISMATCH");
                assert_ne!(unit(from), unit(to));
            }
        }
        all.push(Sent { tag, from, to, quantity, sequence, write, reply });
        if random.one_in(4) {
            late_copy(&all[random.index(all.len())], stream.last, place);
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    stream.assert_known(place);
    all
}

/// A copy of a request of long ago. What was applied is answered as it was, what was refused is
/// refused again: as it was, as overtaken, or because another write has its number by now.
fn late_copy(sent: &Sent, last: u64, place: &Place) {
    let (verdict, reply) = sent.write.ask(place);
    assert_ne!(verdict, "Fresh");
    let Reply::Refused { code, .. } = &reply else { return assert_eq!(reply, sent.reply) };
    assert!(!sent.reply.is_committed(), "{reply:?}");
    if sent.sequence <= last {
        assert_eq!(code, "SEQUENCE_MISMATCH");
    } else if code != "STALE_ATTEMPT" {
        assert_eq!(reply, sent.reply);
    }
}

/// C-42, C-50: transfers that are valid, too large, and of another
/// unit, as single writes and as batches, each sent until it is answered and many sent more often,
/// while the server is killed again and again. All money that was put in is there, no account is
/// below zero, each accepted transfer is in the log once and no refused one is, and what clients
/// numbered is there without a gap.
#[test]
fn money_is_neither_made_nor_lost() {
    let mut house = house();
    let place = Arc::clone(&house.place);
    let deposits: Vec<_> = (0..ACCOUNTS)
        .map(|number| json!({"add": {"key": account(number), "delta": DEPOSIT, "unit": unit(number)}}))
        .collect();
    let deposit = NamedWrite::keyed("deposit".into(), &deposits);
    assert!(deposit.send(&place, Delivery::Again).is_committed());
    let transfers = setting("INDELIBLE_TRANSFERS", TRANSFERS);
    let done = AtomicUsize::new(0);
    let sent: Vec<Sent> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (place, done) = (&place, &done);
                scope.spawn(move || client(number, transfers / CLIENTS, place, done))
            })
            .collect();
        kill_between(&mut house, (transfers - 1) / KILL_EVERY, KILL_EVERY, &done);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    house.crash();
    let accepted: BTreeSet<_> = sent.iter().filter_map(Sent::place).collect();
    assert_eq!(logged(&place), accepted, "each accepted one once, and nothing else");
    gapless(&accepted);
    let balances = balances(&place);
    assert_eq!(balances, replayed(&sent));
    for unit in ["EUR", "USD"] {
        let accounts = (0..ACCOUNTS).filter(|account| self::unit(*account) == unit);
        let sum: i64 = accounts.clone().map(|account| balances[account]).sum();
        assert_eq!(sum, DEPOSIT * accounts.count() as i64, "{unit}");
    }
    assert!(balances.iter().all(|balance| *balance >= 0), "{balances:?}");
    for code in ["BELOW_MIN", "UNIT_MISMATCH"] {
        let is =
            |sent: &&Sent| matches!(&sent.reply, Reply::Refused { code: met, .. } if met == code);
        assert!(sent.iter().any(|sent| is(&sent)), "none was refused with {code}");
    }
    let (_, address) = place.now();
    let exported = export::verified(&address, VAULT);
    assert_eq!(exported.transactions, accepted.len() as u64 + 1);
    house.kill();
    let check = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["store", "check"])
        .arg(house.data())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success() && said.ends_with("\nno problems found\n"), "{check:?}");
}

/// The transfers in the log: client, its count, sequence and height.
fn logged(place: &Place) -> BTreeSet<(usize, usize, u64, u64)> {
    let (mut all, mut next) = (BTreeSet::new(), Some(1));
    let mut height = 0;
    while let Some(from) = next {
        let page = place.json(&format!("{VAULT}/transactions?from={from}&limit=500"));
        for entry in page["transactions"].as_array().unwrap() {
            let transaction = &entry["transaction"];
            height += 1;
            assert_eq!(transaction["height"], height);
            let client = &transaction["origin"]["client"];
            if client.is_null() {
                assert_eq!(transaction["origin"], json!({"key": "deposit"}));
                continue;
            }
            let mark = &transaction["writes"][0][0]["set"]["to"]["value"]["value"];
            let (number, count): (usize, usize) = serde_json::from_value(mark.clone()).unwrap();
            assert_eq!(client["id"], format!("c{number}"));
            let transfer = (number, count, client["sequence"].as_u64().unwrap(), height);
            assert!(all.insert(transfer));
        }
        next = page["next"].as_u64();
    }
    all
}

/// Each client's numbers are 1 to n, at rising heights, in the order in which it sent them.
fn gapless(accepted: &BTreeSet<(usize, usize, u64, u64)>) {
    let mut last = BTreeMap::new();
    for (client, _, sequence, height) in accepted {
        let before = last.insert(client, (*sequence, *height)).unwrap_or_default();
        assert_eq!(before.0 + 1, *sequence, "client {client}");
        assert!(before.1 < *height, "client {client}");
    }
}

fn balances(place: &Place) -> Vec<i64> {
    let page = place.json(&format!("{VAULT}/entities?prefix=account-&limit=500"));
    assert!(page["next"].is_null());
    let accounts = page["entities"].as_array().unwrap().iter().enumerate();
    accounts
        .map(|(number, entry)| {
            assert_eq!(entry["key"], account(number));
            let amount = &entry["entity"]["is"]["amount"];
            assert_eq!(amount["unit"], unit(number));
            amount["quantity"].as_str().unwrap().parse().unwrap()
        })
        .collect()
}

/// The balances after all accepted transfers, in the order of their heights. None overdraws.
fn replayed(sent: &[Sent]) -> Vec<i64> {
    let mut accepted: Vec<_> =
        sent.iter().filter_map(|sent| Some((sent.place()?.3, sent))).collect();
    accepted.sort_unstable_by_key(|(height, _)| *height);
    let mut balances = vec![DEPOSIT; ACCOUNTS];
    for (height, transfer) in accepted {
        balances[transfer.from] -= transfer.quantity;
        balances[transfer.to] += transfer.quantity;
        assert!(balances[transfer.from] >= 0, "overdrawn at height {height}");
        let Reply::Committed(answer) = &transfer.reply else { unreachable!("it was accepted") };
        let told = &answer["results"][1]["transferred"];
        assert_eq!(told["from_balance"], balances[transfer.from].to_string());
        assert_eq!(told["to_balance"], balances[transfer.to].to_string());
    }
    balances
}
