//! What a person sees who starts a server.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use super::serve;

/// The address is the first line on standard output; on a terminal a person is told where the data
/// is, who may call, and what to type next.
#[test]
fn a_person_is_told_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let mut child = serve(folder.path(), &[], &["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(ioctl_tiocgptpeer(&master, flags).unwrap())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let mut lines = Vec::new();
    for line in BufReader::new(File::from(master)).lines().map_while(Result::ok) {
        let last = line.contains("Ctrl-C");
        lines.push(line.trim_end().to_owned());
        if last {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        lines,
        [
            format!("listening on {url}, data in indelible-data"),
            "every program on this machine may call it: no API keys are asked for (--keys does)"
                .to_owned(),
            format!(
                "next, in another terminal: indelible deploy PATH --url {url}   (a project folder \
                 or a .wasm)"
            ),
            "Ctrl-C stops it, and nothing is lost".to_owned(),
        ]
    );
}
