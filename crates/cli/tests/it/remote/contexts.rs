//! `indelible context`: what is remembered, what is forgotten, and that no command prints a secret.

use std::fs;
use std::path::PathBuf;

use super::kit::User;

const URL: &str = "https://indelible.example.com";

/// A well-formed certificate that no client trusts.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBgDCCASWgAwIBAgIUPnxcUOYDqM31r2TQxely5H76oSUwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTExNzA2MjQwOVoYDzIxMjYxMDI0
MDYyNDA5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASXd2cwZTDsqitHDPGlYlgEnUCybSZ0wzwYDcoxMtXpbMcIDOeU6oB6
Tf+HB5lXXfhCOBy5hmHq/M1ivIivUf+Yo1MwUTAdBgNVHQ4EFgQU3FPuUrhcVZ0q
tqrQ1AVyoJEnJ/0wHwYDVR0jBBgwFoAU3FPuUrhcVZ0qtqrQ1AVyoJEnJ/0wDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEApKBQmN+g+uBhAzpQipvn
ksWYcEOyuDfc5OsZU9WJbZwCIQC/RCD0E0kZlCWXD86cMG+/AEw6At35uNDlzAlB
YXEizg==
-----END CERTIFICATE-----
";

fn file(user: &User) -> PathBuf {
    user.folder().join("config/indelible/contexts.toml")
}

fn remembered(user: &User) -> String {
    fs::read_to_string(file(user)).unwrap()
}

/// A user whose context `prod` has every setting that a context can have.
fn who_knows_prod() -> User {
    let user = User::new();
    user.file("ca.pem", CERTIFICATE);
    let add = ["context", "add", "prod", "--url", URL, "--namespace", "eu", "--ca", "ca.pem"];
    let said = user.run_with(&[&add[..], &["--token-stdin"]].concat(), "ind_of-prod\n");
    assert_eq!(said.code, 0, "{}", said.stderr);
    user
}

/// A second `context add` keeps the settings that it does not name. With another URL the token is
/// forgotten, and the user is told; a token given with that URL is the new server's.
#[test]
fn what_is_not_said_again() {
    let user = who_knows_prod();
    let before = remembered(&user);
    assert!(before.contains("ind_of-prod") && before.contains("ca.pem"), "{before}");
    user.run(&["context", "add", "prod", "--url", URL]).check(
        0,
        "
        ---
        prod is https://indelible.example.com
        it is the current context
        ",
    );
    assert_eq!(remembered(&user), before);
    user.does(&["context", "add", "prod", "--url", URL, "--namespace", "us"]);
    assert_eq!(remembered(&user), before.replace("\"eu\"", "\"us\""));

    user.run(&["context", "add", "prod", "--url", "https://other.example.com"]).check(
        0,
        "
        ---
        its token was removed: it was for https://indelible.example.com
        prod is https://other.example.com
        it is the current context
        ",
    );
    let after = remembered(&user);
    assert!(!after.contains("ind_") && after.contains("ca.pem"), "{after}");
    let add = ["context", "add", "prod", "--url", URL, "--token-stdin"];
    let said = user.run_with(&add, "ind_new\n");
    assert!(!said.stderr.contains("forgotten"), "{}", said.stderr);
    assert!(remembered(&user).contains("ind_new"));
}

/// `--json` prints the row that a list would have, and no words on stdout.
#[test]
fn as_json() {
    let user = User::new();
    let add = ["context", "add", "prod", "--url", URL, "--token-stdin", "--json"];
    user.run_with(&add, "ind_of-prod").check(
        0,
        r#"
        {"v":1,"name":"prod","url":"https://indelible.example.com","has_token":true,"current":true}
        "#,
    );
    let add = ["context", "add", "eu", "--url", "https://eu.example.com", "--namespace", "eu"];
    user.run(&[&add[..], &["--json"]].concat()).check(
        0,
        r#"
        {"v":1,"name":"eu","url":"https://eu.example.com","namespace":"eu","has_token":false,"current":false}
        "#,
    );
    let chosen = user.json(&["context", "use", "eu"]);
    assert_eq!((&chosen["name"], &chosen["current"]), (&"eu".into(), &true.into()));
    user.run(&["context", "remove", "eu", "--yes", "--json"]).check(
        0,
        r#"
        {"v":1,"name":"eu","url":"https://eu.example.com","namespace":"eu","has_token":false,"current":true}
        "#,
    );
    let forgets = ["context", "add", "prod", "--url", "https://eu.example.com", "--json"];
    user.run(&forgets).check(
        0,
        r#"
        {"v":1,"name":"prod","url":"https://eu.example.com","has_token":false,"current":true}
        ---
        its token was removed: it was for https://indelible.example.com
        "#,
    );
    user.run(&["context", "remove", "eu", "--yes", "--json"]).check(
        1,
        "
        ---
        error: there is no context \"eu\"
          prod
        hint: indelible context add NAME --url URL
        ",
    );
}

