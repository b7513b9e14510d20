//! Behaviours that answer.

use indelible_http_peer::Peer;

use crate::client::{Client, json, ok, usual};

/// What the log says of a key: for each arrival, whether it was processed and answered.
#[track_caller]
fn check(peer: &Peer, key: &str, expected: &[(bool, bool)]) {
    let log = peer.log();
    let own = log.iter().filter(|arrival| arrival.key.as_deref() == Some(key));
    let seen: Vec<_> = own.map(|arrival| (arrival.processed, arrival.answered)).collect();
    assert_eq!(seen, expected, "{key}");
    assert_eq!(peer.arrivals(key), expected.len());
    assert_eq!(peer.processed(key), expected.iter().filter(|(processed, _)| *processed).count());
}

/// An arrival is in the log as it came, on a connection that takes many.
#[test]
fn what_arrived_is_in_the_log() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send(
        "PUT /do/answer?a=b HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"k\"\r\nx: \r\nX: ä\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\n\0\r\n0\r\n\r\n",
    );
    client.expect(ok("k", 1));
    client.send("GET /do/answer HTTP/1.1\r\n\r\n");
    client.expect(json("200 OK", "", "{\"count\":1,\"key\":null}"));
    let log = peer.log();
    assert_eq!(log.len(), 2);
    let first = &log[0];
    assert_eq!((first.number, first.nth), (1, 1));
    assert_eq!((first.method.as_str(), first.path.as_str()), ("PUT", "/do/answer?a=b"));
    assert_eq!(first.key.as_deref(), Some("k"));
    assert_eq!(first.body.as_ref(), b"ab\0");
    let names: Vec<_> = first.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "Idempotency-Key", "x", "X", "Transfer-Encoding"]);
    assert_eq!(first.headers[3].1, "ä");
    assert_eq!(first.header("idempotency-key").unwrap(), "\"k\"");
    assert_eq!(first.header("none"), None);
    assert!(first.processed && first.answered);
    assert_eq!((log[1].number, log[1].nth, log[1].key.as_deref()), (2, 1, None));
}

#[test]
fn a_count_is_that_of_the_key() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    for (key, count) in [("a", 1), ("b", 1), ("a", 2), ("a", 3)] {
        client.post("answer", key);
        client.expect(ok(key, count));
    }
    assert_eq!(peer.arrivals("nobody"), 0);
    check(&peer, "a", &[(true, true); 3]);
}

#[test]
fn a_status_says_whether_it_had_its_effect() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("status/502", "a");
    client.expect(json("502 Bad Gateway", "", &usual("a", 0)));
    client.post("status/504/processed", "a");
    client.expect(json("504 Gateway Timeout", "", &usual("a", 1)));
    client.post("status/201/unprocessed", "a");
    client.expect(json("201 Created", "", &usual("a", 1)));
    client.post("status/204", "a");
    client.expect("HTTP/1.1 204 No Content\r\n\r\n");
    client.post("status/299", "a");
    client.expect(json("299 Other", "", &usual("a", 3)));
    let expected = [(false, true), (true, true), (false, true), (true, true), (true, true)];
    check(&peer, "a", &expected);
}

#[test]
fn a_wait_is_asked_for_in_seconds_or_until_a_date() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("retry-after/7/429", "a");
    client.expect(json("429 Too Many Requests", "retry-after: 7\r\n", &usual("a", 0)));
    client.post("retry-after/0", "a");
    client.expect(json("503 Service Unavailable", "retry-after: 0\r\n", &usual("a", 0)));
    client.post("retry-date/-99999999999/503/processed", "a");
    let long_ago = "retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    client.expect(json("503 Service Unavailable", long_ago, &usual("a", 1)));
    check(&peer, "a", &[(false, true), (false, true), (true, true)]);
}

#[test]
fn a_redirect_leads_elsewhere() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("redirect/307/do/answer", "a");
    client.expect(json("307 Temporary Redirect", "location: /do/answer\r\n", &usual("a", 0)));
    client.post("redirect/302/http%3A%2F%2Fa.test/x", "a");
    client.expect(json("302 Found", "location: http://a.test/x\r\n", &usual("a", 0)));
    check(&peer, "a", &[(false, true), (false, true)]);
}

/// A late answer and a late effect come, in their order, on the connection that waited.
#[test]
fn what_is_late_comes_nevertheless() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("answer-late/5", "a");
    client.expect(ok("a", 1));
    client.post("process-late/5", "a");
    client.expect(ok("a", 2));
    check(&peer, "a", &[(true, true), (true, true)]);
    // A client that does not wait: the effect comes when it is gone.
    let mut client = Client::of(&peer);
    client.post("process-late/20", "gone");
    peer.wait_for_arrivals("gone", 1);
    drop(client);
    peer.wait_for_processed("gone", 1);
}

#[test]
fn an_echo_has_what_arrived() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send(b"POST /do/echo HTTP/1.1\r\nA: b\r\nc: \xff\r\ncontent-length: 3\r\n\r\n\"x\"");
    client.expect(json(
        "200 OK",
        "",
        "{\"number\":1,\"nth\":1,\"key\":null,\"method\":\"POST\",\"path\":\"/do/echo\",\
         \"headers\":[[\"A\",\"b\"],[\"c\",{\"base64\":\"/w==\"}],[\"content-length\",\"3\"]],\
         \"body\":\"\\\"x\\\"\",\"processed\":true,\"answered\":false}",
    ));
}

