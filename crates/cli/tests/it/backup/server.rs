//! What a server gives: to admins, one at a time; and a connection that breaks leaves nothing.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use indelible_http_peer::Peer;

use super::store;
use crate::support::process::{Server, request, until};

/// Makes an API key of this role in a data folder, which is made too.
pub(super) fn token(data: &Path, role: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["token", "create", role, "--role", role, "--data"])
        .arg(data)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Only an admin gets a backup; others are told so, and no file is made. A server that is not there
/// is told from one that refuses.
#[test]
fn backups_are_for_admins() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("file"));
    let (admin, caller) = (token(&data, "admin"), token(&data, "call"));
    let server = Server::start(&data, &["--keys"]);
    let url = format!("http://{}", server.address);
    let kept = |token: &str| {
        let path = folder.path().join("token");
        std::fs::write(&path, token).unwrap();
        path
    };
    let ask = |token: &Path| {
        store(&[&"backup", &file, &"--json", &"--url", &url, &"--token-file", &token])
    };
    ask(&kept(&caller)).refused(1, "forbidden");
    store(&[&"backup", &file, &"--url", &url]).refused(1, "unauthenticated");
    assert!(!file.exists());
    let made = ask(&kept(&admin)).json();
    assert!(made["rows"].as_u64().unwrap() > 0);
    // The API key is in the file, by its name, and its secret is not; only its owner may read it.
    let bytes = std::fs::read(&file).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    // What follows the second `_` is the secret, which may have `_` in it: the end alone can be so
    // short that it stands in any file.
    let secret = admin.splitn(3, '_').nth(2).unwrap();
    assert!(has("admin") && !has(secret), "{secret}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
    assert_eq!(mode & 0o077, 0);
    // A file that is there is replaced only if that was said.
    ask(&kept(&admin)).refused(1, "already exists");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let forced =
        store(&[&"backup", &file, &"--force", &"--url", &url, &"--token-file", &kept(&admin)]);
    assert_eq!(forced.code, Some(0), "{}", forced.errors);
    assert!(forced.out.contains("position"), "{}", forced.out);
    assert_ne!(std::fs::read(&file).unwrap(), bytes, "it has one entry of the record more");
    // A port that no process listens on, and that no other process is given meanwhile.
    let nobody = Peer::start();
    nobody.down();
    let other = folder.path().join("other");
    let said = store(&[&"backup", &other, &"--url", &nobody.url("")]);
    said.refused(5, "no server responds");
    said.refused(5, "with --data DIR");
    // A backup is of everything, whatever the namespace.
    assert_eq!(store(&[&"backup", &other, &"--url", &url, &"--namespace", &"eu"]).code, Some(2));
    assert_eq!(super::names(folder.path()), ["data", "file", "token"]);
}

/// Another one is refused as busy while one is being taken, and not when that is over, however it
/// ended.
#[test]
fn one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.deploy("bench", "bench");
    // More than what a connection takes by itself.
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    for _ in 0..24 {
        assert_eq!(server.post("/v1/call/bench/echo", &[], &large).status, 200);
    }
    let mut first = TcpStream::connect(&server.address).unwrap();
    let head = format!("GET /v1/backup HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    first.write_all(head.as_bytes()).unwrap();
    let mut begin = [0; 12];
    first.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    let refused = server.get("/v1/backup");
    assert_eq!((refused.status, &refused.json()["code"]), (503, &"busy".into()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Calls are served meanwhile.
    assert_eq!(server.post("/v1/call/bench/echo", &[], "1").status, 200);
    drop(first);
    let file = folder.path().join("file");
    let url = format!("http://{}", server.address);
    let made = until("the first one is over", || {
        let made = store(&[&"backup", &file, &"--json", &"--url", &url]);
        (!made.errors.contains("busy")).then(|| made.json())
    });
    assert!(made["bytes"].as_u64().unwrap() > 24 << 20);
    let answer = request(&server.address, "GET", "/v1/backup", &[], b"").unwrap();
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
}

/// A server that breaks off, or sends what is no whole backup although its answer is whole: no file
/// is made, and what is wrong is told.
#[test]
fn a_broken_answer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    server.deploy("bench", "bench");
    server.kill();
    let good = folder.path().join("good");
    store(&[&"backup", &good, &"--json", &"--data", &data]).json();
    let good = std::fs::read(good).unwrap();
    let cases: [(&[u8], usize, i32, &str); 4] = [
        // Less than was announced.
        (&good[..good.len() / 2], good.len(), 5, "no response from"),
        // All that was announced, and not all of it.
        (&good[..good.len() / 2], good.len() / 2, 1, "it is incomplete"),
        (b"not what was asked for", 22, 1, "it is not a backup"),
        (b"", 0, 1, "it is not a backup"),
    ];
    for (body, announced, code, words) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let file = folder.path().join("file");
        // It is not waited for: a command that never asks for a backup fails below.
        let body = body.to_vec();
        std::thread::spawn(move || answer(&listener, &body, announced, || {}));
        let said = store(&[&"backup", &file, &"--url", &url]);
        said.refused(code, words);
        assert_eq!(super::names(folder.path()), ["data", "good"]);
    }
}

/// Without `--force`, a file that another process has made while the backup was taken stays.
#[test]
fn a_file_that_came_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("file"));
    token(&data, "admin");
    store(&[&"backup", &file, &"--json", &"--data", &data]).json();
    let good = std::fs::read(&file).unwrap();
    for (flags, left) in [(&[][..], &b"theirs"[..]), (&["--force"][..], &good[..])] {
        std::fs::remove_file(&file).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // It is not waited for: a command that never asks for a backup fails below.
        let (body, at) = (good.clone(), file.clone());
        let make = move || std::fs::write(&at, "theirs").unwrap();
        std::thread::spawn(move || answer(&listener, &body, body.len(), make));
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> =
            vec![&"backup", &file, &"--url", &url];
        arguments.extend(flags.iter().map(|flag| flag as &dyn AsRef<std::ffi::OsStr>));
        let said = store(&arguments);
        match flags {
            [] => said.refused(1, "file already exists"),
            _ => assert_eq!(said.code, Some(0), "{}", said.errors),
        }
        assert_eq!(std::fs::read(&file).unwrap(), left);
        assert_eq!(super::names(folder.path()), ["data", "file"]);
    }
}

/// Answers a health check, and then a request for a backup with these bytes, when something is done.
fn answer(listener: &TcpListener, body: &[u8], announced: usize, meanwhile: impl Fn()) {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let is_backup = head.starts_with(b"GET /v1/backup");
        if is_backup {
            meanwhile();
        }
        let (kind, body, length) = match is_backup {
            true => ("application/octet-stream", body, announced),
            false => ("application/json", &b"{}"[..], 2),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        if is_backup {
            return;
        }
    }
}
