//! Mistakes: each is told with what to do, and nothing has changed.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{said, serve};
use crate::support::process::Server;

/// Everything below a folder, with what files have.
fn contents(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_folder = path.is_dir();
            all.push((path.clone(), (!is_folder).then(|| fs::read(&path).unwrap())));
            if is_folder {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

/// It ends with this code, says all of this, and leaves the folder as it was.
#[track_caller]
pub(super) fn check(
    folder: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
    code: i32,
    says: &[&str],
) {
    let before = contents(folder);
    let (output, text) = said(folder, variables, arguments);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(output.stdout.is_empty(), "{output:?}");
    for words in says {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
    assert_eq!(text.matches("hint: ").count(), 1, "{text}");
    assert_eq!(contents(folder), before);
}

/// A port that another process has, an address of another machine, and text that is not a valid address.
#[test]
fn addresses_that_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let cannot = format!("error: cannot listen on {address}: ");
    check(
        folder.path(),
        &[],
        &["--listen", &address],
        1,
        &[
            &cannot,
            "hint: another process uses the port: stop it, or choose another port with --listen",
        ],
    );
    for (variables, arguments, code, says) in [
        (
            &[][..],
            &["--listen", "localhost"][..],
            2,
            "error: --listen: \"localhost\" is not a valid address",
        ),
        (
            &[("INDELIBLE_LISTEN", "7070")],
            &[],
            1,
            "error: INDELIBLE_LISTEN: \"7070\" is not a valid address",
        ),
        (&[], &["--host-name", "http://a/b"], 1, "error: invalid host name of this server: "),
        (&[], &["--listen", "0.0.0.0:0"], 1, "callers would need no credential"),
        (
            &[("INDELIBLE_KEYS", "true")],
            &["--listen=0.0.0.0:0"],
            1,
            "connections would not be encrypted",
        ),
    ] {
        check(folder.path(), variables, arguments, code, &[says]);
    }
}

/// A data folder that another server has is left to it, and who has it is told.
#[test]
fn a_folder_that_another_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &[]);
    let (output, text) = said(folder.path(), &[], &["--listen", "127.0.0.1:0", "--data", "data"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let holder = format!("is in use by process {}", server.id());
    assert!(text.contains(&holder), "{text}");
    assert!(
        text.contains("hint: only one process can open a data folder at a time: stop that process")
    );
    assert_eq!(server.get("/v1/ready").status, 200);
}

/// What is no folder for data: a file, a place where nothing can be written, a folder with other
/// things in it. `indelible token create`, which makes a folder too, is as careful.
#[test]
fn folders_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"x").unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join("Documents")).unwrap();
    fs::write(home.join(".profile"), b"export A=1").unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--data"];
    let with = |data: &'static str| [&listen[..], &[data]].concat();
    check(
        folder.path(),
        &[],
        &with("file"),
        1,
        &["error: file is a file, not a folder", "hint: give a folder with --data"],
    );
    check(
        folder.path(),
        &[],
        &with("file/below"),
        1,
        &["error: cannot open file/below: ", "a part of the path is a file"],
    );
    // No user can make folders there, not even root.
    check(
        folder.path(),
        &[],
        &with("/sys/indelible-data"),
        1,
        &["error: cannot open /sys/indelible-data: ", "must be able to write there"],
    );
    let says = [
        "error: home is not a data folder and contains other files: .profile, Documents\n",
        "hint: give a separate folder, which is created if it does not exist: --data \
         home/indelible-data",
    ];
    check(folder.path(), &[], &with("home"), 1, &says);
    check(folder.path(), &[("INDELIBLE_DATA", "home")], &listen[..2], 1, &says);
    let before = contents(&home);
    let output = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["token", "create", "x", "--role", "admin", "--data"])
        .arg(&home)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("contains other files"));
    assert_eq!(contents(&home), before);
}

/// Certificates and keys that are none, or are there without each other.
#[test]
fn certificates_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("note.txt"), b"not a certificate").unwrap();
    fs::write(
        folder.path().join("indelible.toml"),
        b"[tls]\ncert = \"note.txt\"\nkey = \"note.txt\"\n",
    )
    .unwrap();
    let both = |cert: &'static str| ["--tls-cert", cert, "--tls-key", "note.txt"];
    for (variables, arguments, code, says, hint) in [
        (
            &[][..],
            &both("note.txt")[..],
            1,
            "error: --tls-cert: note.txt has no certificate in PEM",
            "hint: the file needs -----BEGIN CERTIFICATE-----",
        ),
        (&[], &both("gone.pem"), 1, "error: --tls-cert: cannot read gone.pem: ", "hint: paths"),
        (
            &[],
            &["--config", "indelible.toml"],
            1,
            "error: indelible.toml: tls.cert: note.txt has no certificate in PEM",
            "hint: ",
        ),
        (
            &[],
            &["--tls-key", "note.txt"],
            2,
            "error: --tls-key needs --tls-cert, which is not set",
            "hint: set --tls-cert on the command line, INDELIBLE_TLS_CERT in the environment",
        ),
        (
            &[("INDELIBLE_TLS_CERT", "note.txt")],
            &[],
            1,
            "error: INDELIBLE_TLS_CERT needs INDELIBLE_TLS_KEY, which is not set",
            "hint: ",
        ),
        (
            &[],
            &["--config", "indelible.toml", "--behind-proxy", "--keys"],
            2,
            "error: --behind-proxy and indelible.toml: tls.cert contradict each other",
            "hint: either a proxy or the server adds TLS",
        ),
        (
            &[("INDELIBLE_SESSION_KEY", "note.txt")],
            &["--session-audience", "a", "--keys"],
            1,
            "error: INDELIBLE_SESSION_KEY: note.txt cannot be used: ",
            "hint: use a secret of 32 bytes or more",
        ),
    ] {
        check(folder.path(), variables, arguments, code, &[says, hint]);
    }
}

