//! Who may do what: API keys over a real store, session tokens that are forged in every way we
//! know, and requests that a web page would send.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod access;
mod local;
mod sessions;
mod tokens;

use std::path::Path;

use indelible_api::access::{NewToken, Role};
use indelible_journal::{Micros, Timestamp};
use indelible_records::TABLES;
use indelible_runtime::Actor;
use indelible_store::{Store, embedded};
use indelible_test_store::folder::reopen;

fn open(folder: &Path) -> Store {
    reopen(|| embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default()))
        .unwrap()
}

/// So many seconds after a day in 2026.
fn at(seconds: u64) -> Timestamp {
    let day: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
    day.saturating_add(Micros::new(seconds * 1_000_000))
}

fn admin() -> Actor {
    Actor::new("user:ada")
}

fn new_token(name: &str, roles: &[Role], namespaces: &[&str]) -> NewToken {
    NewToken {
        name: name.to_owned(),
        roles: roles.to_vec(),
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        expires_at: None,
    }
}
