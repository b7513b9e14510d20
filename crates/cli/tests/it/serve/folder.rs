//! The files of a data folder: who may read them, and what becomes of one that cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::support::process::{Server, until};

const LOGGED: &str = "[{\"log\":\"hello\"}]";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything below a folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(entries(&path));
        }
        found.push(path);
    }
    found
}

/// Every file of a data folder is readable by its owner alone, also if the folder itself is open to
/// others; files that an earlier version left open are closed.
#[test]
fn files_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let serve = || {
        let server = Server::start(&data, &[]);
        server.deploy("script", "script");
        assert_eq!(server.post("/v1/call/script/main", &[], LOGGED).status, 200);
        server.stop();
    };
    serve();
    let check = || {
        let all = entries(&data);
        for name in ["store/FORMAT", "store/LOCK", "store/engine", "artifacts", "replays", "logs"] {
            assert!(all.contains(&data.join(name)), "{name} is not there: {all:?}");
        }
        for path in all {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
    };
    check();
    assert_eq!(mode(&data), 0o755, "the folder itself is its owner's to decide");
    let ours =
        ["store/FORMAT", "store/LOCK", "replays", "store", "store/engine", "artifacts", "logs"];
    for name in ours {
        let path = data.join(name);
        let wide = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(wide)).unwrap();
    }
    serve();
    check();
}

/// A folder that other users can write to is served, with a warning: the server trusts its files.
#[test]
fn a_folder_that_others_can_write_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let server = Server::start(folder.path(), &[]);
    until("it is told", || server.said().contains("other users can write to").then_some(()));
}

/// C-85: a list of replays that cannot be read does not keep the server down. It is put aside, that
/// is told, and everything that was accepted is there.
#[test]
fn a_torn_list_of_replays_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let key = [("idempotency-key", "k-1")];
    let server = Server::start(data, &[]);
    server.deploy("bench", "bench");
    let first = server.post("/v1/call/bench/echo", &key, "1");
    server.stop();
    for (number, torn) in [&b"indelible repl"[..], &[0; 64]].into_iter().enumerate() {
        fs::write(data.join("replays"), torn).unwrap();
        let server = Server::start(data, &[]);
        let aside = data.join(format!("replays.damaged-{}", number + 1));
        assert_eq!(fs::read(&aside).unwrap(), torn);
        let name = aside.to_str().unwrap().to_owned();
        until("it is told", || server.said().contains(&name).then_some(()));
        assert!(server.said().contains(" WARN "), "{}", server.said());
        let again = server.post("/v1/call/bench/echo", &key, "1");
        assert_eq!(again.header("indelible-verdict"), Some("PriorResult"));
        assert_eq!(again.json()["result"], first.json()["result"]);
        server.stop();
    }
}

/// What a crash left half written is cut off, and how much that was is told.
#[test]
fn a_torn_commit_is_told_with_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data, &[]);
    server.deploy("bench", "bench");
    for number in 0..3 {
        let key = format!("k-{number}");
        assert_eq!(
            server.post("/v1/call/bench/echo", &[("idempotency-key", &key)], "1").status,
            200
        );
    }
    server.kill();
    let journals: Vec<_> = entries(&data.join("store/engine"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    let [journal] = &journals[..] else { panic!("{journals:?}") };
    let mut content = fs::read(journal).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    content.truncate(end - 20);
    fs::write(journal, &content).unwrap();
    let server = Server::start(data, &[]);
    until("it is told", || {
        let said = server.said();
        let line = said.lines().find(|line| line.contains("a torn commit of "))?.to_owned();
        let bytes = line.split("a torn commit of ").nth(1)?.split(' ').next()?;
        assert!(bytes.parse::<u64>().unwrap() > 0, "{line}");
        Some(())
    });
    assert_eq!(server.post("/v1/call/bench/echo", &[("idempotency-key", "k-0")], "1").status, 200);
}

/// No word about a folder that is damaged leads to another, empty one: there every key is free.
#[test]
fn no_hint_leads_to_an_empty_folder() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let server = Server::start(&whole, &[]);
    server.deploy("bench", "bench");
    server.stop();
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 6] = [
        ("the store is gone", |data| fs::remove_dir_all(data.join("store")).unwrap()),
        ("FORMAT is gone", |data| fs::remove_file(data.join("store/FORMAT")).unwrap()),
        ("FORMAT is torn", |data| fs::write(data.join("store/FORMAT"), "indel").unwrap()),
        ("the engine is gone", |data| fs::remove_dir_all(data.join("store/engine")).unwrap()),
        ("a file is gone", |data| fs::remove_file(data.join("store/engine/version")).unwrap()),
        ("keyspaces are gone", |data| {
            fs::remove_dir_all(data.join("store/engine/keyspaces")).unwrap();
        }),
    ];
    for (number, (case, damage)) in cases.into_iter().enumerate() {
        let data = folder.path().join(number.to_string());
        super::damage::copy(&whole, &data);
        damage(&data);
        let Err((code, said)) = Server::try_start(&data, &[]) else { panic!("{case}: it started") };
        assert_eq!(code, Some(1), "{case}: {said}");
        assert!(said.contains("hint: ") && said.contains("backup"), "{case}: {said}");
        assert!(!said.contains("--data"), "{case}: {said}");
    }
}
