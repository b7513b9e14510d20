//! The list of open questions against what the payment service saw.

use std::collections::{BTreeMap, BTreeSet};

use indelible_http_peer::Arrival;
use serde_json::{Value, json};

use super::shop::{Order, SECRET, Shop, micros, now, order_of, root};
use crate::remote::kit::User;

/// An open question, and the order that it is about.
pub struct Question<'a> {
    pub order: &'a Order,
    /// As it is listed, with the evidence.
    pub detail: Value,
}

/// Checks the whole list, and every entry's evidence. Returns the entries, the oldest first.
pub fn check<'a>(shop: &'a Shop, user: &User) -> Vec<Question<'a>> {
    let text = user.does(&["unresolved", "--json"]);
    let listed: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let over_http = shop.house.place.rows("/v1/unresolved?limit=7", "unresolved");
    let ids =
        |all: &[Value]| -> Vec<Value> { all.iter().map(|one| one["promise_id"].clone()).collect() };
    assert_eq!(ids(&listed), ids(&over_http), "the command lists what the API does");
    assert!(listed.is_sorted_by_key(|one| micros(&one["since"])), "the oldest comes first");
    assert_eq!(shop.gauge("unresolved_open"), listed.len() as u64);

    let by_execution: BTreeMap<_, _> =
        shop.orders.iter().map(|order| (order.execution.as_str(), order)).collect();
    let mut questions = Vec::new();
    for one in &listed {
        let promise = one["promise_id"].as_str().unwrap();
        let detail = user.json(&["unresolved", promise]);
        let order = by_execution[root(one)];
        let question = Question { order, detail };
        question.has_its_evidence(one, shop);
        question.reads_well(&user.does(&["unresolved", promise]));
        questions.push(question);
    }
    nothing_is_missing_or_too_much(shop, &questions);
    for (order, times) in shop.charges() {
        assert_eq!(times, 1, "order-{order} was charged twice");
    }
    questions
}

/// Every request that arrived and whose answer was not delivered is listed, once, and every other
/// entry has a kill or a cut between its beginning and its end.
fn nothing_is_missing_or_too_much(shop: &Shop, questions: &[Question<'_>]) {
    let arrivals = shop.arrivals();
    let of = |order: &Order| -> Vec<&Arrival> {
        arrivals.iter().filter(|arrival| order_of(arrival) == order.number).collect()
    };
    let mut listed = BTreeMap::new();
    for question in questions {
        let earlier = listed.insert(question.order.number, question);
        assert!(earlier.is_none(), "{} is listed twice", question.order.key());
    }
    let mut kinds = BTreeSet::new();
    for order in &shop.orders {
        let (key, own) = (order.key(), of(order));
        if order.kind.is_idem() {
            assert!(order.is_told(shop), "{key}: it was sent until it was answered");
            assert!(!listed.contains_key(&order.number), "{key} is not in doubt");
            continue;
        }
        assert!(own.len() <= 1, "{key} was sent twice: {own:?}");
        let question = listed.remove(&order.number);
        let is_awaited = question.as_ref().is_some_and(|own| own.detail["state"] == "held");
        let delivered = !is_awaited && order.is_told(shop);
        let late = settled_late(shop, order);
        match (own.first(), question) {
            (Some(arrival), None) => {
                let told = arrival.answered && (delivered || late);
                assert!(told, "{key} is not listed, though its answer was lost: {arrival:?}");
                kinds.insert(if late { "late" } else { "told" });
            }
            (None, None) => panic!("{key} was never sent: {}", order.outcome(shop)),
            (arrival, Some(question)) => {
                assert!(!delivered && !late, "{key} is listed, though its answer was delivered");
                kinds.insert(question.cause(shop, arrival.copied()));
                if let (Some(arrival), Some(sent)) = (arrival, question.detail.get("sent_key")) {
                    assert_eq!(sent.as_str(), arrival.key.as_deref(), "{key}");
                }
            }
        }
    }
    assert!(listed.is_empty(), "listed, and of no order that may be in doubt");
    let all = ["told", "late", "cut", "killed"];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "something was not tested: {kinds:?}");
}

/// Whether an answer that came too late has settled it.
fn settled_late(shop: &Shop, order: &Order) -> bool {
    let path = format!("/v1/unresolved?state=settled&tree={}", order.execution);
    let settled = shop.house.place.rows(&path, "unresolved");
    settled.iter().any(|one| one["settled"]["actor"] == "peer")
}

