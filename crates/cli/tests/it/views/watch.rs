//! `--watch`: what is drawn again as things go on, on a terminal.

use serde_json::json;

use crate::views::filter::filtered;
use crate::views::kit::House;
use crate::views::terminal::{Terminal, seen};

/// A list is drawn over itself, goes on through a restart of the server, and stays when the user
/// presses Ctrl-C.
#[test]
fn a_list() {
    let house = House::new(&["behaviours"]);
    let terminal = Terminal::open(house.command(&["ps", "--watch"]), 100, 24);
    terminal.shows("no executions");
    let waits = house.start("behaviours/wait_signal", &json!("go"));
    terminal.shows(&waits[..8]);
    terminal.shows_no_more("no executions");
    let house = house.while_down(|_| terminal.shows("no response since"));
    terminal.shows_no_more("no response since");
    house.call("behaviours/add", &json!([1, 2]));
    terminal.shows("completed");
    terminal.interrupt();
    let (code, written) = terminal.end();
    assert_eq!(code, Some(130));
    let lines = seen(&written);
    assert_eq!(
        filtered(&lines.join("\n")),
        "\
id  function  state  started  took
[id]  add  completed  [ago]  [took]
[id]  wait_signal  blocked  [ago]  [took]"
    );
}

/// One execution is followed until it is over, through a restart, and its last page stays.
#[test]
fn an_execution() {
    let house = House::new(&["approval"]);
    let expense = json!({ "who": "ann", "cents": 9900, "seconds": 3600 });
    let id = house.start("approval/approve", &expense);
    let terminal = Terminal::open(house.command(&["show", &id, "--watch"]), 100, 40);
    terminal.shows("for signal `decision`");
    let house = house.while_down(|_| terminal.shows("no response since"));
    terminal.shows_no_more("no response since");
    let decision = r#"{"by":"bob","approved":true}"#;
    let path = format!("/v1/executions/{id}/signals/decision");
    assert_eq!(house.server.post(&path, &[], decision).status, 200);
    let (code, written) = terminal.end();
    assert_eq!(code, Some(0));
    let page = filtered(&seen(&written).join("\n"));
    assert_eq!(page, filtered(&house.prints(&["show", &id])));
    assert!(page.contains("result  \"approved by bob\""), "{page}");
    assert!(page.contains("[at]  signal decision  [bar]  ✓ [took]"), "{page}");

    // What is over is shown at once.
    let terminal = Terminal::open(house.command(&["show", &id, "--watch"]), 100, 40);
    let (code, written) = terminal.end();
    assert_eq!((code, filtered(&seen(&written).join("\n"))), (Some(0), page));
}

/// Ctrl-C leaves what was drawn, and says nothing more.
#[test]
fn an_execution_that_somebody_stops_watching() {
    let house = House::new(&["behaviours"]);
    let id = house.start("behaviours/wait_signal", &json!("go"));
    let terminal = Terminal::open(house.command(&["show", &id, "--watch"]), 100, 12);
    terminal.shows("more lines");
    terminal.interrupt();
    let (code, written) = terminal.end();
    assert_eq!(code, Some(130));
    let lines = seen(&written);
    assert!(lines.len() <= 12 && lines[1].contains(&id), "{lines:#?}");
}
