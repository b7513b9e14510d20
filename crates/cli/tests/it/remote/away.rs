//! No server answers, another program does, or the command cannot tell which server is meant.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use indelible_http_peer::Peer;

use super::kit::{House, User, guest};

/// Answers whatever comes with these bytes, on any number of connections.
fn stranger(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            _ = stream.read(&mut [0; 4096]);
            _ = stream.write_all(answer);
        }
    });
    format!("http://{address}")
}

/// Every command says at once that no server is there.
#[test]
fn no_server() {
    let user = User::new();
    // A port that no process listens on, and that no other process is given meanwhile.
    let peer = Peer::start();
    peer.down();
    let url = peer.url("");
    let expected = "
        ---
        error: no server responds at http://127.0.0.1:[PORT]: Connection refused (os error 111)
        hint: start a server with `indelible serve`, or choose another with --url or --context
    ";
    let component = guest("trivial");
    for arguments in [
        &["functions"][..],
        &["components"],
        &["deploy", &component],
        &["call", "order"],
        &["start", "shop/order"],
        &["signal", "last", "stop"],
        &["cancel", "last", "--yes"],
        &["release", "last"],
        &["fail", "last", "--yes"],
        &["audit"],
        &["retention", "clock"],
        &["retention", "confirm", "--yes", "--reason", "x"],
    ] {
        user.run(&[arguments, &["--url", &url]].concat()).check(5, expected);
    }
    for arguments in [
        &["unresolved"][..],
        &["resolve", "9c4f1a2b.0", "did-not-happen", "--reason", "x"],
        &["token", "create", "ops", "--role", "admin"],
        &["token", "list"],
        &["token", "revoke", "0123456789abcdef", "--yes"],
    ] {
        let said = user.run(&[arguments, &["--url", &url]].concat());
        assert_eq!(said.code, 5, "{}", said.stderr);
        assert!(said.stderr.contains("with --data DIR"), "{}", said.stderr);
    }
}

/// Something else listens there.
#[test]
fn something_else_than_indelible() {
    let user = User::new();
    let page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\
                 connection: close\r\n\r\nhello";
    user.run(&["functions", "--url", &stranger(page)]).check(
        5,
        "
        ---
        error: http://127.0.0.1:[PORT] does not respond like an Indelible server: \
        invalid response (status 200 OK): its body is not JSON
        hint: check the address, and any proxy in between
        ",
    );
    let none = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    user.run(&["call", "shop/order", "--url", &stranger(none)]).check(
        5,
        "
        ---
        error: http://127.0.0.1:[PORT] does not respond like an Indelible server: \
        invalid response (status 404 Not Found): it is neither a result nor a problem
        hint: check the address, and any proxy in between
        ",
    );
    let said = user.run(&["functions", "--url", &stranger(b"SSH-2.0-OpenSSH_9.9\r\n")]);
    assert_eq!(said.code, 5);
    assert!(said.stderr.contains("does not respond like an Indelible server"), "{}", said.stderr);
}

/// An address that makes no sense, and a token that would travel in the open: nothing is sent.
#[test]
fn addresses_that_are_refused() {
    let user = User::new();
    user.run(&["functions", "--url", "localhost:7070"]).check(
        1,
        "
        ---
        error: the server localhost:7070 cannot be used: invalid server address: \
        it must begin with http:// or https://
        hint: give a URL such as http://127.0.0.1:7070 or https://indelible.example.com
        ",
    );
    let user = user.with_token("ind_abc");
    user.run(&["functions", "--url", "http://192.0.2.1:7070"]).check(
        1,
        "
        ---
        error: the server http://192.0.2.1:7070 cannot be used: a token is not sent over plain \
        http to another machine
        hint: use https:// for the server; over plain http the network could read the token
        ",
    );
    user.run(&["functions", "--token-file", "absent"]).check(
        1,
        "
        ---
        error: cannot read the token in absent: No such file or directory (os error 2)
        hint: --token-file needs a file with the API key and nothing else
        ",
    );
    let user = user.with_token("not a token");
    user.run(&["functions"]).check(
        1,
        "
        ---
        error: the server http://127.0.0.1:7070 cannot be used: invalid token: use printable \
        ASCII characters without spaces
        hint: an API key begins with ind_: check INDELIBLE_TOKEN, --token-file, or the context
        ",
    );
}

/// Contexts that there are not, that others may read, and that are chosen.
#[test]
fn contexts() {
    let house = House::new(&[]);
    let user = User::new();
    user.run(&["functions", "--context", "prod"]).check(
        1,
        "
        ---
        error: there is no context \"prod\"
        hint: indelible context add NAME --url URL
        ",
    );
    let url = format!("http://{}", house.server.address);
    user.run(&["context", "add", "here", "--url", &url]).check(
        0,
        "
        ---
        here is http://127.0.0.1:[PORT]
        it is the current context
        ",
    );
    user.run_with(
        &["context", "add", "prod", "--url", "https://indelible.example.com", "--token-stdin"],
        "ind_a-secret-that-nobody-sees\n",
    )
    .check(
        0,
        "
        ---
        prod is https://indelible.example.com
        hint: make it the current context with `indelible context use prod`
        ",
    );
    user.run(&["context", "list"]).check(
        0,
        "
        * here  http://127.0.0.1:[PORT]  without a token
          prod  https://indelible.example.com  with a token
        ",
    );
    user.run(&["context", "list", "--json"]).check(
        0,
        r#"
        {"v":1,"name":"here","url":"http://127.0.0.1:[PORT]","has_token":false,"current":true}
        {"v":1,"name":"prod","url":"https://indelible.example.com","has_token":true,"current":false}
        "#,
    );
    user.run(&["functions"]).check(
        0,
        "
        ---
        nothing is deployed yet
        hint: deploy a component with `indelible deploy PATH`
        ",
    );
    user.run(&["functions", "--context", "pord"]).check(
        1,
        "
        ---
        error: there is no context \"pord\"
          here
          prod
        hint: indelible context add NAME --url URL
        ",
    );
    user.run(&["context", "remove", "prod"]).check(
        1,
        "
        ---
        error: not confirmed: remove the context prod and its token?
        hint: confirm with --yes; nothing was done
        ",
    );
    let file = user.folder().join("config/indelible/contexts.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    user.run(&["functions"]).check(
        1,
        "
        ---
        error: [FOLDER]/config/indelible/contexts.toml contains credentials, and other users can \
        read it
        hint: chmod 600 [FOLDER]/config/indelible/contexts.toml
        ",
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(user.does(&["context", "remove", "prod", "--yes"]), "");
    std::fs::write(&file, "[contexts.here]\nurl = 7\n").unwrap();
    let said = user.run(&["functions"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.ends_with("hint: fix the file, or remove it\n"), "{}", said.stderr);
}