#[test]
fn a_lookup_says_whether_a_key_was_processed() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send("GET /do/lookup/a%2Fb%20c HTTP/1.1\r\n\r\n");
    client.expect(json("200 OK", "", "{\"processed\":0}"));
    client.post("answer", "a/b c");
    client.expect(ok("a/b c", 1));
    client.send("GET /do/lookup/a/b%20c HTTP/1.1\r\n\r\n");
    client.expect(json("200 OK", "", "{\"processed\":1}"));
    // To ask for a key is no arrival of it.
    assert_eq!(peer.arrivals("a/b c"), 1);
    assert_eq!(peer.log().len(), 3);
}

#[test]
fn a_body_can_be_huge_or_slow() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    let head = |bytes: usize| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n\
             content-length: {bytes}\r\n\r\n"
        )
    };
    for bytes in [0, 1, 64 * 1024, 64 * 1024 + 1, 3_000_000] {
        client.post(&format!("huge/{bytes}"), "huge");
        client.expect(head(bytes) + &"x".repeat(bytes));
    }
    check(&peer, "huge", &[(true, true); 5]);
    client.post("slow/3/1", "slow");
    client.expect(head(3) + "xxx");
    check(&peer, "slow", &[(true, true)]);
}

/// An answer that is under way is none: it is not in the log as one before its last bytes.
#[test]
fn half_an_answer_is_none() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    // More than the system takes without a reader.
    client.post("huge/1000000000", "a");
    client.expect("HTTP/1.1 200 OK\r\n");
    drop(client);
    check(&peer, "a", &[(true, false)]);
}

#[test]
fn a_sequence_goes_by_the_arrivals_of_the_key() {
    let peer = Peer::start();
    let sequence = "seq/status/503,drop-after,answer";
    let mut client = Client::of(&peer);
    client.post(sequence, "a");
    client.expect(json("503 Service Unavailable", "", &usual("a", 0)));
    // Another key has a count of its own.
    client.post(sequence, "b");
    client.expect(json("503 Service Unavailable", "", &usual("b", 0)));
    client.post(sequence, "a");
    client.expect_closed();
    let mut client = Client::of(&peer);
    for count in 2..5 {
        client.post(sequence, "a");
        client.expect(ok("a", count));
    }
    check(&peer, "b", &[(false, true)]);
    let rest = [(true, true); 3];
    check(&peer, "a", &[&[(false, true), (true, false)][..], &rest].concat());
    // Those without a key go by their path.
    let send = |client: &mut Client, query: &str| {
        client.send(format!("GET /do/seq/status/500,answer?{query} HTTP/1.1\r\n\r\n"));
    };
    for (query, status, count) in [("1", "500 Internal Server Error", 0), ("1", "200 OK", 1)] {
        send(&mut client, query);
        client.expect(json(status, "", &format!("{{\"count\":{count},\"key\":null}}")));
    }
    send(&mut client, "2");
    client.expect("HTTP/1.1 500 ");
}

#[test]
fn a_key_is_processed_once() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    for _ in 0..3 {
        client.post("keyed", "a");
        client.expect(ok("a", 1));
    }
    check(&peer, "a", &[(true, true), (false, true), (false, true)]);
    // Whatever becomes of the answers.
    let line = "keyed/seq/drop-before,drop-after,reset,answer";
    for _ in 0..2 {
        let mut client = Client::of(&peer);
        client.post(line, "b");
        client.expect_closed();
    }
    let mut client = Client::of(&peer);
    client.post(line, "b");
    client.expect_reset();
    let mut client = Client::of(&peer);
    client.post(line, "b");
    client.expect(ok("b", 1));
    check(&peer, "b", &[(false, false), (true, false), (false, false), (false, true)]);
    // Without a key there is nothing to go by.
    for count in 1..3 {
        client.send("POST /do/keyed HTTP/1.1\r\n\r\n");
        client.expect(json("200 OK", "", &format!("{{\"count\":{count},\"key\":null}}")));
    }
}

#[test]
fn a_key_that_is_forgotten_is_processed_again() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    for _ in 0..2 {
        client.post("forget", "a");
        client.expect(ok("a", 1));
    }
    check(&peer, "a", &[(true, true), (true, true)]);
    for _ in 0..5 {
        client.post("forget/2", "b");
        client.expect(ok("b", 1));
    }
    check(&peer, "b", &[(true, true), (false, true), (true, true), (false, true), (true, true)]);
}

/// What is asked for by mistake is said, and does not look like success.
#[test]
fn a_mistake_is_told() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.post("answr", "a");
    client.expect(json(
        "400 Bad Request",
        "",
        "{\"error\":\"there is no behaviour \\\"answr\\\"\"}",
    ));
    client.send("GET /elsewhere HTTP/1.1\r\nIdempotency-Key: a\r\n\r\n");
    client.expect("HTTP/1.1 404 Not Found\r\n");
    check(&peer, "a", &[(false, true), (false, true)]);
}

#[test]
fn a_head_has_no_body() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    client.send("HEAD /do/answer HTTP/1.1\r\nIdempotency-Key: a\r\n\r\n");
    client.expect("HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n");
    client.post("answer", "a");
    client.expect(ok("a", 2));
}

#[test]
fn a_client_that_asks_is_told_to_go_on() {
    let peer = Peer::start();
    let mut client = Client::of(&peer);
    for count in 1..3 {
        client.send(
            "POST /do/answer HTTP/1.1\r\nIdempotency-Key: a\r\nExpect: 100-continue\r\n\
             content-length: 4\r\n\r\n",
        );
        client.expect("HTTP/1.1 100 Continue\r\n\r\n");
        client.send("bo");
        client.send("dy");
        client.expect(ok("a", count));
    }
    assert_eq!(peer.log()[1].body, "body");
}
