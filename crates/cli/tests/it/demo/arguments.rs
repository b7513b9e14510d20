//! What makes no sense is refused, and says what to do.

use std::fs;

use crate::demo::house::{House, text};

/// Bounds are told by name, before anything is started.
#[test]
fn bounds() {
    let house = House::new();
    for (arguments, names) in [
        (&["--orders", "0"][..], "--orders"),
        (&["--orders", "1001"], "--orders"),
        (&["--kills", "21"], "--kills"),
        (&["--seed", "x"], "--seed"),
        (&["--child-of", "1"], "COMMAND"),
        (&["--", "serve"], "--child-of"),
        (&["more"], "more"),
    ] {
        let output = house.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(names), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
    house.is_left_clean();
}

/// A folder to keep must be empty; what is in it stays as it is.
#[test]
fn a_folder_that_is_not_empty() {
    let house = House::new();
    let folder = house.elsewhere().join("mine");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("letter"), "dear").unwrap();
    let output = house.run(&["--keep", "mine"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("it is not empty") && said.contains("hint: --keep needs"), "{said}");
    assert_eq!(fs::read_to_string(folder.join("letter")).unwrap(), "dear");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let output = house.run(&["--keep", "mine/letter"]);
    assert_eq!(output.status.code(), Some(1));
    house.is_left_clean();
}

/// No folder for temporary files: it says which, and what to do.
#[test]
fn no_temporary_folder() {
    let house = House::new();
    let output = house.demo(&[]).env("TMPDIR", "/nowhere/at/all").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("/nowhere/at/all") && said.contains("hint: set TMPDIR to"), "{said}");
    assert!(output.stdout.is_empty());
}

/// A user does not start the retry loop, or a child, by accident.
#[test]
fn hidden_modes() {
    let house = House::new();
    let output = house.run(&["--as-retry-loop", "none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot do the work in none"));
    let output = house.run(&["--child-of", "1", "--", "serve"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is gone"), "{}", text(&output.stderr));
    let help = text(&house.run(&["--help"]).stdout);
    assert!(!help.contains("child-of") && !help.contains("as-retry-loop"), "{help}");
    assert!(help.contains("--keep"), "{help}");
}
