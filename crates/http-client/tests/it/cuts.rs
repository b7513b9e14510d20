//! Answers that are cut off, after every one of their bytes.

use crate::support::*;

const ANSWERS: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 4\r\n\r\ndone",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 1\r\n\r\nx",
    "HTTP/1.1 204 None\r\n\r\n",
];

/// All of it or nothing, for every method: half an answer is none.
#[tokio::test]
async fn half_an_answer_is_no_answer() {
    for (index, answer) in ANSWERS.iter().enumerate() {
        let peer = Peer::answering(|seen| {
            let mut parts = seen.line().split(['/', ' ']).filter_map(|part| part.parse().ok());
            let (index, cut): (usize, usize) = (parts.next().unwrap(), parts.next().unwrap());
            // A whole answer leaves the connection open, and the next request may come on it.
            let answer = Answer::raw(&ANSWERS[index][..cut]);
            if cut < ANSWERS[index].len() { answer.then_close() } else { answer }
        })
        .await;
        let client = client_for(&peer);
        for cut in 0..=answer.len() {
            for method in ["POST", "GET"] {
                let url = peer.url(&format!("/{index}/{cut}"));
                let end = ask(&client, method, &url).await;
                if cut == answer.len() {
                    answered(&end);
                } else {
                    unknown(&end);
                }
            }
        }
        assert_eq!(peer.arrivals.count(), 2 * (answer.len() + 1), "each once");
    }
}

/// The same, on connections that have carried a request before.
#[tokio::test]
async fn half_an_answer_is_no_answer_on_a_used_connection() {
    let answer = ANSWERS[0];
    let peer = Peer::answering(move |seen| match seen.line().split(['/', ' ']).nth(2).unwrap() {
        "first" => Answer::text(200, "first"),
        cut => Answer::raw(&answer[..cut.parse().unwrap()]).then_close(),
    })
    .await;
    let client = client_for(&peer);
    for cut in 0..answer.len() {
        assert_eq!(answered(&ask(&client, "POST", &peer.url("/first")).await).1, "first");
        unknown(&ask(&client, "POST", &peer.url(&format!("/{cut}"))).await);
    }
    assert_eq!(peer.arrivals.count(), 2 * answer.len(), "each once");
}
