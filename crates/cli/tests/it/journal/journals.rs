//! The checked-in journals, and the proof that the library still writes them so.

#![expect(clippy::disallowed_methods, reason = "a stale fixture is written out, to be looked at")]

use indelible_journal::{AwaitKind, Event, InvokeKind, Micros};

use crate::journal::script::Script;

/// The full example of the specification, event by event (J-88).
fn full_example() -> String {
    let mut script = Script::root(
        "workflow",
        "0195a1c0-7e00-7000-8000-00000000002a",
        "2026-03-14T09:26:53.589793Z",
        r#"{"user":42}"#,
    );
    let random = script.next_child();
    script
        .at(180)
        .push(Event::RandomGenerated { promise_id: random, value: vec![0x1a, 0x2b].into() })
        .at(240)
        .call(InvokeKind::Function, "fetch_user", r#"{"id":42}"#)
        .wait(&[1], AwaitKind::Single)
        .at(1_900)
        .start(1, 1)
        .at(41_300)
        .complete(1, 1, r#"{"id":42,"name":"Ada"}"#)
        .at(41_350)
        .resume();
    let set = script.at(41_400).join_set();
    script
        .at(41_420)
        .call(InvokeKind::Function, "send_email", r#"{"to":"ada@example.org"}"#)
        .submit(&set, 3)
        .at(41_510)
        .call(InvokeKind::Function, "send_sms", r#"{"to":"+44 20 7946 0958"}"#)
        .submit(&set, 4)
        .at(41_600)
        .wait(&[3, 4], AwaitKind::Any)
        .at(43_000)
        .start(4, 1)
        .at(204_700)
        .complete(4, 1, r#"{"sms":"sent"}"#)
        .at(204_760)
        .resume()
        .take(&set, 4, r#"{"sms":"sent"}"#)
        .at(204_800)
        .wait(&[3], AwaitKind::Any)
        .at(205_100)
        .start(3, 1)
        .at(310_000)
        .retry(3, 1, "421 try again later")
        .at(1_310_000)
        .start(3, 2)
        .at(1_502_400)
        .complete(3, 2, r#"{"email":"queued"}"#)
        .at(1_502_460)
        .resume()
        .take(&set, 3, r#"{"email":"queued"}"#)
        .at(1_502_500)
        .finish(r#"{"notified":["sms","email"]}"#)
        .lines()
}

/// An order: what the README shows.
fn order() -> String {
    let mut script = Script::root(
        "place_order",
        "019e2d4b-91c4-7a10-b6f3-5c2e8d07a911",
        "2026-05-15T14:03:22.104518Z",
        r#"{"order":"A-1042","customer":"cus_8412","total":"54.90 EUR"}"#,
    );
    let approval = "order_approved";
    let approved = r#"{"by":"dana","note":"known customer"}"#;
    script
        .at(310)
        .call(InvokeKind::Function, "reserve_stock", r#"{"sku":"TEA-EARL-250","count":2}"#)
        .wait(&[0], AwaitKind::Single)
        .at(4_120)
        .start(0, 1)
        .at(438_902)
        .complete(0, 1, r#"{"reservation":"rsv_77120"}"#)
        .at(439_015)
        .resume()
        .at(439_228)
        .call(InvokeKind::Http, "charge_card", r#"{"customer":"cus_8412","cents":5490}"#)
        .wait(&[1], AwaitKind::Single)
        .at(442_871)
        .start(1, 1)
        .at(1_204_330)
        .retry(1, 1, "429 Too Many Requests from api.payments.example")
        .at(2_204_330)
        .start(1, 2)
        .at(3_087_554)
        .complete(1, 2, r#"{"charge":"ch_3Q9f2L","status":"succeeded"}"#)
        .at(3_087_690)
        .resume()
        .at(3_087_902)
        .sleep(Micros::from_secs(900));
    let waited =
        AwaitKind::SignalOr { name: approval.parse().unwrap(), promise_id: script.child(3) };
    script
        .at(3_088_004)
        .wait(&[2, 3], waited)
        .at(5_911_207)
        .deliver(approval, approved)
        .receive(approval, approved)
        .at(5_911_340)
        .resume();
    let set = script.at(5_911_518).join_set();
    script
        .at(5_911_530)
        .call(InvokeKind::Function, "send_email", r#"{"template":"order-confirmed"}"#)
        .submit(&set, 5)
        .at(5_911_644)
        .call(InvokeKind::Function, "notify_warehouse", r#"{"reservation":"rsv_77120"}"#)
        .submit(&set, 6)
        .at(5_911_750)
        .wait(&[5, 6], AwaitKind::Any)
        .at(5_915_020)
        .start(5, 1)
        .at(5_915_402)
        .start(6, 1)
        .at(6_240_119)
        .complete(6, 1, r#"{"pick_list":"W-5531"}"#)
        .at(6_240_260)
        .resume()
        .take(&set, 6, r#"{"pick_list":"W-5531"}"#)
        .at(6_240_388)
        .wait(&[5], AwaitKind::Any)
        .at(6_702_845)
        .complete(5, 1, r#"{"message":"msg_0b1d"}"#)
        .at(6_702_981)
        .resume()
        .take(&set, 5, r#"{"message":"msg_0b1d"}"#)
        .at(6_703_107)
        .finish(r#"{"order":"A-1042","status":"confirmed"}"#)
        .lines()
}

#[track_caller]
fn check(name: &str, checked_in: &str, written: &str) {
    if checked_in != written {
        let path = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&path, written).unwrap();
        panic!("{name} is not what the library writes: see {path}");
    }
}

#[test]
fn checked_in_journals_are_what_the_library_writes() {
    check("full-example.jsonl", include_str!("../../fixtures/full-example.jsonl"), &full_example());
    check("order.jsonl", include_str!("../../../../../examples/journals/order.jsonl"), &order());
}
