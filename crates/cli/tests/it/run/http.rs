//! Functions with HTTP requests: what they may reach, which secrets they have, and what a person
//! says of a request of which it is unknown whether it happened.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Output, Stdio};

use indelible_http_peer::Peer;

use super::{indelible, run, text};

fn spec(peer: &Peer, method: &str, path: &str, more: &str) -> String {
    let url = peer.url(path);
    format!(r#"{{"method":"{method}","url":"{url}","backoff_ms":1{more}}}"#)
}

/// What allows a function to reach the peer.
fn allowed(peer: &Peer) -> Vec<String> {
    let host = peer.address().to_string();
    let words = ["--allow-host", &host, "--allow-network", "loopback", "--allow-plain-http"];
    words.map(str::to_owned).to_vec()
}

fn sends(folder: &Path, id: &str, spec: &str, more: &[String]) -> Output {
    let mut arguments = vec!["sends", spec, "--id", id];
    arguments.extend(more.iter().map(String::as_str));
    run(folder, "behaviours", &arguments)
}

/// D11: nothing may be reached, and no secret be sent, unless it is said; each part of it counts.
#[test]
fn a_function_reaches_what_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::start();
    let get = spec(&peer, "GET", "/do/answer", "");
    let all = allowed(&peer);
    for (id, allowed) in [("none", &all[..0]), ("host", &all[..2]), ("network", &all[..4])] {
        let output = sends(folder.path(), id, &get, allowed);
        assert!(text(&output.stdout).contains("NotPerformed"), "{id}: {}", text(&output.stdout));
    }
    assert!(peer.log().is_empty(), "nothing was sent");
    let output = sends(folder.path(), "all", &get, &all);
    assert!(text(&output.stdout).contains("\"status\":200"), "{}", text(&output.stdout));
    assert_eq!(peer.log().len(), 1);
}

/// D11: a secret leaves with the request, and is nowhere else.
#[test]
fn a_secret_is_sent_and_not_kept() {
    const VALUE: &str = "s3cr3t-0f-th3-t3st";
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::start();
    let echo = spec(&peer, "POST", "/do/echo", r#","secrets":[["x-key","KEY"]]"#);
    let refused = sends(folder.path(), "without", &echo, &allowed(&peer));
    assert!(text(&refused.stdout).contains("NotPerformed"), "{}", text(&refused.stdout));
    let component = indelible_guests::component("behaviours");
    let output = indelible(folder.path())
        .arg("run")
        .arg(component)
        .args(["sends", &echo, "--id", "with", "--secret", "KEY=env:OF_THE_TEST"])
        .args(["--journal", "all.jsonl"])
        .args(allowed(&peer))
        .env("OF_THE_TEST", VALUE)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let arrived = peer.log();
    assert_eq!(arrived.len(), 1);
    assert_eq!(arrived[0].header("x-key").map(|value| value.to_vec()), Some(VALUE.into()));
    // The peer sent it back, and it was taken out.
    for said in [&output.stdout, &output.stderr] {
        assert!(!text(said).contains(VALUE), "{}", text(said));
    }
    for file in walk(folder.path()) {
        let bytes = std::fs::read(&file).unwrap();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "it is in {}", file.display());
    }
    let wrong = sends(folder.path(), "wrong", &echo, &["--secret".into(), "KEY=hunter2".into()]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!text(&wrong.stderr).contains("the source of KEY is hunter2"));
}

/// D11: a secret that is sent back in the name of a header, which arrives in lower case, is taken out
/// too; one that is too short to be found is refused, and nothing is made.
#[test]
fn a_secret_is_found_in_a_headers_name_and_must_be_long_enough() {
    const VALUE: &str = "S3cr3t-0f-Th3-T3st";
    let folder = tempfile::tempdir().unwrap();
    let head = "HTTP/1.1 200 OK\r\nX-S3cr3t-0f-Th3-T3st: 1\r\nContent-Length: 0\r\n\r\n";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let lines: Vec<_> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        stream.write_all(head.as_bytes()).unwrap();
        lines
    });
    let post =
        format!(r#"{{"method":"POST","url":"http://{address}/","secrets":[["x-key","KEY"]]}}"#);
    let send = |value: &str| {
        indelible(folder.path())
            .arg("run")
            .arg(indelible_guests::component("behaviours"))
            .args(["sends", &post, "--secret", "KEY=env:OF_THE_TEST", "--journal", "all.jsonl"])
            .args(["--allow-host", &address.to_string()])
            .args(["--allow-network", "loopback", "--allow-plain-http"])
            .env("OF_THE_TEST", value)
            .output()
            .unwrap()
    };
    let refused = send("hunter2");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("the secret `KEY` has fewer than 8 bytes"), "{said}");
    assert!(said.contains("hint: use a longer secret") && !said.contains("hunter2"), "{said}");
    assert_eq!(walk(folder.path()), [""; 0].map(std::path::PathBuf::from));

    let output = send(VALUE);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(peer.join().unwrap().contains(&format!("x-key: {VALUE}")));
    let lower = VALUE.to_lowercase();
    for file in walk(folder.path()) {
        let bytes = std::fs::read(&file).unwrap().to_ascii_lowercase();
        let found = bytes.windows(lower.len()).any(|window| window == lower.as_bytes());
        assert!(!found, "it is in {}", file.display());
    }
    assert!(!text(&output.stdout).to_lowercase().contains(&lower), "{}", text(&output.stdout));
}

