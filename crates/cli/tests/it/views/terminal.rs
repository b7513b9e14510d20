//! A terminal: the binary writes to it, and what a person would see is told.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::process::until;
use crate::support::pty;
use crate::views::kit::eventually;

/// A command on a terminal of its own.
pub struct Terminal {
    child: Child,
    written: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    pub fn open(mut command: Command, columns: u16, rows: u16) -> Self {
        let master = pty::open();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        command.stdout(pty::peer(&master));
        let child = command.spawn().unwrap();
        // `command` holds the other end of the terminal, which ends when no process has it open.
        drop(command);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let reader = {
            let written = Arc::clone(&written);
            std::thread::spawn(move || {
                let mut master = File::from(master);
                let mut bytes = [0; 4096];
                // Reading a terminal that no process has open any more ends with an error.
                while let Ok(count @ 1..) = master.read(&mut bytes) {
                    written.lock().unwrap().extend_from_slice(&bytes[..count]);
                }
            })
        };
        Self { child, written, reader: Some(reader) }
    }

    /// What has been written, whole.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits until it shows this.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        eventually(|| seen(&self.written()).join("\n").contains(text), || self.written());
    }

    /// Waits until it no longer shows this.
    #[track_caller]
    pub fn shows_no_more(&self, text: &str) {
        eventually(|| !seen(&self.written()).join("\n").contains(text), || self.written());
    }

    /// Presses Ctrl-C.
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Waits for its end: the exit code, and everything that was written.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = until("the command ends", || self.child.try_wait().unwrap()).code();
        self.reader.take().unwrap().join().unwrap();
        let bytes = self.written.lock().unwrap().clone();
        (code, String::from_utf8(bytes).unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a person sees in the end, without colours: the cursor goes up and down, and what
/// it passes is written over.
pub fn seen(written: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut chars = written.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\u{1b}' => {
                assert_eq!(chars.next(), Some('['), "{written:?}");
                let mut number = String::new();
                let end = loop {
                    match chars.next() {
                        Some(digit @ ('0'..='9' | ';')) => number.push(digit),
                        Some(end) => break end,
                        // The rest is still to come.
                        None => return shown(lines),
                    }
                };
                match end {
                    'm' => {}
                    'A' => row = row.checked_sub(number.parse().unwrap()).unwrap(),
                    'K' => lines[row].truncate(column),
                    'J' => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    end => panic!("unknown: {number}{end}"),
                }
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    shown(lines)
}

fn shown(lines: Vec<Vec<char>>) -> Vec<String> {
    let mut lines: Vec<String> = lines
        .into_iter()
        .map(|line| line.into_iter().collect::<String>().trim_end().to_owned())
        .collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// What is drawn over is gone.
#[test]
fn a_terminal_is_drawn_over() {
    assert_eq!(seen("ab\r\ncd\r\n\u{1b}[2A\rx\u{1b}[K\r\n\u{1b}[J"), ["x"]);
    assert_eq!(seen("\u{1b}[31mab\u{1b}[0m\r\n"), ["ab"]);
}