impl Question<'_> {
    /// What made it unknown: the server was killed meanwhile, or the service cut the line.
    fn cause(&self, shop: &Shop, arrival: Option<&Arrival>) -> &'static str {
        let tried = self.detail["tried"].as_array().unwrap();
        let (from, to) = (micros(&tried.last().unwrap()["started"]), micros(&self.detail["since"]));
        let killed = shop.kills.iter().any(|(before, after)| from <= *after && *before <= to);
        let cut = arrival.is_some_and(|arrival| !arrival.answered) && self.order.kind.is_cut();
        assert!(killed || cut, "neither cut nor killed: {:#}", self.detail);
        if killed { "killed" } else { "cut" }
    }

    /// The entry says whose it is, and has the request as it was sent.
    fn has_its_evidence(&self, listed: &Value, shop: &Shop) {
        let Self { order, detail } = self;
        let what = format!("{}: {detail:#}", order.key());
        for (name, value) in listed.as_object().unwrap() {
            assert_eq!(&detail[name], value, "{name} of {what}");
        }
        assert_eq!(detail["key"], order.key(), "{what}");
        assert_eq!(detail["labels"], json!({"order": order.number.to_string(), "shop": "online"}));
        assert_eq!(
            (&detail["namespace"], &detail["operation_id"]),
            (&json!(order.namespace), &json!(order.operation)),
            "{what}"
        );
        let held = detail["state"] == "held";
        assert!(held || detail["state"] == "ended", "{what}");
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (asked, input) = (read(&order.input), read(detail["input"]["text"].as_str().unwrap()));
        match asked.as_object() {
            // What calls the function that charges fills in what the customer left out.
            Some(asked) => assert!(asked.iter().all(|(name, is)| input[name] == *is), "{what}"),
            None => assert_eq!(input, asked, "{what}"),
        }

        // When each attempt was started, and how it ended.
        let tried = detail["tried"].as_array().unwrap();
        let numbers: Vec<_> = tried.iter().map(|one| one["attempt"].as_u64().unwrap()).collect();
        let last = detail["attempt"].as_u64().unwrap();
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "{what}");
        assert!(tried.is_sorted_by_key(|one| micros(&one["started"])), "{what}");
        assert!(tried.iter().all(|one| !one["end"].as_str().unwrap().is_empty()), "{what}");
        let (first, since) = (micros(&tried[0]["started"]), micros(&detail["since"]));
        assert!(shop.began <= first && first <= since && since <= now(), "{what}");
        assert!(!detail["why"].as_str().unwrap().is_empty(), "{what}");
        if last > 1 {
            assert!(tried[0]["end"].as_str().unwrap().contains("was not sent"), "{what}");
        }

        let Some(request) = detail.get("request") else {
            assert_eq!(
                (order.kind.function, &detail["label"]),
                ("calls_volatile", &json!("glance"))
            );
            assert!(detail["call"]["text"].as_str().unwrap().contains(&order.url), "{what}");
            return;
        };
        assert_eq!(
            (&request["method"], &request["url"]),
            (&json!("POST"), &json!(order.url)),
            "{what}"
        );
        let (address, _) = order.url.split_once('?').unwrap();
        assert_eq!(detail["label"], format!("POST {address}"), "{what}");
        assert_eq!(request["idempotency_key"], detail["sent_key"], "{what}");
        assert_eq!(request["body"], json!({"bytes": order.body().len(), "text": order.body()}));
        let headers: BTreeMap<&str, &str> = request["headers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
            .collect();
        assert_eq!(headers["authorization"], "[secret PAYMENTS_KEY]", "{what}");
        let arrived = shop.arrivals();
        for arrival in arrived.iter().filter(|arrival| order_of(arrival) == order.number) {
            assert_eq!(
                (&*arrival.method, arrival.body.as_ref()),
                ("POST", order.body().as_bytes())
            );
            assert_eq!(arrival.header("authorization").unwrap(), SECRET);
            for (name, value) in headers.iter().filter(|(name, _)| **name != "authorization") {
                assert_eq!(arrival.header(name).unwrap(), value, "{what}");
            }
        }
    }

    /// The page for people has what they look for, and no secret.
    fn reads_well(&self, page: &str) {
        let Self { order, detail } = self;
        let (key, label) = (order.key(), format!("label       order={}\n", order.number));
        let mut parts = vec![label, format!("key         {key}\n"), "attempt     1 at ".to_owned()];
        if let Some(sent) = detail["sent_key"].as_str() {
            parts.push(format!("Idempotency-Key: {sent}\n"));
            parts.push("authorization: [secret PAYMENTS_KEY]\n".to_owned());
            parts.push(format!("body        {}\n", order.body()));
        }
        for part in parts {
            assert!(page.contains(&part), "{part:?} is not there:\n{page}");
        }
        assert!(!page.contains(SECRET), "{page}");
    }
}
