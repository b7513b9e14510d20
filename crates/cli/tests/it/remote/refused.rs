//! What a server, or what is to be deployed, makes impossible.

use super::kit::{House, User, guest};

/// Functions, components and executions that there are not.
#[test]
fn what_there_is_not() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.run(&["call", "order"]).check(
        1,
        "
        ---
        error: no component has a function \"order\"
        hint: nothing is deployed yet: deploy a component with `indelible deploy PATH`
        ",
    );
    user.does(&["deploy", &guest("order-saga")]);
    user.does(&["deploy", &guest("order-saga"), "--name", "shop"]);
    user.run(&["call", "ordr"]).check(
        1,
        "
        ---
        error: no component has a function \"ordr\"
        hint: did you mean order-saga/order or shop/order? `indelible functions` lists what can be called
        ",
    );
    user.run(&["start", "order"]).check(
        1,
        "
        ---
        error: several components have a function \"order\"
          order-saga/order
          shop/order
        hint: give the component too, as in the list
        ",
    );
    user.run(&["call", "shp/order"]).check(
        1,
        "
        ---
        error: no component \"shp\" is deployed (no-such-component)
        hint: did you mean shop/order or order-saga/order? `indelible functions` lists what can be called
        ",
    );
    user.run(&["start", "shop/zebra"]).check(
        1,
        "
        ---
        error: the component \"shop\" has no function \"zebra\"; its functions: charge, order, recall, refund, release, reserve, ship (no-such-function)
        hint: `indelible functions` lists what can be called
        ",
    );
    user.run(&["components", "shp"]).check(
        1,
        "
        ---
        error: no component of this name is deployed (no-such-component)
        hint: `indelible components` lists what is deployed
        ",
    );
    user.run(&["cancel", "last", "--yes"]).check(
        1,
        "
        ---
        error: no execution was started from here at http://127.0.0.1:[PORT]
        hint: `last` is what `indelible start` or `indelible call` started last; `indelible ps` lists all executions
        ",
    );
    let whole = "ab".repeat(32);
    user.run(&["release", &whole]).check(
        1,
        "
        ---
        error: nothing with this id is visible to the credential (not-found)
        hint: `indelible ps` lists executions; choose another namespace with --namespace
        ",
    );
    let promise = format!("{whole}.0");
    user.run(&["resolve", &promise, "did-not-happen", "--reason", "x"]).check(
        1,
        "
        ---
        error: nothing with this id is visible to the credential (not-found)
        hint: nothing has changed; `indelible unresolved` lists what can be resolved
        ",
    );
    user.run(&["explain", "teapot"]).check(
        1,
        "
        ---
        error: \"teapot\": unknown error code
        hint: `indelible explain` lists all of them
        ",
    );
}

/// Files that are no component, components that do not fit, and folders that are no project.
#[test]
fn what_cannot_be_deployed() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    user.file("junk.wasm", "junk");
    user.run(&["deploy", "junk.wasm"]).check(
        1,
        "
        ---
        error: this is not a WebAssembly component (invalid-component)
        hint: `indelible sdk` gives the project the SDK of this version; then build it again
        ",
    );
    user.file("core.wasm", wat::parse_str("(module)").unwrap());
    user.run(&["deploy", "core.wasm"]).check(
        1,
        "
        ---
        error: this is a core WebAssembly module, not a component (invalid-component)
        hint: `indelible sdk` gives the project the SDK of this version; then build it again
        ",
    );
    let other = r#"(component
        (import "indelible:guest/types@0.2.0" (instance))
        (import "indelible:guest/host@0.2.0" (instance (export "now" (func (result u64))))))"#;
    user.file("other.wasm", wat::parse_str(other).unwrap());
    user.run(&["deploy", "other.wasm"]).check(
        1,
        "
        ---
        error: the component was built for version 0.2.0 of the SDK's contract, but this server \
        supports 0.1: give its project the SDK of this version with `indelible sdk`, and build it again (invalid-component)
        hint: `indelible sdk` gives the project the SDK of this version; then build it again
        ",
    );
    // A million instances, in some hundred bytes.
    let doubling = (0..20).fold("(component $c)".to_owned(), |inner, _| {
        format!("(component $c {inner} (instance (instantiate $c)) (instance (instantiate $c)))")
    });
    user.file("doubling.wasm", wat::parse_str(doubling).unwrap());
    user.run(&["deploy", "doubling.wasm"]).check(
        1,
        "
        ---
        error: the component exceeds a limit: \
        it has 5 or more levels of components within each other; at most 4 are allowed: build it with `indelible build`, or compose it of fewer components (invalid-component)
        hint: `indelible sdk` gives the project the SDK of this version; then build it again
        ",
    );
    user.run(&["deploy", "absent.wasm"]).check(
        1,
        "
        ---
        error: cannot read absent.wasm: No such file or directory (os error 2)
        hint: give the file of a component, or the folder of a project
        ",
    );
    user.run(&["deploy", &guest("trivial"), "--name", "my shop"]).check(
        1,
        "
        ---
        error: cannot deploy as \"my shop\": invalid component name: use 1 to \
             64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit
        hint: choose another name with --name; nothing was deployed
        ",
    );
    user.file("empty/readme", "");
    for command in ["build", "deploy"] {
        user.run(&[command, "empty"]).check(
            1,
            "
            ---
            error: empty has no Cargo.toml
            hint: create a project with `indelible new NAME`
            ",
        );
    }
    let large = std::fs::File::create(user.folder().join("large.wasm")).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    user.run(&["deploy", "large.wasm"]).check(
        1,
        "
        ---
        error: large.wasm is larger than 32 MiB
        hint: a component built with `indelible build` is far smaller: is it the right file?
        ",
    );
    assert_eq!(user.does(&["components"]), "", "nothing was deployed");
}

/// What a data folder and a server have to do with each other.
#[test]
fn a_folder_that_a_server_has_open() {
    let house = House::new(&[]);
    let user = User::of(&house.server);
    let data = house.data.path().to_str().unwrap();
    for arguments in [
        &["unresolved"][..],
        &["token", "list"],
        &["resolve", &format!("{}.0", "ab".repeat(32)), "did-not-happen", "--reason", "x"],
    ] {
        let said = user.run(&[arguments, &["--data", data]].concat());
        assert_eq!(said.code, 1);
        let hint = "only one process can open a data folder at a time; leave --data out to ask the \
             server that has it open";
        assert!(said.stderr.contains(hint), "{}", said.stderr);
        assert!(said.stderr.contains("is in use by"), "{}", said.stderr);
    }
    let said = user.run(&["token", "list", "--data", data, "--url", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    let resolve = ["resolve", "9c4f1a2b.0", "did-not-happen", "--reason", "x", "--actor", "bob"];
    user.run(&resolve).check(
        2,
        "
        ---
        error: --actor cannot be used with a server, which takes the actor from the credential
        hint: leave --actor out; it is only for --data
        ",
    );
    user.run(&["unresolved", "--data", "none"]).check(
        1,
        "
        ---
        error: cannot open none: it has no store
        hint: give a data folder with --data
        ",
    );
}
