//! `indelible ps`: lists.

use serde_json::json;

use crate::views::filter::filtered;
use crate::views::kit::House;
use crate::views::terminal::{Terminal, seen};

/// Newest first, one row each; filters; what the table does not say is on stderr.
#[test]
fn a_list() {
    let house = House::new(&["behaviours", "order-saga"]);
    let ran = house.run(&["ps"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert!(ran.stderr.starts_with("there are no executions yet\nhint: "), "{}", ran.stderr);

    let failed = house.call("behaviours/fail", &json!("no"));
    let retried = house.call("behaviours/flaky", &json!(3));
    let waits = house.start("behaviours/wait_signal", &json!("go"));
    house.until_waits(&waits, "signal");
    let listed = house.prints(&["ps"]);
    assert_eq!(
        filtered(&listed),
        "\
id  function  state  started  took  attempt  why
[id]  wait_signal  blocked  [ago]  [took]
[id]  flaky  completed  [ago]  [took]  3
[id]  fail  failed  [ago]  [took]  UserError: no"
    );
    let ids: Vec<&str> = listed.lines().skip(1).map(|line| &line[..8]).collect();
    assert_eq!(ids, [&waits[..8], &retried[..8], &failed[..8]]);

    let count = |arguments: &[&str]| {
        let ran = house.run(&[&["ps"], arguments].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout.lines().count().saturating_sub(1)
    };
    assert_eq!(count(&["--state", "blocked,running"]), 1);
    assert_eq!(count(&["--function", "fail"]), 1);
    assert_eq!(count(&["--since", "1h"]), 3);
    assert_eq!(count(&["--before", "1h"]), 0);
    assert_eq!(count(&["--since", "2020-01-01T00:00:00Z", "--before", "2020-01-02T00:00:00Z"]), 0);
    assert_eq!(count(&["--namespace", "elsewhere"]), 0);
    let ran = house.run(&["ps", "--limit", "2"]);
    assert_eq!(ran.stdout.lines().count(), 3);
    assert!(ran.stderr.starts_with("there are more than 2\nhint: "), "{}", ran.stderr);
    for nonsense in
        [["--state", "Failed"], ["--since", "later"], ["--limit", "0"], ["--function", "a/b"]]
    {
        assert_eq!(house.run(&["ps", nonsense[0], nonsense[1]]).code, Some(2), "{nonsense:?}");
    }
    assert_eq!(house.run(&["ps", "--watch"]).code, Some(1));

    let json = house.prints_json(&["ps", "--json"]);
    assert_eq!((&json["v"], &json["more"]), (&json!(1), &json!(false)));
    assert_eq!(json["executions"][0]["execution_id"], waits.as_str());
    assert_eq!(json["executions"].as_array().unwrap().len(), 3);
}

/// An execution is in the list as its last attempt stands, whatever the filter: what a later attempt
/// made good has not failed, and is not older than that attempt. The API lists every attempt, unless
/// it is asked for the last.
#[test]
fn the_last_attempt_says_how_it_stands() {
    let house = House::new(&["behaviours"]);
    let failed = house.call("behaviours/fail", &json!("no"));
    let retried = house.call("behaviours/flaky", &json!(3));
    let listed = |arguments: &[&str]| {
        let json = house.prints_json(&[&["ps", "--json"], arguments].concat());
        let rows = json["executions"].as_array().unwrap();
        rows.iter().map(|row| row["execution_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--state", "failed"]), [failed.as_str()]);
    assert_eq!(listed(&["--state", "completed"]), [retried.as_str()]);
    let json = house.prints_json(&["ps", "--json", "--function", "flaky"]);
    let last = &json["executions"][0];
    assert_eq!((&last["attempts"], &last["state"]), (&json!("3"), &json!("completed")));
    let began = last["created_at"].as_str().unwrap();
    assert_eq!(listed(&["--before", began]), [failed.as_str()]);
    assert_eq!(listed(&["--since", began]), [retried.as_str()]);
    let ran = house.run(&["ps", "--limit", "1"]);
    assert!(ran.stdout.contains(&retried[..8]), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("there are more than 1\n"), "{}", ran.stderr);

    let count = |query: &str| {
        let page = house.server.get(&format!("/v1/executions?state=failed{query}")).json();
        page["executions"].as_array().unwrap().len()
    };
    assert_eq!([count(""), count("&latest=false"), count("&latest=true")], [3, 3, 1]);
}

/// What the list prints is what the others take: the beginning of an id, also of one that was tried
/// several times, with a child's path behind it.
#[test]
fn the_beginning_of_an_id() {
    let house = House::new(&["behaviours"]);
    let retried = house.call("behaviours/flaky", &json!(3));
    let caller = house.call("behaviours/calls_remote", &json!(["behaviours/add", [1, 2]]));
    let listed = house.prints(&["ps"]);
    let short: Vec<&str> = listed.lines().skip(1).map(|line| &line[..8]).collect();
    assert_eq!(short, [&caller[..8], &retried[..8]]);
    for (short, id) in short.iter().zip([&caller, &retried]) {
        for short in [short, &short[..6]] {
            let page = house.prints_json(&["show", short, "--json"]);
            assert_eq!(page["execution"]["execution_id"], id.as_str());
        }
    }
    let child = format!("{}.0", &caller[..8]);
    for command in ["show", "tree", "journal"] {
        assert!(house.prints(&[command, &child]).contains("add"), "{command}");
    }
    let missing = if caller.starts_with("ffffff") { "eeeeee" } else { "ffffff" };
    let ran = house.run(&["show", missing]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.starts_with(&format!("error: no execution begins with {missing}\nhint: ")));
    assert_eq!(house.run(&["show", &caller[..5]]).code, Some(2));
}

/// On a terminal states have colours, and rows fit.
#[test]
fn on_a_terminal() {
    let house = House::new(&["behaviours"]);
    house.call("behaviours/fail", &json!("no"));
    house.call("behaviours/calls_remote", &json!(["behaviours/add", [1, 2]]));
    let (code, written) = Terminal::open(house.command(&["ps"]), 50, 24).end();
    assert_eq!(code, Some(0));
    assert!(written.contains("\u{1b}[31mfailed\u{1b}[0m"), "{written:?}");
    assert!(written.contains("\u{1b}[32mcompleted\u{1b}[0m"), "{written:?}");
    let lines = seen(&written);
    assert!(lines.iter().all(|line| line.chars().count() <= 50), "{lines:#?}");
    assert_eq!(lines.len(), 3);
}

/// A list has keys, labels and errors, finds by label, and takes `*` for all namespaces; whatever it
/// prints names an execution for the other commands.
#[test]
fn what_a_list_finds() {
    let house = House::new(&["script"]);
    let (done, fails) =
        (json!([{ "return": 1 }]).to_string(), json!([{ "fail": "no luck" }]).to_string());
    let call = |arguments: &[&str]| house.run(&[&["call", "script/main"], arguments].concat());
    assert_eq!(
        call(&[&done, "--key", "order-7", "--label", "order=7", "--label", "tenant=x"]).code,
        Some(0)
    );
    assert_eq!(call(&[&fails, "--label", "order=8", "--namespace", "shop"]).code, Some(3));
    let refused = house.run(&["start", "script/main", &done, "--label", "a b=1"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.contains("the name of a label has 1 to 64"), "{}", refused.stderr);
    assert_eq!(house.run(&["start", "script/main", &done, "--label", "order"]).code, Some(2));
    assert_eq!(
        filtered(&house.prints(&["ps"])),
        "\
id  function  key  state  started  took
[id]  main  order-7  completed  [ago]  [took]"
    );
    let everywhere = house.prints(&["ps", "--namespace", "*"]);
    assert_eq!(
        filtered(&everywhere),
        "\
id  namespace  function  key  state  started  took  why
[id]  shop  main  order=8  failed  [ago]  [took]  UserError: no luck
[id]  default  main  order-7  completed  [ago]  [took]"
    );
    let labelled = house.prints_json(&["ps", "--namespace", "*", "--label", "tenant=x", "--json"]);
    let row = &labelled["executions"][0];
    assert_eq!((&row["key"], &row["labels"]["order"]), (&json!("order-7"), &json!("7")));
    assert_eq!(labelled["executions"].as_array().unwrap().len(), 1);

    let id = row["execution_id"].as_str().unwrap();
    let page = house.prints_json(&["show", id, "--json"]);
    let operation = page["operation_id"].as_str().unwrap();
    let attempt = format!("{}@1", &id[..8]);
    for named in [operation, &attempt, "key:order-7"] {
        assert_eq!(house.prints_json(&["show", named, "--json"]), page, "{named}");
    }
    assert_eq!(house.prints_json(&["show", "--key", "order-7", "--json"]), page);
    let shown = house.prints(&["show", "--key", "order-7"]);
    assert!(
        shown.contains("\nkey        order-7\nlabels     order=7\n           tenant=x\n"),
        "{shown}"
    );
    // An id says which execution is meant, whatever the namespace.
    let foreign = everywhere.lines().nth(1).unwrap().split(' ').next().unwrap();
    for command in ["show", "tree", "journal"] {
        assert!(house.prints(&[command, foreign]).contains("main"), "{command}");
    }

    let waits = json!([{ "signal": "go" }]).to_string();
    house.run(&["start", "script/main", &waits, "--key", "waits"]);
    let sent = house.run(&["signal", "key:waits", "go", "1", "--key", "signal-1"]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    for (arguments, code, words) in [
        (&["show", "--key", "signal-1"][..], 1, "was used for a signal"),
        (&["show", "--key", "nothing"], 1, "nothing was asked for under the key \"nothing\""),
        (&["show", "--key", "order-7", "--namespace", "shop"], 1, "nothing was asked for"),
        (&["show", "--key", "order-7", "--namespace", "*"], 2, "a key belongs to one namespace"),
        (&["show", id, "--key", "order-7"], 2, "cannot be used with"),
        (&["show"], 2, "required"),
        (&["call", "script/main", "--namespace", "*"], 2, "this command works in one namespace"),
        (&["cancel", "key:order-7", "--yes"], 1, "already ended"),
    ] {
        let ran = house.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}
