//! A server: what it answers, what it keeps over a crash, and what it leaves behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpStream;
use std::process::Command;

use indelible_postgres_fixture::{Cluster, Error, Options, shared};

fn setting(name: &str, value: &str) -> Options {
    Options { settings: vec![(name.to_owned(), value.to_owned())], ..Options::default() }
}

/// The server answers, by both ways in, and is set as the documentation says.
#[test]
fn a_server_answers() {
    let cluster = shared();
    let sql = |text| cluster.sql("postgres", text).unwrap();
    assert_eq!(sql("SELECT 1, 'zwei'; SELECT 3;"), "1|zwei\n3");
    assert_eq!(sql("SHOW server_encoding"), "UTF8");
    assert_eq!(sql("SHOW fsync; SHOW synchronous_commit; SHOW max_connections"), "off\non\n500");
    assert_eq!(sql("SELECT 'a' COLLATE \"default\" < 'B'"), "f", "it sorts by code point");
    assert_eq!(sql("SELECT chr(128512)"), "\u{1f600}");
    assert_eq!(sql("SELECT"), "");
    // By both ways in.
    TcpStream::connect((cluster.host(), cluster.port())).unwrap();
    assert!(cluster.socket_dir().join(format!(".s.PGSQL.{}", cluster.port())).exists());
    let (password, port) = (cluster.password(), cluster.port());
    assert_eq!(password.len(), 32);
    let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/orders_1");
    assert_eq!(cluster.url("orders_1"), url);
}

/// Options become the server's, whatever characters are in them.
#[test]
fn options_are_the_servers() {
    let cluster = Cluster::start(Options {
        fsync: true,
        connections_max: 7,
        settings: vec![
            ("application_name".to_owned(), r"it's \ here".to_owned()),
            ("deadlock_timeout".to_owned(), "123ms".to_owned()),
        ],
    })
    .unwrap();
    let shown = cluster.sql("postgres", "SHOW fsync; SHOW max_connections; SHOW deadlock_timeout");
    assert_eq!(shown.unwrap(), "on\n7\n123ms");
    let quoted = "SELECT setting FROM pg_file_settings WHERE name = 'application_name'";
    assert_eq!(cluster.sql("postgres", quoted).unwrap(), r"it's \ here");
}

/// More statements and more rows than a pipe holds, both at once.
#[test]
fn much_goes_in_and_out() {
    let text = format!("SELECT repeat('x', 100), '{}';\n", "y".repeat(900)).repeat(2000);
    let rows = shared().sql("postgres", &text).unwrap();
    assert_eq!(rows.lines().count(), 2000);
    assert!(rows.lines().all(|row| row.len() == 1001));
}

/// A statement that fails gives the server's words, and ends what was to come.
#[test]
fn a_refusal_is_the_servers() {
    let database = shared().create_database("refusal");
    let text = "CREATE TABLE t (n int); SELECT no_such_column; INSERT INTO t VALUES (1);";
    let error = shared().sql(&database, text).unwrap_err();
    assert!(matches!(&error, Error::Sql { said } if said.contains("no_such_column")), "{error}");
    assert_eq!(shared().sql(&database, "SELECT count(*) FROM t").unwrap(), "0");
    let error = shared().sql("no_such_database", "SELECT 1").unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
}

