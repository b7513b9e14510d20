//! What a server logs: as much as it is told to, in the form it is told, and never what is secret.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use indelible_http_peer::Peer;
use serde_json::{Value, json};

use super::bad_use::check;
use super::{said, serve};
use crate::support::process::{lines, request, until};

/// A filter or a format that is none is refused before the folder is touched, wherever it is from.
#[test]
fn filters_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let hint = "hint: off, error, warn, info, debug or trace";
    for filter in ["inof", "hyper=trace", "indelible_store=loud"] {
        let wrong = format!("error: --log: \"{filter}\" is not a valid log filter");
        check(folder.path(), &[], &["--log", filter], 2, &[&wrong, hint]);
    }
    let wrong = "error: INDELIBLE_LOG: \"loud\" is not a valid log filter";
    check(folder.path(), &[("INDELIBLE_LOG", "loud")], &[], 1, &[wrong, hint]);
    let wrong = "error: --log-format: \"xml\" is not a valid log format";
    check(folder.path(), &[], &["--log-format", "xml"], 2, &[wrong, "hint: one of text, json"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let (_, text) = said(folder.path(), &[], &["--print-config", "--log", "debug"]);
    assert_eq!(text, "");
}

/// The API key of a request, a secret that a function sends, what is called with, what is sent and
/// answered, and the query of a URL: the log has none of it, whatever is asked for.
#[test]
fn nothing_secret_is_logged() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let (peer, data) = (Peer::start(), folder.path().join("data"));
        let key = token(&data);
        let (server, address) = start(folder.path(), &peer, format);
        let kind = ("authorization", &*format!("Bearer {key}"));
        let wasm = fs::read(indelible_guests::component("behaviours")).unwrap();
        let headers = [kind, ("content-type", "application/wasm")];
        let deployed = request(&address, "PUT", "/v1/components/shop", &headers, &wasm);
        assert_eq!(deployed.unwrap().status, 200);
        let call = |function: &str, input: &Value, authorization: &str| {
            let headers = [
                ("authorization", authorization),
                ("content-type", "application/json"),
                ("idempotency-key", function),
            ];
            let path = format!("/v1/call/shop/{function}?namespace=default");
            let body = input.to_string();
            request(&address, "POST", &path, &headers, body.as_bytes()).unwrap()
        };
        let spec = json!({
            "method": "POST", "url": peer.url("/do/echo?query=qu3ry-0f-th3-url"), "body": "p4yl04d",
            "headers": [["x-plain", "v4lu3-0f-4-h34d3r"]], "secrets": [["x-key", "KEY"]],
        });
        let answer = call("sends", &spec, kind.1);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        assert!(String::from_utf8_lossy(&answer.body).contains("p4yl04d"), "it was answered");
        let failed = call("fail_transient", &json!("p4yl04d 0f a failure"), kind.1);
        assert_eq!(failed.status, 424, "{}", String::from_utf8_lossy(&failed.body));
        assert_eq!(call("sends", &spec, "Bearer 0f-4n0th3r-c4ll3r").status, 401);
        let log = stop(server, folder.path());
        for hidden in [
            &*key,
            "s3cr3t-0f-th3-t3st",
            "p4yl04d",
            "v4lu3-0f-4-h34d3r",
            "qu3ry-0f-th3-url",
            "0f-4n0th3r-c4ll3r",
            "query=",
            "Bearer",
        ] {
            assert!(!log.contains(hidden), "{hidden} is in the log:\n{log}");
        }
        for told in [
            "component deployed",
            "request answered",
            "guest ran",
            "sending request",
            "attempt ended",
            "attempt failed",
            "commit is durable",
            "execution ended",
            "/v1/call/{component}/",
        ] {
            assert!(log.contains(told), "{told} is not in the log:\n{log}");
        }
        match format {
            "json" => all_json(&log),
            _ => assert!(log.contains(&format!(" method=\"POST\" host=\"{}\"", peer.address()))),
        }
    }
}

/// Each line is an object with the time, the level and the target; spans have their fields.
fn all_json(log: &str) {
    let mut spans = BTreeSet::new();
    for line in log.lines() {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(line["target"].as_str().unwrap().starts_with("indelible"), "{line}");
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
        let around = line["spans"].as_array().into_iter().flatten();
        spans.extend(around.map(|span| span["name"].as_str().unwrap().to_owned()));
    }
    assert_eq!(spans, ["commit", "effect", "execution", "request"].map(str::to_owned).into());
}

/// Makes an API key in a data folder.
fn token(data: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["token", "create", "test", "--role", "admin", "--json", "--data"])
        .arg(data)
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    made["secret"].as_str().unwrap().to_owned()
}

/// A server that may send to a peer, with a secret, and logs everything to the file `log`; and its
/// address.
fn start(folder: &Path, peer: &Peer, format: &str) -> (Child, String) {
    let host = peer.address();
    let file = format!(
        "listen = \"127.0.0.1:0\"\ndata = \"data\"\nkeys = true\nlog = \"trace\"\n\
         [components.shop]\nhosts = [\"{host}\"]\nplain_http = true\nnetworks = [\"loopback\"]\n\
         secrets = [\"KEY\"]\n[secrets]\nKEY = \"file:key\"\n"
    );
    fs::write(folder.join("indelible.toml"), file).unwrap();
    fs::write(folder.join("key"), "s3cr3t-0f-th3-t3st").unwrap();
    let arguments = ["--config", "indelible.toml", "--log-format", format];
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut command = serve(folder, &[], &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let url = lines(child.stdout.take().unwrap()).next().unwrap();
    (child, url.strip_prefix("http://").unwrap().to_owned())
}

/// Stops it; what it has logged.
fn stop(mut child: Child, folder: &Path) -> String {
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(until("the server ends", || child.try_wait().unwrap()).success());
    fs::read_to_string(folder.join("log")).unwrap()
}
