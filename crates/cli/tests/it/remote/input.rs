//! What a function is given: refused here, before anything is sent.

use super::kit::{House, User};

/// What is not JSON, too large, or not there, is told before a server is asked: there is none here.
#[test]
fn refused_before_anything_is_sent() {
    let user = User::new();
    let small = user.file("small.json", "{\"a\":");
    let text = small.to_str().unwrap();
    user.run(&["call", "shop/order", "{id: 1}"]).check(
        2,
        "
        ---
        error: the input is not JSON: key must be a string at line 1 column 2
        hint: quote it for the shell: '{\"id\": 1}', or '\"text\"'; nothing was sent
        ",
    );
    user.run(&["start", "shop/order", &format!("@{text}")]).check(
        2,
        "
        ---
        error: [FOLDER]/small.json is not JSON: EOF while parsing a value at line 1 column 5
        hint: quote it for the shell: '{\"id\": 1}', or '\"text\"'; nothing was sent
        ",
    );
    user.run_with(&["signal", "last", "stop", "-"], "yes").check(
        2,
        "
        ---
        error: standard input is not JSON: expected value at line 1 column 1
        hint: quote it for the shell: '{\"id\": 1}', or '\"text\"'; nothing was sent
        ",
    );
    user.file("large.json", format!("\"{}\"", "x".repeat(4 << 20)));
    user.run(&["call", "shop/order", "@large.json"]).check(
        1,
        "
        ---
        error: large.json is larger than 4 MiB
        hint: store large data elsewhere and pass its address; nothing was sent
        ",
    );
    user.run(&["call", "shop/order", "@absent.json"]).check(
        1,
        "
        ---
        error: cannot read absent.json: No such file or directory (os error 2)
        hint: give JSON, @FILE for a file with JSON, or - for standard input; nothing was sent
        ",
    );
    let said = user.run(&["call", "shop/"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("give a function as order-saga/order"), "{}", said.stderr);
    let said = user.run(&["call", "shop/order", "--key", "k", "--id", "7"]);
    assert_eq!(said.code, 2);
    let said = user.run(&["cancel", "9c4f"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("at least 6 digits"), "{}", said.stderr);
}

/// The three ways to give it lead to the same, and what comes back is what went in: also as large
/// as may be.
#[test]
fn given_as_text_as_a_file_and_on_stdin() {
    let house = House::new(&[]);
    house.server.deploy("bench", "bench");
    let user = User::of(&house.server);
    let input = r#"{"a": 1.50, "b": "é"}"#;
    user.file("input.json", format!("{input}\n"));
    for said in [
        user.run(&["call", "echo", input]),
        user.run(&["call", "echo", "@input.json"]),
        user.run_with(&["call", "echo", "-"], input),
    ] {
        assert_eq!((said.code, said.stdout.trim_end()), (0, input), "{}", said.stderr);
    }
    assert_eq!(user.does(&["call", "bench/echo"]), "null\n");
    let large = format!("\"{}\"", "x".repeat((4 << 20) - 2));
    user.file("large.json", &large);
    let said = user.run(&["call", "echo", "@large.json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.trim_end() == large, "{} bytes", said.stdout.len());
}