/// D11: requests go through the proxies of the environment only if that is said.
#[test]
fn a_proxy_is_used_if_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, proxy) = (Peer::start(), Peer::start());
    let get = spec(&peer, "GET", "/do/answer", "");
    let send = |id: &str, proxy: &str, more: &[&str]| {
        let mut command = indelible(folder.path());
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        command.arg("run").arg(indelible_guests::component("behaviours"));
        command.args(["sends", &get, "--id", id]).args(allowed(&peer)).args(more);
        command.env("HTTP_PROXY", proxy).output().unwrap()
    };
    let warning = "warning: HTTP_PROXY is set and ignored: ";
    let straight = send("straight", &proxy.url(""), &[]);
    assert!(text(&straight.stdout).contains("\"status\":200"), "{}", text(&straight.stdout));
    assert!(text(&straight.stderr).contains(warning), "{}", text(&straight.stderr));
    assert!(text(&straight.stderr).contains("--proxy-from-environment sends"));
    assert_eq!((peer.log().len(), proxy.log().len()), (1, 0));

    let through = send("through", &proxy.url(""), &["--proxy-from-environment"]);
    assert!(!text(&through.stderr).contains(warning), "{}", text(&through.stderr));
    assert_eq!((peer.log().len(), proxy.log().len()), (1, 1));
    assert_eq!(proxy.log()[0].path, peer.url("/do/answer"), "a proxy is asked for the whole URL");

    let wrong = send("wrong", "socks5://p", &["--proxy-from-environment"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("hint: correct the environment variable"));
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

/// D5, C-38: a request that is held is listed, resolved once by a person, and its workflow goes on
/// from there; the peer sees it once.
#[test]
fn a_person_resolves_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let peer = Peer::start();
    let held = spec(&peer, "POST", "/do/drop-after", r#","hold":true"#);
    let component = indelible_guests::component("behaviours");
    let mut child = indelible(folder.path())
        .arg("run")
        .arg(&component)
        .args(["sends", &held, "--id", "one"])
        .args(allowed(&peer))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with("waits POST http://127.0.0.1")));
    assert!(said.next().unwrap().unwrap().contains("check the other service"));
    let how = said.next().unwrap().unwrap();
    assert!(how.contains("indelible resolve") && how.contains("--data indelible-data"), "{how}");
    child.kill().unwrap();
    child.wait().unwrap();

    let here = ["--data", "indelible-data"];
    let list = |arguments: &[&str]| {
        let mut command = indelible(folder.path());
        command.arg("unresolved").args(here).args(arguments).output().unwrap()
    };
    let listed = list(&["--json"]);
    let line: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((line["v"].as_u64(), line["state"].as_str()), (Some(1), Some("held")));
    let promise = line["promise_id"].as_str().unwrap();
    let people = list(&[]);
    assert!(text(&people.stdout).contains(promise));

    let resolve = |arguments: &[&str]| {
        indelible(folder.path()).arg("resolve").args(arguments).args(here).output().unwrap()
    };
    let part = resolve(&[&promise[..8], "did-not-happen", "--reason", "x"]);
    assert_eq!(part.status.code(), Some(2));
    assert!(text(&part.stderr).contains("give the whole id"), "{}", text(&part.stderr));
    let nonsense = resolve(&["7", "did-not-happen", "--reason", "x"]);
    assert_eq!(nonsense.status.code(), Some(2));
    let no_reason = resolve(&[promise, "did-not-happen"]);
    assert_eq!(no_reason.status.code(), Some(2));
    let unsure = resolve(&[promise, "run-again", "--reason", "sure?"]);
    assert_eq!(unsure.status.code(), Some(1));
    assert!(text(&unsure.stderr).contains("It may happen twice"), "{}", text(&unsure.stderr));
    let happened = ["happened", "--status", "201", "--body", "seen", "--reason", "I saw it"];
    let first = resolve(&[&[promise], &happened[..]].concat());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let second = resolve(&[promise, "run-again", "--reason", "sure?", "--yes"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("nothing has changed"), "{}", text(&second.stderr));

    let output = sends(folder.path(), "one", &held, &allowed(&peer));
    assert!(text(&output.stdout).contains("\"status\":201,\"body\":\"seen\""));
    assert_eq!(peer.log().len(), 1, "it was sent once");
    let listed = list(&["--json"]);
    assert!(listed.stdout.is_empty() && listed.status.success());
    let nowhere = indelible(folder.path()).args(["unresolved", "--data", "none"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
}