/// A configuration file that is missing or no TOML, or has an unknown key or a wrong value.
#[test]
fn files_that_say_it_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let says = |text: &str, says: &[&str]| {
        fs::write(folder.path().join("indelible.toml"), text).unwrap();
        check(folder.path(), &[], &["--config", "indelible.toml"], 1, says);
        let variables = [("INDELIBLE_CONFIG", "indelible.toml")];
        check(folder.path(), &variables, &["--print-config"], 1, says);
    };
    says("keys = true\nlisten = \n", &["error: indelible.toml:2:10: "]);
    says("listn = \"x\"", &["indelible.toml: listn: unknown key", "mean `listen`?"]);
    says(
        "[retention]\ncompleted = \"30 parsecs\"",
        &[
            "error: indelible.toml: retention.completed: \"30 parsecs\" is not a valid duration\n",
            "hint: a number and a unit, as 45s, 90m, 12h, 30d or 8w; or forever",
        ],
    );
    says(
        "keys = 1\n[retention]\nfailed = 7\n",
        &[
            "indelible.toml: keys: 1 is not a valid switch",
            "retention.failed: 7 is not a valid duration",
        ],
    );
    says(
        "[secrets]\nA = \"hunter2\"",
        &["indelible.toml: secrets.A: the source of the secret is missing"],
    );
    check(
        folder.path(),
        &[],
        &["--config", "gone.toml"],
        2,
        &["error: --config: cannot read gone.toml: ", "hint: "],
    );
    let (_, text) = said(folder.path(), &[("INDELIBLE_CONFIG", "gone.toml")], &[]);
    assert!(text.contains("error: INDELIBLE_CONFIG: cannot read gone.toml: "), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

/// A variable that is nearly right is told, and the server starts all the same; those of others are
/// not told of.
#[test]
fn variables_that_are_nearly_right() {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("INDELIBLE_LISTN", "127.0.0.1:1"),
        ("INDELIBLE_URL", "http://127.0.0.1:1"),
        ("INDELIBLE_TOKEN", "secret"),
        ("INDELIBLE_SEEDS", "7"),
    ];
    let output = serve(folder.path(), &variables, &["--print-config"]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "warning: INDELIBLE_LISTN is set but unknown; did you mean INDELIBLE_LISTEN?\n"
    );
}

/// A file that lets a component send, with a secret, and a port that another has: everything is set
/// up until the server would listen.
fn sending(folder: &Path) -> (TcpListener, String) {
    let file = "[components.shop]\nhosts = [\"api.example.com\"]\nsecrets = [\"API_KEY\"]\n\
                [secrets]\nAPI_KEY = \"env:SHOP_API_KEY\"\n";
    fs::write(folder.join("indelible.toml"), file).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    (taken, address)
}

/// A secret that could not be taken out of an answer is refused by its name.
#[test]
fn secrets_that_are_too_short() {
    let folder = tempfile::tempdir().unwrap();
    let (_taken, address) = sending(folder.path());
    let arguments = ["--config", "indelible.toml", "--listen", &address];
    let says = |value: &str, says: &[&str]| {
        check(folder.path(), &[("SHOP_API_KEY", value)], &arguments, 1, says);
        let (_, text) = said(folder.path(), &[("SHOP_API_KEY", value)], &arguments);
        assert!(!text.contains("hunter"), "{text}");
    };
    let short = "error: cannot set up HTTP: the secret `API_KEY` has fewer than 8 bytes";
    says("hunter2", &[short, "hint: use a longer secret"]);
    says("", &[short]);
    says("hunter22", &["error: cannot listen on "]);
}

/// The proxies of the environment are used only if that is said, and what is not used is told, where
/// something may be sent at all.
#[test]
fn proxies_that_are_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (_taken, address) = sending(folder.path());
    let listen = ["--listen", &address];
    let may_send = [&["--config", "indelible.toml"][..], &listen].concat();
    let warning = " WARN indelible::serve: HTTPS_PROXY is set and ignored: ";
    let key = ("SHOP_API_KEY", "hunter22");
    let proxy = ("HTTPS_PROXY", "http://me:hunter22@proxy.example:3128");
    let wanted = ("INDELIBLE_PROXY_FROM_ENVIRONMENT", "true");
    for (variables, arguments, warned) in [
        (&[key, proxy][..], &may_send[..], true),
        (&[key], &may_send, false),
        (&[key, ("HTTPS_PROXY", "")], &may_send, false),
        (&[key, proxy], &listen, false),
        (&[key, proxy, wanted], &may_send, false),
        (&[key, proxy], &[&may_send[..], &["--proxy-from-environment"]].concat(), false),
        (
            &[key, proxy, wanted],
            &[&may_send[..], &["--proxy-from-environment=false"]].concat(),
            true,
        ),
    ] {
        check(folder.path(), variables, arguments, 1, &["error: cannot listen on "]);
        let (_, text) = said(folder.path(), variables, arguments);
        assert_eq!(text.contains(warning), warned, "{variables:?} {arguments:?}: {text}");
        assert_eq!(text.contains("proxy_from_environment = true"), warned, "{text}");
        assert!(!text.contains("hunter22"), "{text}");
    }
    // One that cannot be used matters where it is used.
    let socks = ("HTTPS_PROXY", "socks5://me:hunter22@proxy.example");
    check(folder.path(), &[key, socks], &may_send, 1, &[warning, "error: cannot listen on "]);
    let refused = "error: cannot set up HTTP: `HTTPS_PROXY` is not the URL of a proxy";
    check(folder.path(), &[key, socks, wanted], &may_send, 1, &[refused]);
}
