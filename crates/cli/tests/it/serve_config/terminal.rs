//! What a person sees who starts a server.

use std::fs::File;
use std::process::Stdio;

use super::serve;
use crate::support::process::lines;
use crate::support::pty;

/// The address is the first line on standard output; on a terminal a person is told where the data
/// is, who may call, and what to type next.
#[test]
fn a_person_is_told_what_to_do_next() {
    let folder = tempfile::tempdir().unwrap();
    let master = pty::open();
    let mut child = serve(folder.path(), &[], &["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(pty::peer(&master))
        .spawn()
        .unwrap();
    let url = lines(child.stdout.take().unwrap()).next().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let told: Vec<_> = lines(File::from(master)).take(4).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        told,
        [
            format!("listening on {url}, data in indelible-data"),
            "every program on this machine can call it without an API key (require keys with \
             --keys)"
                .to_owned(),
            format!(
                "next, in another terminal: indelible deploy PATH --url {url}   (a project folder \
                 or a .wasm)"
            ),
            "Ctrl-C stops it, and nothing is lost".to_owned(),
        ]
    );
}
