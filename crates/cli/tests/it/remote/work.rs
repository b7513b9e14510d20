//! The usual way of a user: a project, a deployment, calls, signals, cancels.

use super::kit::{House, User, guest, until};

/// From nothing to a call, with the compiler of this machine.
#[test]
fn from_a_new_project_to_a_call() {
    _ = indelible_guests::component("trivial");
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.run(&["new", "my-shop"]).check(
        0,
        "
        my-shop
        ---
        hint: `indelible deploy my-shop` builds it and deploys it to a server
        ",
    );
    let build = |arguments: &[&str]| {
        let mut command = user.command();
        // The project's own guests need the same crates, and were built before.
        command.env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let built: serde_json::Value =
        serde_json::from_str(&build(&["build", "my-shop", "--json"])).unwrap();
    assert_eq!((&built["v"], &built["name"]), (&1.into(), &"my-shop".into()));
    let file = built["path"].as_str().unwrap();
    let deployed = build(&["deploy", "my-shop"]);
    let lines: Vec<_> = deployed.lines().collect();
    assert!(lines[0].starts_with("my-shop  version "), "{deployed}");
    assert!(lines[0].ends_with("  new, and active"), "{deployed}");
    assert_eq!(lines[1..], ["  my-shop/charge", "  my-shop/order"]);
    user.run(&["deploy", file]).check(
        0,
        "
        my-shop  version [SHORT]  known before, and active
          my-shop/charge
          my-shop/order
        ---
        hint: `indelible call my-shop/charge INPUT` calls it
        ",
    );

    let charge = ["call", "charge", r#"["card 1", 500]"#, "--key", "A-7"];
    user.run(&charge).check(0, "\"card 1-500\"");
    user.run(&charge).check(
        0,
        "
        \"card 1-500\"
        ---
        this is the result of an earlier call with the same key or id
        ",
    );
    let again = user.json(&charge);
    assert_eq!(
        (&again["verdict"], &again["result"]),
        (&"PriorResult".into(), &"card 1-500".into())
    );
    user.run(&["call", "charge", r#"["card 2", 500]"#, "--key", "A-7"]).check(
        1,
        "
        ---
        error: the idempotency key was already used for another component, function or \
        input (mismatch)
        hint: use a new key or id for a new request; see `indelible explain mismatch`
        ",
    );

    let order = ["start", "order", r#"["card 1", 500]"#, "--key", "A-8"];
    let started = user.run(&order);
    started.check(
        0,
        "
        [ID]
        ---
        hint: see its progress with `indelible show [SHORT]`
        ",
    );
    let id = started.stdout.trim();
    let again = user.run(&order);
    assert_eq!(again.stdout, started.stdout);
    assert!(
        again.stderr.starts_with(
            "the execution was already running under this key or \
         id\n"
        ),
        "{}",
        again.stderr
    );
    until("it waits", || (house.state(id) == "blocked").then_some(()));
    user.run(&["signal", id, "stop", r#""too dear""#, "--key", "s"]).check(
        0,
        "
        ---
        sent to [SHORT] as delivery 1 of \"stop\"
        ",
    );
    let again = user.json(&["signal", id, "stop", r#""too dear""#, "--key", "s"]);
    assert_eq!(
        (again["delivery_id"].as_u64(), again["execution_id"].as_str()),
        (Some(1), Some(id))
    );
    // The same call waits for what the start began.
    user.run(&["call", "order", r#"["card 1", 500]"#, "--key", "A-8"]).check(
        3,
        "
        ---
        this is the error of an earlier call with the same key or id
        error: the function failed: UserError: stopped after card 1-500: too dear
        hint: see its steps with `indelible show [SHORT]`
        ",
    );
    user.run(&["signal", id, "stop"]).check(
        1,
        "
        ---
        error: the execution has already ended: it failed (wrong-state)
        hint: see its state with `indelible show EXECUTION`
        ",
    );
}

/// `last` is what this user started last at this server in this namespace, and never what another
/// user has started since.
#[test]
fn last_is_ones_own() {
    let house = House::new(&[]);
    let (ann, bob) = (User::of(&house.server), User::of(&house.server));
    ann.does(&["deploy", &guest("bench")]);
    let last = |user: &User| {
        let page = user.json(&["show", "last"]);
        page["execution"]["execution_id"].as_str().unwrap().to_owned()
    };
    let by_start = ann.does(&["start", "bench/echo", "1"]).trim().to_owned();
    assert_eq!(last(&ann), by_start);
    let by_call = ann.json(&["call", "bench/echo", "2"]);
    assert_eq!(last(&ann), by_call["execution_id"].as_str().unwrap());
    let of_bob = bob.does(&["start", "bench/echo", "3"]).trim().to_owned();
    assert_eq!(last(&bob), of_bob);
    assert_eq!(last(&ann), by_call["execution_id"].as_str().unwrap());
    let elsewhere = ["show", "last", "--namespace", "shop"];
    ann.run(&elsewhere).check(
        1,
        "
        ---
        error: no execution was started from here at http://127.0.0.1:[PORT], namespace shop
        hint: `last` is what `indelible start` or `indelible call` started last; `indelible ps` lists all executions
        ",
    );
    ann.run(&["show", "last", "--namespace", "*"]).check(
        2,
        "
        ---
        error: `last` belongs to one namespace
        hint: name it with --namespace; `indelible ps` lists all executions
        ",
    );
    let shop = ann.does(&["start", "bench/echo", "4", "--namespace", "shop"]).trim().to_owned();
    assert_eq!(ann.json(&elsewhere)["execution"]["execution_id"], shop.as_str());
    assert_eq!(last(&ann), by_call["execution_id"].as_str().unwrap());
}

/// A wait that is over, a cancel, and what is told of both.
#[test]
fn a_wait_and_a_cancel() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.does(&["deploy", &guest("approval")]);
    let expense = r#"{"who":"ann","cents":9900,"seconds":3600}"#;
    user.run(&["call", "approve", expense, "--key", "e-1", "--wait", "0"]).check(
        6,
        "
        ---
        error: stopped waiting; execution [SHORT] is still running
        hint: see what it waits for with `indelible show [SHORT]`
        ",
    );
    let executions = house.server.get("/v1/executions").json();
    let id = executions["executions"][0]["execution_id"].as_str().unwrap();
    until("it waits", || (house.state(id) == "blocked").then_some(()));
    user.run(&["cancel", "last"]).check(
        1,
        "
        ---
        error: not confirmed: cancel [SHORT] (approve, blocked)?
        hint: confirm with --yes; nothing was done
        ",
    );
    user.run(&["cancel", "last", "--yes", "--reason", "they called"]).check(
        0,
        "
        ---
        execution [SHORT] was asked to end; it may clean up first
        hint: see its progress with `indelible show [SHORT]`
        ",
    );
    user.run(&["call", "approve", expense, "--key", "e-1"]).check(
        3,
        "
        ---
        error: the execution was cancelled: they called
        hint: see its steps with `indelible show [SHORT]`
        ",
    );
    let said = user.run(&["call", "approve", expense, "--key", "e-1", "--json"]);
    assert_eq!(said.code, 3);
    let value: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((&value["v"], &value["error"]["kind"]), (&1.into(), &"Cancelled".into()));
    user.run(&["cancel", "last", "--yes"]).check(
        1,
        "
        ---
        error: the execution has already ended: it was cancelled (wrong-state)
        hint: see its state with `indelible show EXECUTION`
        ",
    );
}

/// What is asked to end and still cleans up can be asked again: that is told.
#[test]
fn a_cancel_that_somebody_asked_for_before() {
    let house = House::new(&[]);
    house.server.deploy("script", "script");
    let user = User::of(&house.server);
    let program = r#"[{"cancelled":[{"signal":"cleaned"}]},{"signal":"go"}]"#;
    let id = user.does(&["start", "script/main", program]);
    let id = id.trim();
    until("it waits", || (house.state(id) == "blocked").then_some(()));
    assert_eq!(user.json(&["cancel", id, "--yes"])["already"], false);
    user.run(&["cancel", id, "--yes"]).check(
        0,
        "
        ---
        execution [SHORT] was already asked to end; it may clean up first
        hint: see its progress with `indelible show [SHORT]`
        ",
    );
}

/// Lists for people and for programs.
#[test]
fn what_is_deployed() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.does(&["deploy", &guest("approval")]);
    user.does(&["deploy", &guest("trivial"), "--name", "approval"]);
    let deployed = user.json(&["deploy", &guest("approval")]);
    assert_eq!((&deployed["known"], &deployed["name"]), (&true.into(), &"approval".into()));
    user.run(&["functions"]).check(
        0,
        "
        approval/approve(expense: Expense) -> string  persist
            Waits for the decision about an expense. Small ones need none.
        ",
    );
    user.run(&["components"]).check(0, "approval  [SHORT]  1 function, 2 versions  since [TIME]");
    user.run(&["components", "approval"]).check(
        0,
        "
        [SHORT]  deployed [TIME]  0 unfinished
        [SHORT]  deployed [TIME]  active  0 unfinished
          approval/approve(expense: Expense) -> string  persist
              Waits for the decision about an expense. Small ones need none.
        ",
    );
    let one = user.json(&["components", "approval"]);
    assert_eq!(one["versions"].as_array().unwrap().len(), 2);
    assert_eq!(one["active"], one["versions"][0]["digest"]);
    let function = user.json(&["functions"]);
    assert_eq!(function["name"], "approve");
    let schema = &function["input_schema"];
    assert_eq!(schema["required"], serde_json::json!(["who", "cents", "seconds"]));
    assert_eq!(one["functions"][0]["input_schema"], function["input_schema"]);
}

/// What does not fit is told with its place, starts nothing, and leaves the key as it was.
#[test]
fn inputs_that_do_not_fit() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.does(&["deploy", &guest("behaviours")]);
    user.run(&["call", "add", r#"[1, "2"]"#, "--key", "k"]).check(
        1,
        "
        ---
        error: the input does not fit behaviours/add: at /1: expected integer, got a string \
        (invalid-input)
        hint: `indelible functions` shows what it takes; nothing was started, and the key is not \
        used up
        ",
    );
    for command in ["call", "start"] {
        user.run(&[command, "add", "1", "--key", "k"]).check(
            1,
            "
            ---
            error: the input does not fit behaviours/add: expected array, got 1 (invalid-input)
            hint: several arguments are one JSON array, as in '[\"card 1\", 500]'; `indelible \
            functions` shows what it takes; nothing was started
            ",
        );
    }
    user.run(&["call", "add", "1", "2", "--key", "k"]).check(
        2,
        "
        ---
        error: the input is one JSON value, and several were given
        hint: several arguments are an array: '[1, 2]'; nothing was sent
        ",
    );
    assert_eq!(user.json(&["ps"])["executions"], serde_json::json!([]));
    assert_eq!(user.json(&["call", "add", "[1, 2]", "--key", "k"])["verdict"], "Fresh");
}

/// A newcomer sees the way, and each command has its help; completions and pages are there.
#[test]
fn help() {
    let user = User::new();
    let said = user.run(&[]);
    assert_eq!(said.code, 2);
    let place = |word: &str| said.stderr.find(&format!("\n  {word} ")).unwrap();
    assert!(place("new") < place("build") && place("build") < place("deploy"), "{}", said.stderr);
    assert!(place("deploy") < place("call") && place("call") < place("context"));
    assert_eq!(user.does(&["--help"]), said.stderr);
    let help = user.does(&["help", "call"]);
    assert!(help.contains("indelible call order @order.json --wait 10"), "{help}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = user.does(&["completions", shell]);
        assert!(script.contains("indelible") && script.contains("deploy"), "{shell}");
    }
    let page = user.json(&["explain", "mismatch"]);
    assert_eq!((&page["code"], &page["status"]), (&"mismatch".into(), &422.into()));
    assert!(page["page"].as_str().unwrap().starts_with("# mismatch"), "{page}");
    let all = user.does(&["explain", "--json"]);
    assert!(all.lines().count() > 20 && all.lines().all(|line| line.starts_with("{\"v\":1,")));
}

/// `run` has the same exit codes and the same document.
#[test]
fn run_ends_as_a_call_does() {
    let user = User::new();
    let order = r#"{"id":"o-1","item":"tea","quantity":2,"cents":500}"#;
    let component = guest("order-saga");
    let run = |arguments: &[&str]| user.run(&[&["run", &component][..], arguments].concat());
    let done = run(&["order", order, "--id", "o-1", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((done.code, &value["result"]), (0, &"parcel o-1".into()));
    assert_eq!((&value["verdict"], &value["operation_id"]), (&"Fresh".into(), &"o-1".into()));
    let failed = run(&["order", &order.replace("tea", "glass"), "--json"]);
    let value: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!((failed.code, &value["error"]["kind"]), (3, &"UserError".into()));
    let behaviours = guest("script");
    let unknown = user.run(&["run", &behaviours, "main", r#"[{"unknown":"who knows"}]"#]);
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);
}
