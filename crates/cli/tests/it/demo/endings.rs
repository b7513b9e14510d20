//! However it ends, nothing of it stays: it is interrupted, killed, or its server cannot be started.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::demo::house::{House, text};
use crate::support::process::until;

/// A demo whose server is up.
fn started(house: &House) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = house.demo(&["--orders", "1000", "--kills", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("the shop is open")), "it never opened");
    assert_eq!(house.processes().len(), 1, "its server");
    (child, lines)
}

fn signal(child: &Child, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, signal).unwrap();
}

/// Ctrl-C, or a polite end: it cleans up, says so by its exit code, and leaves nothing.
#[test]
fn interrupted() {
    for asked in [Signal::INT, Signal::TERM, Signal::HUP] {
        let house = House::new();
        let (child, lines) = started(&house);
        signal(&child, asked);
        let output = child.wait_with_output().unwrap();
        drop(lines);
        assert_eq!(output.status.code(), Some(130), "{asked:?}");
        assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
        house.is_left_clean();
    }
}

/// A demo that is killed takes its server with it. Its folder stays: no process removes it.
#[test]
fn killed() {
    let house = House::new();
    let (mut child, _lines) = started(&house);
    child.kill().unwrap();
    child.wait().unwrap();
    until("its server is gone", || house.processes().is_empty().then_some(()));
}

/// A server that cannot be started: what it wrote is told, and what to do. Here it may not have the
/// address space that it reserves.
#[test]
fn a_server_that_does_not_start() {
    let house = House::new();
    let demo = house.demo(&[]);
    let (program, arguments) = (demo.get_program(), demo.get_args());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 4000000 && exec \"$0\" \"$@\""]).arg(program).args(arguments);
    limited.envs(demo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.stdin(Stdio::null()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: `indelible serve --listen 127.0.0.1:"), "{said}");
    assert!(said.contains("did not start") && said.contains("  error: cannot open"), "{said}");
    assert!(said.contains("hint: "), "{said}");
    house.is_left_clean();
}
