//! `--print-config`: what holds, where it is from, and that it is a configuration again.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use super::said;

const FILE: &str = "\
keys = true
host_names = [\"a.example.com\"]
[tls]
cert = \"chain.pem\"
key = \"key.pem\"
[retention]
completed = \"30d\"
[components.shop]
hosts = [\"api.example.com\"]
secrets = [\"API_KEY\"]
[secrets]
API_KEY = \"env:SHOP_API_KEY\"
OTHER = \"file:other\"
";

fn printed(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let (output, text) = said(folder, variables, arguments);
    assert!(output.status.success(), "{text}");
    assert_eq!(text, "");
    String::from_utf8(output.stdout).unwrap()
}

/// Every layer is there with its name, nothing is started, touched or looked at, and no secret is
/// shown; given back as a file from elsewhere, without the environment and the flags, it comes to the
/// same.
#[test]
fn what_holds_can_be_given_back() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    fs::create_dir_all(folder.join("conf")).unwrap();
    fs::write(folder.join("conf/indelible.toml"), FILE).unwrap();
    // A port that cannot be had, and certificates that are missing: `--print-config` does not look.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [
        ("INDELIBLE_CONFIG", "conf/indelible.toml"),
        ("INDELIBLE_LISTEN", address.as_str()),
        ("INDELIBLE_DATA", "of-environment"),
        ("INDELIBLE_RETENTION_FAILED", "36h"),
        ("SHOP_API_KEY", "hunter2"),
    ];
    let flags = ["--data", "of-flag", "--host-name", "b.example.com", "--print-config"];
    let first = printed(&folder, &variables, &flags);
    let at = folder.display();
    for line in [
        format!("listen = \"{address}\" # INDELIBLE_LISTEN"),
        format!("data = \"{at}/of-flag\" # --data"),
        "keys = true # conf/indelible.toml".to_owned(),
        "behind_proxy = false # default".to_owned(),
        "host_names = [\"b.example.com\"] # --host-name".to_owned(),
        format!("cert = \"{at}/conf/chain.pem\" # conf/indelible.toml"),
        "completed = \"30d\" # conf/indelible.toml".to_owned(),
        "failed = \"36h\" # INDELIBLE_RETENTION_FAILED".to_owned(),
        "cancelled = \"forever\" # default".to_owned(),
        "API_KEY = \"env:SHOP_API_KEY\" # conf/indelible.toml".to_owned(),
        format!("OTHER = \"file:{at}/conf/other\" # conf/indelible.toml"),
    ] {
        assert!(first.lines().any(|own| own == line), "{line} is not in:\n{first}");
    }
    assert!(!first.contains("hunter2"), "{first}");

    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("printed.toml"), &first).unwrap();
    let again = ["--config", "printed.toml", "--print-config"];
    let second = printed(elsewhere.path(), &[], &again);
    let config = |folder: &Path, variables: &[(&str, &str)], arguments: &[&str]| {
        let text = printed(folder, variables, &[arguments, &["--json"]].concat());
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let mut of_first = config(&folder, &variables, &flags);
    let mut of_second = config(elsewhere.path(), &[], &again);
    assert_eq!(of_first["v"], 1);
    assert_eq!(of_first["file"], "conf/indelible.toml");
    assert_eq!(of_first["sources"]["data"], "--data");
    assert_eq!(of_first["sources"]["retention.failed"], "INDELIBLE_RETENTION_FAILED");
    assert_eq!(of_first["config"]["tls"]["cert"], format!("{at}/conf/chain.pem"));
    assert_eq!(of_first["config"]["sessions"]["issuer"], Value::Null);
    assert_eq!(of_first["config"]["secrets"]["API_KEY"], "env:SHOP_API_KEY");
    assert_eq!(of_first["config"].take(), of_second["config"].take(), "{second}");
    let mut here: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    here.sort();
    assert_eq!(here, ["conf"], "nothing was made");
}

/// A switch in the file is taken back by a flag, and JSON is for printing alone.
#[test]
fn switches_and_json() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "keys = true\n").unwrap();
    let of = |flags: &[&str]| {
        let all = [&["--config", "a.toml", "--print-config"], flags].concat();
        printed(folder.path(), &[], &all)
    };
    assert!(of(&[]).contains("keys = true # a.toml\n"));
    assert!(of(&["--keys=false"]).contains("keys = false # --keys\n"));
    assert!(of(&["--keys"]).contains("keys = true # --keys\n"));
    let (output, text) = said(folder.path(), &[], &["--json"]);
    assert_eq!(output.status.code(), Some(2), "{text}");
}
