//! What a person sees: the real binary on a terminal of a given width.

use std::fs::File;
use std::io::Read as _;
use std::process::Command;

use indelible_journal::InvokeKind;
use rustix::termios::{Winsize, tcsetwinsize};
use unicode_width::UnicodeWidthStr as _;

use crate::journal::script::Script;
use crate::support::pty;

/// The rows below the header.
fn seen(columns: u16, arguments: &[&str]) -> Vec<String> {
    let mut script = Script::root("greet", "1", "2026-03-14T09:26:53Z", "null");
    for name in ["find", "日本語"] {
        script.call(InvokeKind::Function, name, &format!("\"{}\"", "x".repeat(50)));
    }
    script.start(0, 1).at(1_000_000).start(1, 1).deliver("go", "1");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, script.lines().as_bytes()).unwrap();

    let master = pty::open();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["journal", "show"])
        .arg(file.path())
        .args(arguments)
        .env("COLUMNS", "300")
        .stdout(pty::peer(&master))
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    // Reading a terminal that no process has open any more ends with an error.
    _ = File::from(master).read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
    text.split_once("\n\n").unwrap().1.lines().map(str::to_owned).collect()
}

#[test]
fn rows_of_a_table_fit_the_terminal() {
    assert_eq!(
        seen(70, &[]),
        [
            "seq     time  event                                            state",
            "───  ───────  ───────────────────────────────────────────────  ─────",
            "  0  +0.000s  ExecutionStarted(greet, null, component=f71492…  Running",
            "  1  +0.000s  InvokeScheduled(\"root.0\", find, \"xxxxxxxxxxxxx…  Running",
            "  2  +0.000s  InvokeScheduled(\"root.1\", 日本語, \"xxxxxxxxxxx…  Running",
            "  3  +0.000s  InvokeStarted(\"root.0\", attempt=1)               Running",
            "  4  +1.000s  InvokeStarted(\"root.1\", attempt=1)               Running",
            "  5  +1.000s  SignalDelivered(\"go\", 1, delivery_id=1)          Running",
        ]
    );
}

#[test]
fn bars_are_as_wide_as_the_terminal_and_the_legend_wraps() {
    for columns in [60, 90, 200] {
        let rows = seen(columns, &["--timeline"]);
        assert!(rows[1..5].iter().all(|row| row.width() == usize::from(columns)), "{rows:#?}");
        assert!(rows.iter().all(|row| row.width() <= usize::from(columns)), "{rows:#?}");
    }
    let rows = seen(50, &["--timeline"]);
    assert_eq!(rows[6..], ["█ running   ░ scheduled   ╌ signal buffered", "> not ended"]);
}
