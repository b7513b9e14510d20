//! What a writer does after each answer, over a real connection.

use std::fs;

use indelible_client::{IfMissing, Operations, Sequenced, SequencedError, StopReason, StreamName};
use indelible_ledger::{Actor, Incarnation};
use serde_json::{Value, json};

use super::house::{CLIENT, Fate, House, refused};
use crate::support::{ATTEMPTS_MAX, Act};

fn add(key: &str, delta: i64) -> Operations {
    Operations::single(&json!([{"add": {"key": key, "delta": delta, "unit": "EUR", "min": 0}}]))
}

fn bodies(house: &House) -> Vec<Value> {
    let world = house.world();
    world.seen.iter().map(|seen| serde_json::from_str(&seen.body).unwrap()).collect()
}

/// Sequence and attempt of each request.
fn numbers(house: &House) -> Vec<(u64, u64)> {
    let number = |body: &Value, name: &str| body[name].as_u64().unwrap();
    bodies(house).iter().map(|body| (number(body, "sequence"), number(body, "attempt"))).collect()
}

fn stop(error: SequencedError) -> StopReason {
    match error {
        SequencedError::Stopped { stream, reason, .. } => {
            assert_eq!(stream.client, CLIENT);
            reason
        }
        other => panic!("{other:?}"),
    }
}

/// A writer with this many transactions behind it, and its house.
async fn after(count: u64) -> (House, tempfile::TempDir, Sequenced) {
    let (house, folder) = (House::new().await, tempfile::tempdir().unwrap());
    let mut writer = house.writer(folder.path()).await.unwrap();
    for _ in 0..count {
        writer.transact(add("a", 1)).await.unwrap();
    }
    house.world().seen.clear();
    (house, folder, writer)
}

/// a request is in the file with its exact bytes before it arrives anywhere; it is sent
/// again with the same bytes until there is an answer; then the number rises by one.
#[tokio::test]
async fn the_same_bytes_until_there_is_an_answer() {
    let (house, folder, mut writer) = after(0).await;
    let file = folder.path().join("till-1.state");
    let found = file.clone();
    house.world().on_arrival = Some(Box::new(move |seen| {
        let text = fs::read_to_string(&found).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(line["request"]["body"], seen.body);
    }));
    house.world().fates = [Fate::LoseRequest, Fate::LoseAnswer, Fate::LoseAnswer].into();
    writer.transact(add("a", 5)).await.unwrap();
    writer.run(vec![add("a", 1), add("a", 2)]).await.unwrap();
    writer.transact(add("b", 1)).await.unwrap();
    assert_eq!((house.world().balance("a"), writer.committed()), (8, 4));
    let bodies = bodies(&house);
    assert_eq!(bodies.len(), 6);
    assert!(bodies[..4].iter().all(|body| body == &bodies[0]), "{bodies:?}");
    assert_eq!(bodies[4]["transactions"][1]["sequence"], 3);
    assert_eq!(bodies[5]["sequence"], 4);
    // The vault is pinned from the first request on.
    let incarnation = house.world().incarnation.to_string();
    assert!(bodies.iter().all(|body| body["incarnation"] == incarnation), "{bodies:?}");
}

/// without an answer the writer takes nothing else, and goes on with the same bytes, also in
/// another process.
#[tokio::test]
async fn no_answer() {
    let (house, folder, mut writer) = after(1).await;
    let most = usize::try_from(ATTEMPTS_MAX).unwrap();
    house.world().fates = vec![Fate::LoseAnswer; most].into();
    let error = writer.transact(add("a", 5)).await.unwrap_err();
    let SequencedError::Transport(lost) = error else { panic!("{error:?}") };
    assert!(lost.to_string().contains("sequence 2 of client \"till-1\""), "{lost}");
    let error = writer.transact(add("a", 7)).await.unwrap_err();
    assert!(matches!(error, SequencedError::Unfinished { sequence: 2, .. }), "{error:?}");
    drop(writer);
    let mut writer = house.writer(folder.path()).await.unwrap();
    let (request, end) = writer.resume().await.unwrap().unwrap();
    assert_eq!((request.first, request.count, end.first, end.committed.len()), (2, 1, 2, 1));
    assert!(end.refused.is_none() && writer.resume().await.unwrap().is_none());
    assert_eq!(house.world().balance("a"), 6);
    assert!(numbers(&house).iter().all(|number| *number == (2, 1)));
    // What was settled is not sent again.
    writer.settle().await.unwrap();
    drop(writer);
    let mut writer = house.writer(folder.path()).await.unwrap();
    assert!(writer.resume().await.unwrap().is_none());
    assert_eq!(writer.committed(), 2);
}