/// What no command could use is not remembered, and what was remembered stays.
#[test]
fn what_cannot_be_used_is_not_remembered() {
    let user = who_knows_prod();
    let before = remembered(&user);
    user.file("empty.pem", "nothing");
    let cases: [(&[&str], &str); 6] = [
        (&["--url", "localhost:7070"], "it must begin with http:// or https://"),
        (&["--url", "http://192.0.2.1", "--token-stdin"], "a token is not sent over plain http"),
        (&["--url", URL, "--token-stdin"], "use printable ASCII characters"),
        (&["--url", URL, "--namespace", "Not One"], "namespace"),
        (&["--url", URL, "--ca", "absent.pem"], "cannot read the certificates"),
        (&["--url", URL, "--ca", "empty.pem"], "no certificates were found"),
    ];
    for (arguments, words) in cases {
        let stdin = if words.contains("printable") { "two words" } else { "ind_new" };
        let add = [&["context", "add", "prod"], arguments].concat();
        let said = user.run_with(&add, stdin);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{arguments:?}: {}", said.stderr);
        assert!(
            said.stderr.starts_with("error: ") && said.stderr.contains(words),
            "{}",
            said.stderr
        );
        assert!(!said.stderr.contains("ind_new"), "{}", said.stderr);
        assert_eq!(remembered(&user), before, "{arguments:?}");
    }
    // The URL alone cannot be changed to one that the token may not be sent to: it is forgotten.
    user.does(&["context", "add", "prod", "--url", "http://192.0.2.1"]);
}

/// A name that makes no sense is a matter of arguments.
#[test]
fn names_that_make_no_sense() {
    let user = User::new();
    for name in ["", "two words", "a\nb"] {
        user.run(&["context", "add", name, "--url", URL]).check(
            2,
            "
            ---
            error: the name of a context must not be empty or have spaces
            hint: indelible context add prod --url https://indelible.example.com
            ",
        );
    }
    assert!(!file(&user).exists());
}

/// The error about a broken file gives the place and not the text, which may be a token.
#[test]
fn a_broken_file_keeps_its_secrets() {
    let user = who_knows_prod();
    let good = remembered(&user);
    let said = |to: &str| {
        fs::write(file(&user), good.replace("token = \"ind_of-prod\"", to)).unwrap();
        user.run(&["context", "list"])
    };
    let at = good.lines().position(|line| line.starts_with("token")).unwrap() + 1;
    for to in ["token = ind_of-prod", "tokn = \"ind_of-prod\"", "token = [\"ind_of-prod\"]"] {
        let said = said(to);
        let place = format!("error: {}:{at}:", file(&user).display());
        assert_eq!(said.code, 1);
        assert!(said.stderr.starts_with(&place), "{}", said.stderr);
        assert!(said.stderr.ends_with("hint: fix the file, or remove it\n"), "{}", said.stderr);
        assert!(!said.stderr.contains("of-prod"), "{}", said.stderr);
    }
}

/// A file that is kept elsewhere, and linked to, stays there.
#[test]
fn a_linked_file_stays_linked() {
    let user = who_knows_prod();
    let kept = user.folder().join("kept.toml");
    fs::rename(file(&user), &kept).unwrap();
    std::os::unix::fs::symlink(&kept, file(&user)).unwrap();
    user.does(&["context", "add", "other", "--url", "http://127.0.0.1:7070"]);
    assert!(fs::symlink_metadata(file(&user)).unwrap().is_symlink());
    assert!(fs::read_to_string(&kept).unwrap().contains("[contexts.other]"));
}

/// A file that cannot be read, or not be written, is told with what to do.
#[test]
fn a_file_that_cannot_be_had() {
    let add = ["context", "add", "prod", "--url", URL];
    // A file where the folder should be, and a link that leads nowhere.
    let (file, link) = (User::new(), User::new());
    file.file("config", "");
    std::os::unix::fs::symlink("nowhere", link.folder().join("config")).unwrap();
    for (user, words) in [(file, "cannot read"), (link, "cannot write")] {
        let said = user.run(&add);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""));
        assert!(said.stderr.contains(words), "{}", said.stderr);
        assert!(said.stderr.contains("contexts.toml: ") && said.stderr.contains("\nhint: "));
    }
}
