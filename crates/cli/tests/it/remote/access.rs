//! Who may do what: the first key, contexts, keys of a server, and those who have none.

use super::kit::{House, Said, User, guest};
use crate::support::process::Server;

fn refused(said: &Said, word: &str) {
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{}", said.stderr);
    assert!(said.stderr.contains(word) && said.stderr.contains("hint: "), "{}", said.stderr);
}

/// From an empty folder to a key for a program, and its end.
#[test]
fn from_the_first_key_to_a_revoked_one() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let ops = User::new();
    let first = ops.run(&["token", "create", "ops", "--role", "admin", "--data", folder]);
    first.check(
        0,
        "
        [SECRET]
        ---
        [KEY]  ops  admin  *  for ever
        this key is shown only once; use it as INDELIBLE_TOKEN, with --token-file, or with
          indelible context add NAME --url URL --token-stdin
        ",
    );
    let house = House { server: Server::start(data.path(), &["--keys"]), data };
    let url = format!("http://{}", house.server.address);
    let add = ["context", "add", "prod", "--url", &url, "--token-stdin"];
    assert_eq!(ops.run_with(&add, &first.stdout).code, 0);
    ops.does(&["deploy", &guest("order-saga")]);

    let made = ops.run(&["token", "create", "shop", "--role", "call", "--namespace", "eu"]);
    made.check(
        0,
        "
        [SECRET]
        ---
        [KEY]  shop  call  eu  for ever
        this key is shown only once; use it as INDELIBLE_TOKEN, with --token-file, or with
          indelible context add NAME --url URL --token-stdin
        ",
    );
    let shop = User::of(&house.server).with_token(made.stdout.trim());
    let order = r#"{"id":"o-1","item":"tea","quantity":2,"cents":500}"#;
    assert_eq!(shop.does(&["call", "order", order, "--key", "o-1"]), "\"parcel o-1\"\n");
    shop.file("key", &made.stdout);
    let with_file = User::of(&house.server);
    let file = shop.folder().join("key");
    let call = ["call", "order", order, "--key", "o-1", "--token-file", file.to_str().unwrap()];
    assert_eq!(with_file.does(&call), "\"parcel o-1\"\n");

    // What the key is not for.
    shop.run(&["deploy", &guest("trivial")]).check(
        1,
        "
        ---
        error: the credential lacks the role deploy (forbidden)
        hint: an admin creates a key with the role: `indelible token create NAME --role ROLE`
        ",
    );
    refused(&shop.run(&["token", "list"]), "(forbidden)");
    refused(&shop.run(&["audit"]), "(forbidden)");
    refused(&shop.run(&["cancel", "last", "--yes"]), "(forbidden)");
    let elsewhere = shop.run(&["call", "order", order, "--namespace", "us"]);
    refused(&elsewhere, "does not permit the namespace");

    // Without a key, and with one that the server does not know.
    User::of(&house.server).run(&["functions"]).check(
        1,
        "
        ---
        error: a valid API key or session token is needed (unauthenticated)
        hint: the server needs an API key: set INDELIBLE_TOKEN, or use --token-file or \
        `indelible context add`
        ",
    );
    let unknown = "
        ---
        error: a valid API key or session token is needed (unauthenticated)
        hint: the key in INDELIBLE_TOKEN is unknown, expired or revoked; an admin creates one \
        with `indelible token create`
    ";
    let stranger = User::of(&house.server).with_token("ind_0123456789abcdef_nobody-knows-this-one");
    stranger.run(&["call", "order-saga/order", order]).check(1, unknown);

    let tokens = ops.does(&["token", "list"]);
    assert_eq!(tokens.lines().count(), 2, "{tokens}");
    let id = tokens.lines().find(|line| line.contains("shop")).unwrap();
    let id = id.split(' ').next().unwrap();
    ops.run(&["token", "revoke", id]).check(
        1,
        "
        ---
        error: not confirmed: revoke the API key [KEY]? Its users lose access at once
        hint: confirm with --yes; nothing was done
        ",
    );
    assert_eq!(shop.run(&["functions"]).code, 0);
    ops.run(&["token", "revoke", id, "--yes"]).check(0, "---\nrevoked [KEY] (shop)");
    shop.run(&["functions"]).check(1, unknown);
    for nobody in ["0123456789abcdef", "x"] {
        let said = ops.run(&["token", "revoke", nobody, "--yes"]);
        assert_eq!(said.code, 1, "{}", said.stderr);
    }

    ops.run(&["audit", "--limit", "3"]).check(
        0,
        "
        [TIME]  client:ops  token revoke  [KEY]
        [TIME]  client:shop  start  [SHORT]
        [TIME]  client:ops  token create  [KEY]
        ",
    );
    let all = ops.does(&["audit", "--json"]);
    let last: serde_json::Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();
    assert_eq!((&last["v"], &last["actor"]), (&1.into(), &"system:cli".into()), "{all}");
}

/// The same keys in the folder, when no server has it open.
#[test]
fn keys_of_a_folder() {
    let user = User::new();
    let create = ["token", "create", "one", "--role", "call", "--data", "data", "--json"];
    let made: serde_json::Value = serde_json::from_str(&user.does(&create)).unwrap();
    assert_eq!(made["v"], 1);
    let id = made["token"]["id"].as_str().unwrap();
    let listed = user.json(&["token", "list", "--data", "data"]);
    assert_eq!((listed["id"].as_str(), listed["name"].as_str()), (Some(id), Some("one")));
    let revoked = user.json(&["token", "revoke", id, "--yes", "--data", "data"]);
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    user.run(&["token", "revoke", "0123456789abcdef", "--yes", "--data", "data"]).check(
        1,
        "
        ---
        error: no such API key
        hint: `indelible token list` shows them
        ",
    );
    user.run(&["token", "list", "--data", "absent"]).check(
        1,
        "
        ---
        error: there is no data folder absent
        hint: give the data folder with --data
        ",
    );
    let said = user.run(&["token", "create", "two", "--role", "king", "--data", "data"]);
    assert_eq!(said.code, 2);
    let roles = "one of call, operate, read, write, send, decide, deploy, admin";
    assert!(said.stderr.contains(roles), "{}", said.stderr);
}
