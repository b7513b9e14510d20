//! A peer as a program: `peer [port] [--until-input-closes]`. The first line of its output is its
//! address; it serves until it is killed, or until its input closes.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::io::Read as _;

use indelible_http_peer::Peer;

fn main() {
    let (mut port, mut until_input_closes) = (0, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--until-input-closes" => until_input_closes = true,
            number => port = number.parse().expect("the argument is a port"),
        }
    }
    let peer = Peer::start_on(port).expect("the port is free");
    println!("{}", peer.address());
    if until_input_closes {
        std::io::stdin().read_to_end(&mut Vec::new()).expect("the input can be read");
        return;
    }
    loop {
        std::thread::park();
    }
}
