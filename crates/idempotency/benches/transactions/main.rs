//! What the library adds to a transaction: the same one bare and with `begin` and `commit`, and a
//! replay beside a plain read, with many clients at once.
//!
//! ```sh
//! cargo bench -p indelible-idempotency -- --rounds 5 --seconds 2 --clients 32 postgres sqlite sqlite-each
//! ```
//!
//! Without a database's name it is the first two; `sqlite-each` has a connection for writing for each
//! client. `--json` prints one object for each row instead of a table. All forms take turns in each round,
//! so that a slow minute of the machine is every form's; figures are medians over the rounds, and
//! ratios medians of each round's ratio.
#![allow(clippy::unwrap_used, reason = "a benchmark that fails has nothing to say")]
#![allow(clippy::print_stdout, reason = "it prints its figures")]
#![allow(clippy::disallowed_methods, reason = "it measures time and makes a folder")]

mod load;
mod postgres;
mod sqlite;

use std::time::Duration;

use crate::load::{Form, Measured};
use crate::sqlite::Writers;

/// What to run.
struct Arguments {
    rounds: usize,
    round: Duration,
    clients: usize,
    json: bool,
    postgres: bool,
    sqlite: bool,
    sqlite_each: bool,
}

impl Arguments {
    fn read() -> Self {
        let mut read = Self {
            rounds: 5,
            round: Duration::from_secs(2),
            clients: 32,
            json: false,
            postgres: false,
            sqlite: false,
            sqlite_each: false,
        };
        let mut given = std::env::args().skip(1);
        while let Some(argument) = given.next() {
            let mut number = || given.next().and_then(|text| text.parse::<u32>().ok());
            match argument.as_str() {
                "--rounds" => read.rounds = number().expect("--rounds N") as usize,
                "--clients" => read.clients = number().expect("--clients N") as usize,
                "--seconds" => {
                    let seconds = number().expect("--seconds N");
                    read.round = Duration::from_secs(seconds.into());
                }
                "--json" => read.json = true,
                "postgres" => read.postgres = true,
                "sqlite" => read.sqlite = true,
                "sqlite-each" => read.sqlite_each = true,
                // What cargo adds.
                "--bench" => {}
                other => panic!("{other} is no argument: see the top of the benchmark's main.rs"),
            }
        }
        if !(read.postgres || read.sqlite || read.sqlite_each) {
            (read.postgres, read.sqlite) = (true, true);
        }
        read
    }
}

/// The rows of a report: a form, and what it is compared with.
const PAIRS: [(&str, Form, Form); 5] = [
    ("smallest, and SELECT 1 twice", Form::SmallBare, Form::SmallEmpty),
    ("smallest: one insert", Form::SmallBare, Form::Small),
    ("typical: select, update, two inserts", Form::TypicalBare, Form::Typical),
    (
        "replay in a transaction, beside a select",
        Form::ReadInTransaction,
        Form::ReplayInTransaction,
    ),
    ("replay alone, beside a select", Form::Read, Form::Replay),
];

fn report(database: &str, measured: &Measured, arguments: &Arguments) {
    let clients = arguments.clients;
    if !arguments.json {
        println!("\n{database}, clients: {clients}, rounds: {}", arguments.rounds);
        println!("{:<44}{:>10}{:>10}{:>8}", "a second", "bare", "library", "ratio");
    }
    for (what, bare, with) in PAIRS {
        let (bare_rate, with_rate) = (measured.rate(bare), measured.rate(with));
        let ratio = measured.ratio(with, bare);
        if arguments.json {
            println!(
                "{{\"database\":\"{database}\",\"clients\":{clients},\"what\":\"{what}\",\
                 \"bare\":{bare_rate:.0},\"library\":{with_rate:.0},\"ratio\":{ratio:.3}}}"
            );
        } else {
            println!("{what:<44}{bare_rate:>10.0}{with_rate:>10.0}{ratio:>8.3}");
        }
    }
}

fn main() {
    let arguments = Arguments::read();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Arguments { rounds, round, clients, .. } = arguments;
    if arguments.postgres {
        let base = postgres::Postgres::start(clients);
        let measured = runtime.block_on(load::measure(base, clients, rounds, round));
        report("postgres", &measured, &arguments);
    }
    let writers = [
        ("sqlite", Writers::Queue, arguments.sqlite),
        ("sqlite-each", Writers::Each, arguments.sqlite_each),
    ];
    for (database, writers, wanted) in writers {
        if wanted {
            let base = runtime.block_on(sqlite::Sqlite::start(writers));
            let measured = runtime.block_on(load::measure(base, clients, rounds, round));
            report(database, &measured, &arguments);
        }
    }
}
