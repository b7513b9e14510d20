//! What a person sees: the demo on a terminal of 80 columns and 24 rows.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use rustix::termios::{Winsize, tcsetwinsize};
use unicode_width::UnicodeWidthStr as _;

use crate::demo::house::House;
use crate::support::pty;

const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// All that was written to the terminal.
fn seen(house: &House, arguments: &[&str], variable: (&str, &str)) -> String {
    let master = pty::open();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let mut command = house.demo(arguments);
    command.env_remove("NO_COLOR").env("TERM", "xterm").env(variable.0, variable.1);
    command.stdout(pty::peer(&master)).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    // `command` holds the other end of the terminal, which ends when no process has it open.
    drop(command);
    let mut bytes = Vec::new();
    _ = File::from(master).read_to_end(&mut bytes);
    assert!(child.wait().unwrap().success());
    String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
}

/// A text without its escapes.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // `[`, numbers, and a letter that ends it.
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Whether there is a code of a colour: it ends with an m.
fn coloured(text: &str) -> bool {
    let code = |rest: &str| rest.chars().find(char::is_ascii_alphabetic) == Some('m');
    text.split("\u{1b}[").skip(1).any(code)
}

/// One screen, drawn again in place, that fits; in the end the summary stays. Colour only if it is
/// wanted.
#[test]
fn one_screen() {
    let house = House::new();
    let arguments = ["--orders", "8", "--kills", "1", "--seed", "11"];
    let text = seen(&house, &arguments, ("NO_COLOR", "1"));
    // Each frame begins with the cursor going up.
    let mut frames: Vec<&str> = text.split("A\r").collect();
    assert!(frames.len() > 20, "it is drawn again: {text}");
    let last = frames.pop().unwrap();
    for frame in &frames {
        let lines: Vec<String> = plain(frame).lines().map(str::to_owned).collect();
        assert!(lines.len() < ROWS, "{frame}");
        assert!(lines.iter().all(|line| line.width() <= COLUMNS), "{frame}");
    }
    let all = plain(&text);
    for part in
        ["seed 11", "0 of 8 complete", "8 of 8 charged", "1 of 1 survived", "░", "kill -9 (1 of 1)"]
    {
        assert!(all.contains(part), "{part}: {all}");
    }
    let last = plain(last);
    assert!(last.starts_with("As the payment services counted"), "{last}");
    assert!(last.lines().count() < ROWS, "it stays on the screen: {last}");
    assert!(last.lines().all(|line| line.width() <= COLUMNS), "{last}");
    assert!(!coloured(&text), "no colour was wanted");
    house.is_left_clean();
}

/// Colour by default, also if `NO_COLOR` is empty; a terminal that can do nothing gets lines.
#[test]
fn colours_and_dumb_terminals() {
    let house = House::new();
    let arguments = ["--orders", "1", "--kills", "0"];
    assert!(coloured(&seen(&house, &arguments, ("NO_COLOR", ""))));
    let text = seen(&house, &arguments, ("TERM", "dumb"));
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("cards charged once                         1"), "{text}");
    house.is_left_clean();
}
