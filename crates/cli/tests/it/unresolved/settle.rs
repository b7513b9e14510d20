//! A person settles everything that is open, and what follows from each decision.

use serde_json::{Value, json};

use super::seen::Question;
use super::shop::{Shop, micros, now, order_of};
use crate::remote::kit::User;
use crate::serve_crash::kit::until;

const HAPPENED: &[&str] = &["happened", "--status", "201", "--body", "found"];
const DID_NOT_HAPPEN: &[&str] = &["did-not-happen"];
const ACCEPT_UNKNOWN: &[&str] = &["accept-unknown"];
const RUN_AGAIN: &[&str] = &["run-again", "--yes"];

/// What may be decided about an effect whose execution waits, and about one that has ended.
const OF_HELD: &[&[&str]] = &[HAPPENED, RUN_AGAIN, DID_NOT_HAPPEN, ACCEPT_UNKNOWN];
const OF_ENDED: &[&[&str]] = &[HAPPENED, DID_NOT_HAPPEN, ACCEPT_UNKNOWN];

/// What is recorded of a decision.
fn finding(decision: &[&str]) -> &'static str {
    match decision[0] {
        "happened" => "happened",
        "did-not-happen" => "did_not_happen",
        "accept-unknown" => "accepted_unknown",
        _ => "run_again",
    }
}

/// Settles all of them with all decisions in turn. Then nothing is open, and everything is on record.
pub fn settle_all(shop: &Shop, user: &User, open: Vec<Question<'_>>) {
    let count = open.len();
    let (mut held, mut ended) = (0, 0);
    let mut decided = Vec::new();
    for (at, question) in open.into_iter().enumerate() {
        let waits = question.detail["state"] == "held";
        let (choices, turn) = if waits { (OF_HELD, &mut held) } else { (OF_ENDED, &mut ended) };
        let decision = choices[*turn % choices.len()];
        *turn += 1;
        let promise = question.detail["promise_id"].as_str().unwrap();
        // Every other one by its first digits.
        let (digits, path) = promise.split_once('.').unwrap();
        let short = format!("{}.{path}", &digits[..10]);
        let named = if at.is_multiple_of(2) { promise } else { &short };
        let reason = format!("looked for {}", question.order.key());
        let resolve =
            |how: &[&str]| user.run(&[&["resolve", named], how, &["--reason", &reason]].concat());
        let before = (!waits).then(|| question.order.outcome(shop));
        if !waits {
            let said = resolve(RUN_AGAIN);
            assert!(said.stderr.contains("what has ended does not run again"), "{}", said.stderr);
        }
        let said = resolve(decision);
        assert_eq!(said.code, 0, "{named} {decision:?}: {}", said.stderr);
        match before {
            Some(before) => assert_eq!(question.order.outcome(shop), before, "it stays as it was"),
            None => goes_on(shop, &question, decision),
        }
        let again = resolve(ACCEPT_UNKNOWN);
        assert_eq!(again.code, 1, "{named}: a question is settled once");
        decided.push((promise.to_owned(), decision, reason));
    }
    assert!(held >= OF_HELD.len() && ended >= OF_ENDED.len(), "{held} held, {ended} ended");

    assert_eq!(user.run(&["unresolved"]).stdout, "");
    assert_eq!((shop.gauge("unresolved_open"), shop.gauge("unresolved_oldest_seconds")), (0, 0));
    assert_eq!(shop.gauge("executions_stuck"), 0);
    for (order, times) in shop.charges() {
        assert_eq!(times, 1, "order-{order} was charged twice");
    }
    on_record(shop, user, &decided);
    // Two more were settled by answers that came late.
    let all = user.does(&["unresolved", "--all", "--json"]);
    assert_eq!(all.lines().count(), count + 2);
}

/// The function goes on with what the person decided.
fn goes_on(shop: &Shop, question: &Question<'_>, decision: &[&str]) {
    let order = question.order;
    if decision == RUN_AGAIN {
        // The service answers the second request, and knows the key of the first.
        let told = until("it was sent again", || {
            let own = shop.arrivals().into_iter().filter(|own| order_of(own) == order.number);
            let own: Vec<_> = own.collect();
            (own.len() == 2).then_some(own)
        });
        assert_eq!(told[0].key, told[1].key);
        return;
    }
    let result = order.outcome(shop)["result"].clone();
    match decision[0] {
        "happened" => assert_eq!(
            (&result["status"], &result["body"]),
            (&json!(201), &json!("found")),
            "{result}"
        ),
        "did-not-happen" => assert_eq!(result["error"], "NotPerformed", "{result}"),
        _ => assert_eq!(result["error"], "Indeterminate", "{result}"),
    }
}

/// Who settled what, why and when: in the list, and in the audit record.
fn on_record(shop: &Shop, user: &User, decided: &[(String, &[&str], String)]) {
    let text = user.does(&["unresolved", "--all", "--json"]);
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let audit = shop.house.place.rows("/v1/audit?limit=500", "entries");
    for (promise, decision, reason) in decided {
        let one = all.iter().find(|one| one["promise_id"] == promise.as_str()).unwrap();
        let settled = &one["settled"];
        assert_eq!(one["state"], "settled");
        assert_eq!(settled["finding"], finding(decision), "{one}");
        assert_eq!(
            (&settled["actor"], &settled["reason"]),
            (&json!("system:local"), &json!(reason))
        );
        let at = micros(&settled["at"]);
        assert!(micros(&one["since"]) <= at && at <= now(), "{one}");
        let status = if decision[0] == "happened" { json!(201) } else { Value::Null };
        assert_eq!(settled["status"], status, "{one}");
        let noted = audit.iter().filter(|entry| entry["reason"] == reason.as_str());
        assert_eq!(noted.count(), 1, "{reason}");
    }
}
