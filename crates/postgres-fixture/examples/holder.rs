//! Starts a server, says where its folder is, and holds it until it is ended or its input closes:
//! a process for tests to kill.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::io::Read as _;

use indelible_postgres_fixture::shared;

fn main() {
    // Not dropped at the end: it is in a static.
    println!("{}", shared().socket_dir().display());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("standard input can be read");
}