/// All threads of a process share one server, and each has a database of its own.
#[test]
fn threads_share_a_server_and_have_their_own_databases() {
    let databases: BTreeSet<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn(move || {
                    let database = shared().create_database("thread");
                    let text = format!("CREATE TABLE t AS SELECT {number} AS n; TABLE t");
                    assert_eq!(shared().sql(&database, &text).unwrap(), number.to_string());
                    database
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(databases.len(), 8);
}

/// A crash breaks connections and loses what was not committed; what was committed is there again,
/// at the same address.
#[test]
fn a_crash_keeps_what_was_committed() {
    let cluster = Cluster::start(Options::default()).unwrap();
    let url = cluster.url("postgres");
    cluster.sql("postgres", "CREATE TABLE t (n int)").unwrap();
    for round in 0..3 {
        let text = format!("SET synchronous_commit = on; INSERT INTO t VALUES ({round})");
        cluster.sql("postgres", &text).unwrap();
        // One that is connected sees its connection end, and what it had not committed is gone.
        let mut connection = TcpStream::connect((cluster.host(), cluster.port())).unwrap();
        let under_way = std::thread::scope(|scope| {
            let open = "BEGIN; INSERT INTO t VALUES (99); SELECT pg_advisory_lock(1); \
                        SELECT pg_sleep(600); COMMIT;";
            let open = scope.spawn(|| cluster.sql("postgres", open));
            // When the lock is not to be had, the other has inserted.
            while cluster.sql("postgres", "SELECT pg_try_advisory_lock(1)").unwrap() == "t" {
                assert!(!open.is_finished(), "it ended by itself");
            }
            if round == 1 {
                cluster.restart_in_the_middle().unwrap();
            } else {
                cluster.crash().unwrap();
                cluster.sql("postgres", "SELECT 1").unwrap_err();
                TcpStream::connect((cluster.host(), cluster.port())).unwrap_err();
                cluster.crash().unwrap();
                cluster.start_again().unwrap();
            }
            open.join().unwrap()
        });
        under_way.unwrap_err();
        // Nothing, or that the connection was reset: the end in either case.
        connection.read_to_end(&mut Vec::new()).ok();
        let rows: Vec<String> = (0..=round).map(|n: i32| n.to_string()).collect();
        let found = cluster.sql("postgres", "SELECT n FROM t ORDER BY n").unwrap();
        assert_eq!(found, rows.join("\n"));
        assert_eq!(cluster.url("postgres"), url);
    }
    // One that runs is left alone.
    let since = "SELECT pg_postmaster_start_time()";
    let before = cluster.sql("postgres", since).unwrap();
    cluster.start_again().unwrap();
    assert_eq!(cluster.sql("postgres", since).unwrap(), before);
}

/// Two servers at once know nothing of each other, and one that is dropped leaves nothing behind.
#[test]
fn two_servers_at_once() {
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| Cluster::start(Options::default()).unwrap());
        let two = scope.spawn(|| Cluster::start(Options::default()).unwrap());
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_ne!(one.port(), two.port());
    assert_ne!(one.socket_dir(), two.socket_dir());
    one.sql("postgres", "CREATE TABLE only_here ()").unwrap();
    two.sql("postgres", "TABLE only_here").unwrap_err();

    let folder = one.socket_dir().to_owned();
    let address = (one.host(), one.port());
    drop(one);
    assert!(!folder.exists(), "{} is left", folder.display());
    TcpStream::connect(address).unwrap_err();
    assert_eq!(two.sql("postgres", "SELECT 1").unwrap(), "1");
    // Also when it is down.
    let folder = two.socket_dir().to_owned();
    two.crash().unwrap();
    drop(two);
    assert!(!folder.exists(), "{} is left", folder.display());
}

/// A setting that the server does not take gives an error in the server's words.
#[test]
fn a_wrong_setting_is_told_by_the_server() {
    for (name, value, words) in [
        ("no_such_setting", "1", "unrecognized configuration parameter \"no_such_setting\""),
        ("work_mem", "much", "invalid value for parameter \"work_mem\": \"much\""),
        ("max_connections", "0", "0 is outside the valid range for parameter \"max_connections\""),
        ("shared_preload_libraries", "no_such_library", "could not access file"),
    ] {
        let error = Cluster::start(setting(name, value)).unwrap_err();
        assert!(matches!(&error, Error::Start { log } if log.contains(words)), "{error}");
    }
}

/// No client gets in by the port without the password: a superuser may run programs.
#[test]
fn the_port_asks_for_the_password() {
    let cluster = shared();
    let login = |url: &str| {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-w", "-A", "-t", "-c", "SELECT 1", "-d", url]);
        let output = psql.env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null").output();
        output.expect("PostgreSQL's package brings psql").status.success()
    };
    assert!(login(&cluster.url("postgres")));
    assert!(!login(&cluster.url("postgres").replace(cluster.password(), "another")));
    let without = cluster.url("postgres").replace(&format!(":{}@", cluster.password()), "@");
    assert!(!login(&without));
}