/// C-42: after each refusal the attempt rises and the number stays; of a run that stopped, the number
/// is that of what was not applied. What is refused stays refused when the writer starts again.
#[tokio::test]
async fn refusals_raise_the_attempt() {
    let (house, folder, mut writer) = after(1).await;
    let error = writer.transact(add("a", -5)).await.unwrap_err();
    assert!(matches!(error, SequencedError::Refused(_)), "{error:?}");
    drop(writer);
    let mut writer = house.writer(folder.path()).await.unwrap();
    assert!(writer.resume().await.unwrap().is_none());
    let run = vec![add("a", 1), add("a", -9), add("a", 1)];
    let end = writer.run(run).await.unwrap();
    assert_eq!((end.committed.len(), end.refused.is_some()), (1, true));
    writer.transact(add("a", 2)).await.unwrap();
    assert_eq!(house.world().balance("a"), 4);
    let bodies = bodies(&house);
    let attempts: Vec<_> = bodies.iter().map(|body| body["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert_eq!((&bodies[0]["sequence"], &bodies[2]["sequence"]), (&json!(2), &json!(3)));
    house.world().echo();
    assert_eq!(house.world().balance("a"), 4);
}

/// Q-10, C-8, C-42: numbers that the server does not have lead to its state, and the transaction goes
/// on behind its last number under another attempt; the late copy of the first is never applied.
#[tokio::test]
async fn a_gap_is_no_dead_end() {
    let (house, _folder, mut writer) = after(3).await;
    house.world().stream().last = None;
    writer.transact(add("a", 10)).await.unwrap();
    writer.transact(add("a", 20)).await.unwrap();
    assert_eq!(numbers(&house), [(4, 1), (1, 2), (2, 2)]);
    assert_eq!((writer.committed(), house.world().balance("a")), (2, 33));
    house.world().echo();
    assert_eq!(house.world().balance("a"), 33);
}

/// C-48: a stream that a restore has put behind the file stops the writer with an error of its own:
/// nothing is renumbered, nothing is applied, and it stays so.
#[tokio::test]
async fn a_restored_server() {
    let (house, folder, mut writer) = after(3).await;
    house.world().stream().last = None;
    house.world().restores = 1;
    for _ in 0..2 {
        let error = match writer.unfinished() {
            None => writer.transact(add("a", 10)).await.unwrap_err(),
            Some(_) => writer.resume().await.unwrap_err(),
        };
        assert_eq!(stop(error), StopReason::Restored);
        drop(writer);
        writer = house.writer(folder.path()).await.unwrap();
    }
    assert_eq!(numbers(&house), [(4, 1), (4, 1)]);
    assert_eq!(house.world().balance("a"), 3);
    // Also where the gap itself does not say so: another writer has been there since.
    house.world().lies = [gap(), gap()].into();
    assert_eq!(stop(writer.resume().await.unwrap_err()), StopReason::Restored);
    // A person has looked: the writer goes on where the server is.
    drop(writer);
    fs::remove_file(folder.path().join("till-1.state")).unwrap();
    house.world().lies.clear();
    let open = house.writer(folder.path()).if_missing(IfMissing::AskServer);
    let mut writer = open.await.unwrap();
    writer.transact(add("a", 10)).await.unwrap();
    assert_eq!((numbers(&house).pop(), writer.committed()), (Some((1, 2)), 1));
}

fn gap() -> Act {
    refused(409, "SEQUENCE_GAP", Some(json!({"code_number": 6, "restored": false})))
}

/// C-48: a restore that took nothing of the stream stops nothing.
#[tokio::test]
async fn a_restore_that_took_nothing() {
    let (house, _folder, mut writer) = after(3).await;
    house.world().restores = 1;
    writer.transact(add("a", 10)).await.unwrap();
    house.world().restores = 2;
    house.world().lies = [gap()].into();
    writer.transact(add("a", 10)).await.unwrap();
    assert_eq!(house.world().balance("a"), 23);
}

/// C-47: a vault that was made again gets nothing of what was meant for the old one.
#[tokio::test]
async fn another_vault_of_the_same_name() {
    let (house, folder, mut writer) = after(1).await;
    house.world().incarnation = Incarnation::from_bytes([8; 16]);
    let error = writer.transact(add("a", 10)).await.unwrap_err();
    assert_eq!(stop(error), StopReason::OtherIncarnation);
    assert_eq!(house.world().balance("a"), 1);
    drop(writer);
    // One that is told by its user which vault is meant does not even begin.
    let own = house.world().incarnation.to_string();
    let error = house.writer(folder.path()).incarnation(own).await.unwrap_err();
    assert_eq!(stop(error), StopReason::OtherIncarnation);
}

/// Another process writes under the same client id: each case is told apart, and nothing is applied.
#[tokio::test]
async fn another_writer() {
    // It has taken the number.
    let (house, _folder, mut writer) = after(1).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let open = house.writer(elsewhere.path()).if_missing(IfMissing::AskServer);
    let mut other = open.await.unwrap();
    other.transact(add("b", 1)).await.unwrap();
    assert_eq!(stop(writer.transact(add("a", 1)).await.unwrap_err()), StopReason::NumberTaken);
    assert_eq!(house.world().balance("a"), 1);

    // It was refused under the attempt: the writer takes the next one.
    let (house, _folder, mut writer) = after(1).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let open = house.writer(elsewhere.path()).if_missing(IfMissing::AskServer);
    let mut other = open.await.unwrap();
    other.transact(add("b", -1)).await.unwrap_err();
    other.transact(add("b", -1)).await.unwrap_err();
    house.world().seen.clear();
    writer.transact(add("a", 1)).await.unwrap();
    assert_eq!(numbers(&house), [(2, 1), (2, 3)]);

    // It overtakes every attempt.
    let (house, _folder, mut writer) = after(1).await;
    let stale = |attempt: u32| {
        let refused = json!({
            "attempt": attempt, "sequence": 2, "request_hash": "", "code": "", "code_number": 1,
        });
        self::refused(409, "STALE_ATTEMPT", Some(json!({"code_number": 13, "refused": refused})))
    };
    house.world().lies = (1..100).map(stale).collect();
    assert_eq!(stop(writer.transact(add("a", 1)).await.unwrap_err()), StopReason::Contended);

    // The id is another caller's.
    let (house, _folder, mut writer) = after(1).await;
    house.world().stream().owner = Actor::new("client:other");
    assert_eq!(stop(writer.transact(add("a", 1)).await.unwrap_err()), StopReason::ForeignClient);
}

/// C-49: the last number is used, and there is none behind it.
#[tokio::test]
async fn the_last_number() {
    let (house, folder, writer) = after(1).await;
    drop(writer);
    fs::remove_file(folder.path().join("till-1.state")).unwrap();
    let before = indelible_ledger::Sequence::new(u64::MAX - 1).unwrap();
    house.world().stream().last.as_mut().unwrap().sequence = before;
    let open = house.writer(folder.path()).if_missing(IfMissing::AskServer);
    let mut writer = open.await.unwrap();
    let error = writer.run(vec![add("a", 1), add("a", 1)]).await.unwrap_err();
    assert_eq!(stop(error), StopReason::Exhausted);
    writer.transact(add("a", 1)).await.unwrap();
    let error = writer.transact(add("a", 1)).await.unwrap_err();
    assert_eq!(stop(error), StopReason::Exhausted);
    assert_eq!(house.world().balance("a"), 2);
}

/// A refusal at the door ends a request only if no copy of it can have been applied.
#[tokio::test]
async fn refusals_of_the_door() {
    let forbidden = || refused(403, "forbidden", None);
    let (house, folder, mut writer) = after(1).await;
    house.world().lies = [forbidden()].into();
    let error = writer.transact(add("a", 5)).await.unwrap_err();
    assert!(matches!(error, SequencedError::Refused(_)), "{error:?}");
    // It was never applied, and is not once the role is there.
    assert!(writer.resume().await.unwrap().is_none());
    // The first copy was applied, and the answer to it was lost.
    let most = usize::try_from(ATTEMPTS_MAX).unwrap();
    house.world().fates = vec![Fate::LoseAnswer; most].into();
    writer.transact(add("a", 5)).await.unwrap_err();
    house.world().lies = [forbidden()].into();
    let error = writer.resume().await.unwrap_err();
    assert!(matches!(error, SequencedError::Unsettled(_)), "{error:?}");
    let (_, end) = writer.resume().await.unwrap().unwrap();
    assert!(end.refused.is_none());
    assert_eq!((house.world().balance("a"), writer.committed()), (6, 2));
    // What makes no sense to the server is over when the server does not have its number.
    house.world().fates = vec![Fate::LoseRequest; most].into();
    writer.transact(add("a", 5)).await.unwrap_err();
    drop(writer);
    let mut writer = house.writer(folder.path()).await.unwrap();
    house.world().lies = [refused(400, "malformed-request", None)].into();
    let (_, end) = writer.resume().await.unwrap().unwrap();
    assert!(end.refused.is_some() && end.committed.is_empty());
    writer.transact(add("a", 1)).await.unwrap();
    assert_eq!((house.world().balance("a"), writer.committed()), (7, 3));
}

/// Answers that do not fit the request are not believed, and the request stays.
#[tokio::test]
async fn answers_that_cannot_be() {
    let committed = json!({"verdict": "Fresh", "incarnation": "07070707-0707-0707-0707-070707070707",
        "restores": 0});
    let other = json!({"verdict": "Fresh", "incarnation": "08080808-0808-0808-0808-080808080808",
        "restores": 0});
    let (house, _folder, mut writer) = after(1).await;
    house.world().lies = [crate::support::answer(200, &json!({"results": [committed]}))].into();
    let error = writer.run(vec![add("a", 1), add("a", 1)]).await.unwrap_err();
    assert!(matches!(error, SequencedError::Malformed(_)), "{error:?}");
    house.world().lies = [crate::support::answer(200, &json!({"results": [other, other]}))].into();
    assert_eq!(stop(writer.resume().await.unwrap_err()), StopReason::OtherIncarnation);
    let all = json!({"code_number": 7, "results": [committed, committed]});
    house.world().lies = [refused(412, "BELOW_MIN", Some(all))].into();
    let error = writer.resume().await.unwrap_err();
    assert!(matches!(error, SequencedError::Malformed(_)), "{error:?}");
    let (request, end) = writer.resume().await.unwrap().unwrap();
    assert_eq!((request.count, end.committed.len()), (2, 2));
    let name = StreamName {
        server: house.ledger_address(),
        namespace: Some("shop".to_owned()),
        vault: Some("wallets".to_owned()),
        client: CLIENT.to_owned(),
    };
    assert_eq!(writer.stream(), &name);
    // No request at all: nothing is used up.
    assert!(matches!(writer.run(Vec::new()).await.unwrap_err(), SequencedError::Invalid(_)));
    assert_eq!((house.world().balance("a"), writer.committed()), (3, 3));
}
