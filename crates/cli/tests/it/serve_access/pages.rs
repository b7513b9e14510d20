//! No web page drives a server, not even a server without keys, which lets in every program on its
//! machine (D11).

use indelible_server::ROUTES;

use crate::serve_access::support::{Running, json, text};

/// A request as a browser would send it, with these headers and no others but a length.
fn sent(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" {
        bytes.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    if method != "GET" {
        bytes.extend_from_slice(body);
    }
    bytes
}

/// Whatever a page of another origin can make a browser send is refused, on every path, with no
/// effect; and nothing tells a browser that the page may read an answer.
#[test]
fn no_web_page_drives_a_server_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start(folder.path(), &[]);
    server.deploy(None);
    let (execution, operation) = server.begin(None, "listen", "default", "9");
    let over = server.begin(None, "echo", "default", "1").0;
    let promise = format!("{execution}.1");
    let made = br#"{"name":"x","roles":["admin"],"namespaces":["*"]}"#;
    let made = Some(("application/json", &made[..]));
    let token = server.ask("POST", "/v1/tokens", None, made).json();
    let token = token["token"]["id"].as_str().unwrap().to_owned();
    let own = server.address.clone();
    let port = own.rsplit_once(':').unwrap().1;
    let path_of = |method: &http::Method, path: &str| {
        // What is over is shown at once, if it is.
        let execution = if *method == http::Method::GET { &over } else { &execution };
        let path = path.replace("{component}", "bench").replace("{function}", "echo");
        let path = path.replace("{execution}", execution).replace("{operation}", &operation);
        let path = path.replace("{promise}", &promise).replace("{signal}", "go");
        path.replace("{token}", &token)
    };
    let before = server.snapshot(None);

    let rebound = format!("rebound.example:{port}");
    let own_origin = format!("http://{own}");
    let other_port = "http://127.0.0.1:1".to_owned();
    let hosts: Vec<Vec<(&str, &str)>> = vec![
        vec![("host", &own), ("origin", "https://evil.example")],
        vec![("host", &own), ("origin", "null")],
        vec![("host", &own), ("origin", "")],
        vec![("host", &own), ("origin", &other_port)],
        vec![("host", &own), ("origin", &own_origin), ("origin", "https://evil.example")],
        vec![("host", &own), ("sec-fetch-site", "cross-site")],
        vec![("host", &own), ("sec-fetch-site", "same-site")],
        vec![("host", &own), ("origin", &own_origin), ("sec-fetch-site", "cross-site")],
        // A name of the page's own that was made to point here.
        vec![("host", &rebound)],
        vec![("host", &rebound), ("sec-fetch-site", "same-origin")],
        vec![("host", "127.0.0.1:1")],
        vec![("host", "127.0.0.1.evil.example")],
        vec![("host", "0x7f.1")],
        vec![("host", "")],
        vec![("host", &own), ("host", &rebound)],
        vec![],
    ];
    let mut wrong = Vec::new();
    for route in ROUTES {
        for headers in &hosts {
            let kind = match route.method.as_str() {
                "PUT" => "application/wasm",
                _ => "application/json",
            };
            let mut headers = headers.clone();
            if route.method != http::Method::GET {
                headers.push(("content-type", kind));
            }
            let bytes =
                sent(route.method.as_str(), &path_of(&route.method, route.path), &headers, b"{}");
            let answers = server.raw(&bytes, false);
            let status = answers.first().map_or(0, |answer| answer.status);
            let said =
                answers.first().is_some_and(|answer| text(answer).contains("origin-refused"));
            if status != 403 || !said {
                wrong.push(format!("{route:?} {headers:?}: {status}"));
            }
        }
        // What a browser asks before it sends what is not simple, with an origin and without.
        let path = path_of(&route.method, route.path);
        let ask = [("host", own.as_str()), ("access-control-request-method", "POST")];
        let asked = server.raw(&sent("OPTIONS", &path, &ask, b""), false);
        if asked[0].status != 405 || asked[0].header("allow").is_none() {
            wrong.push(format!("OPTIONS {path}: {}", asked[0].status));
        }
        let from = [ask[0], ask[1], ("origin", "https://evil.example")];
        let asked = server.raw(&sent("OPTIONS", &path, &from, b""), false);
        if asked[0].status != 403 {
            wrong.push(format!("OPTIONS {path} with an origin: {}", asked[0].status));
        }
    }
    // What a form or a script can send without asking first, if nothing said where it comes from.
    for (method, path) in [
        ("POST", "/v1/call/bench/echo"),
        ("POST", "/v1/start/bench/echo"),
        ("POST", "/v1/tokens"),
        ("POST", &*format!("/v1/executions/{execution}/signals/go")),
        ("POST", &*format!("/v1/executions/{execution}/cancel")),
        ("PUT", "/v1/components/bench"),
    ] {
        for kind in [
            Some("text/plain"),
            Some("text/plain; charset=application/json"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("application/jsonp"),
            Some(""),
            None,
        ] {
            let mut headers = vec![("host", own.as_str())];
            headers.extend(kind.map(|kind| ("content-type", kind)));
            let answers = server.raw(&sent(method, path, &headers, b"1"), false);
            if answers[0].status != 415 {
                let text = text(&answers[0]);
                wrong.push(format!("{method} {path} as {kind:?}: {} {text}", answers[0].status));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(server.snapshot(None), before);

    // A program, and a page of the server's own, are served; the record names no client, but
    // `system:local`.
    for headers in [
        vec![("host", own.as_str())],
        vec![("host", &own), ("origin", &own_origin), ("sec-fetch-site", "same-origin")],
        vec![("host", &own), ("sec-fetch-site", "none")],
    ] {
        let answers = server.raw(&sent("GET", "/v1/health", &headers, b""), false);
        assert_eq!(answers[0].status, 200, "{headers:?}");
    }
    assert_eq!(server.ask("POST", "/v1/call/bench/echo", None, json("1")).status, 200);
    let record = server.ask("GET", "/v1/audit?limit=1", None, None).json();
    assert_eq!(record["entries"][0]["actor"], "system:local");
    for answer in server.seen() {
        for (name, value) in &answer.headers {
            assert!(!name.to_lowercase().starts_with("access-control"), "{name}: {value}");
        }
    }
}
