//! A process that one of its executions kills, for the test of what becomes of such an execution
//! (C-85): an execution that draws a random number aborts the process, at the same place every
//! time.
//!
//! `dying FOLDER COMPONENT PROGRAM`: opens the engine, starts what is to run if it is not there
//! yet, the program that is to kill it among others, and says what becomes of each.
#![allow(clippy::unwrap_used, reason = "a process for a test: whatever goes wrong is shown")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "it reads files and talks")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indelible_journal::{JournalKey, Namespace, OperationId, Payload};
use indelible_records::TABLES;
use indelible_records::labels::Labels;
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests};
use indelible_runtime::world::{Entropy, Observer, Purpose, System};
use indelible_runtime::{Attribution, Engine, Options, Start, WitnessFile, World};
use indelible_store::embedded;

struct Deadly;

impl Entropy for Deadly {
    fn fill(&self, purpose: Purpose<'_>, bytes: &mut [u8]) {
        if let Purpose::Guest(_) = purpose {
            std::process::abort();
        }
        System.fill(purpose, bytes);
    }
}

struct Telling;

static HELD: AtomicBool = AtomicBool::new(false);

impl Observer for Telling {
    fn stuck(&self, key: &JournalKey, why: &str) {
        println!("stuck {} {why}", key.execution_id());
        HELD.store(true, Ordering::SeqCst);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let (folder, component) = (arguments.next().unwrap(), arguments.next().unwrap());
    let deadly = arguments.next().unwrap().into_string().unwrap();
    let folder = Path::new(&folder);
    let store = embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default());
    let guests = Guests::new(
        GuestOptions { guests_max: 100, ..GuestOptions::default() },
        Artifacts::folder(folder.join("artifacts")).unwrap(),
    );
    let witness = Arc::new(WitnessFile::open(&folder.join("replays")).unwrap());
    let (entropy, observer) = (Arc::new(Deadly), Arc::new(Telling));
    let world = World { entropy, observer, witness, ..World::system(guests.unwrap()) };
    let options = Options { workers: 2, ..Options::default() };
    let engine = Engine::open(store.unwrap(), options, world).unwrap();
    engine
        .deploy("script", &std::fs::read(component).unwrap(), Attribution::default())
        .await
        .unwrap();
    // They all go on at about the same time, in this process and in those after it.
    let others =
        r#"[{"timer":["t",200]},{"await":"t"},{"timer":["u",1]},{"await":"u"},{"return":1}]"#;
    let mut ids = Vec::new();
    for number in 0..20 {
        let start = Start {
            namespace: Namespace::new("tests").unwrap(),
            operation_id: Some(OperationId::new(&format!("op-{number}")).unwrap()),
            idempotency_key: None,
            component: "script".to_owned(),
            function: "main".to_owned(),
            input: Payload::json(if number == 7 { deadly.clone() } else { others.to_owned() }),
            trace_parent: None,
            actor: None,
            labels: Labels::default(),
        };
        ids.push(engine.start(start).await.unwrap().execution_id);
    }
    println!("deadly {}", ids[7]);
    for (number, id) in ids.iter().enumerate().filter(|(number, _)| *number != 7) {
        let ending = engine.outcome(id).await.unwrap().unwrap();
        println!("ended {number} {ending:?}");
    }
    while !HELD.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    println!("over");
    std::io::stdout().flush().unwrap();
}
