//! A program with five things to do, killed at each step of its own and started again until they are
//! done: each is done once.

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use indelible_client::{OpenSequenced, Operations, SequencedError, WriterStep};
use indelible_test_support::Prng;
use serde_json::{Value, json};

use super::house::{Fate, House};

/// How many things there are to do.
const ITEMS: u64 = 5;

/// Thing `item`, as this process does it: it marks itself, and a thing that was done twice would be
/// seen. Another process would do it with other bytes: one that forgot what it has sent would be
/// refused.
fn thing(item: u64, process: u64) -> Value {
    let add = |key: String| json!({"add": {"key": key, "delta": 1, "unit": "piece"}});
    let by = json!({"value": {"codec": "text", "text": process.to_string()}});
    json!([
        add(format!("item-{item}")),
        add("total".to_owned()),
        {"set": {"key": format!("by-{item}"), "to": by}},
    ])
}

/// Numbers processes.
static PROCESSES: AtomicU64 = AtomicU64::new(0);

/// What the program is asked to do. It knows what is done by the writer's number alone: thing `n` is
/// the `n`th transaction.
async fn program(open: OpenSequenced) -> Result<(), SequencedError> {
    let process = PROCESSES.fetch_add(1, Ordering::Relaxed);
    let thing = |item| thing(item, process);
    let mut writer = open.await?;
    writer.resume().await?;
    while writer.committed() < ITEMS {
        let item = writer.committed() + 1;
        match item {
            // First something that is refused: there is not as much.
            2 => {
                let take = json!([{"add": {"key": "total", "delta": -9, "min": 0}}]);
                let refused = writer.transact(Operations::single(&take)).await;
                let Err(SequencedError::Refused(_)) = refused else {
                    refused?;
                    panic!("nothing was refused");
                };
                writer.transact(Operations::batch([thing(item)])).await?;
            }
            // Two at once.
            4 => {
                let both = vec![Operations::single(&thing(4)), Operations::single(&thing(5))];
                writer.run(both).await?;
            }
            item => {
                writer.transact(Operations::single(&thing(item))).await?;
            }
        }
    }
    Ok(())
}

/// What is pulled out with the plug.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plug {
    /// The process is killed: what it has written stays.
    Process,
    /// The machine loses its power: what was not synced may be lost.
    Power,
}

/// A process that is killed at a step, counted from 0, and what was not yet synced then.
struct Kill {
    left: u64,
    at: Option<WriterStep>,
    /// What the file said before the step that is being made.
    before: Option<Vec<u8>>,
}

/// How a run of the program ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Done,
    Killed(WriterStep),
    /// The network was too bad for too long: the program is started again.
    NoAnswer,
}

/// The program runs until it is done or is killed at that step.
async fn run(house: &House, folder: &Path, step: u64, plug: Plug) -> End {
    let file = folder.join("till-1.state");
    let kill = Arc::new(Mutex::new(Kill { left: step, at: None, before: fs::read(&file).ok() }));
    let open = {
        let (kill, file) = (Arc::clone(&kill), file.clone());
        house.writer(folder).on_step(move |step| {
            let mut kill = kill.lock().unwrap();
            if step == WriterStep::Write {
                kill.before = fs::read(&file).ok();
            }
            if kill.left == 0 {
                kill.at = Some(step);
                drop(kill);
                // A panic without its message.
                resume_unwind(Box::new("killed"));
            }
            kill.left -= 1;
        })
    };
    let ended = tokio::spawn(program(open)).await;
    let kill = kill.lock().unwrap();
    let Some(step) = kill.at else {
        return match ended.unwrap() {
            Ok(()) => End::Done,
            Err(SequencedError::Transport(_)) => End::NoAnswer,
            Err(error) => panic!("{error}"),
        };
    };
    assert!(ended.is_err(), "killed at {step:?}");
    if plug == Plug::Power {
        lose(&file, step, kill.before.as_deref());
    }
    End::Killed(step)
}

/// What a power loss takes: half of a file that was not synced; a name that was not.
fn lose(file: &Path, step: WriterStep, before: Option<&[u8]>) {
    let aside = PathBuf::from(format!("{}.new", file.display()));
    match (step, before) {
        (WriterStep::Sync, _) => {
            let bytes = fs::read(&aside).unwrap();
            fs::write(&aside, &bytes[..bytes.len() / 2]).unwrap();
        }
        (WriterStep::SyncFolder, Some(before)) => fs::write(file, before).unwrap(),
        (WriterStep::SyncFolder, None) => fs::remove_file(file).unwrap(),
        _ => {}
    }
}

/// Each thing was done once, and stays so whatever copies still arrive.
fn check(house: &House, what: &str) {
    let mut world = house.world();
    let is_done = |world: &super::house::World| {
        let items = (1..=ITEMS).map(|item| world.balance(&format!("item-{item}")));
        let expected = vec![1; usize::try_from(ITEMS).unwrap()];
        assert_eq!(items.collect::<Vec<_>>(), expected, "{what}");
        assert_eq!(world.balance("total"), i128::from(ITEMS), "{what}");
        assert_eq!(world.transactions, ITEMS, "{what}");
    };
    is_done(&world);
    world.echo();
    is_done(&world);
}

/// C-42: killed between any two of: write, sync, rename, sync of the folder, send, answer,
/// and the same for the note of a refusal; by itself and with its machine; on networks that lose
/// requests, lose answers, and deliver twice and late. Nothing is done twice, and nothing is lost.
#[tokio::test]
async fn killed_at_each_step() {
    for fate in [Fate::Serve, Fate::LoseAnswer, Fate::Delay] {
        let mut step = 0;
        loop {
            let mut end = End::Done;
            for plug in [Plug::Process, Plug::Power] {
                // What a machine loses with its power is what was not synced.
                let is_synced =
                    !matches!(end, End::Killed(WriterStep::Sync | WriterStep::SyncFolder));
                if plug == Plug::Power && is_synced {
                    continue;
                }
                let folder = tempfile::tempdir().unwrap();
                let house = House::new().await;
                // Each second request meets it, and the one after it brings what is late.
                let fates = [fate, Fate::LateLast].into_iter().cycle().take(24);
                house.world().fates = fates.collect();
                end = run(&house, folder.path(), step, plug).await;
                while run(&house, folder.path(), u64::MAX, plug).await != End::Done {}
                check(&house, &format!("{fate:?}, {plug:?}, killed at step {step}"));
            }
            if end == End::Done {
                break;
            }
            step += 1;
        }
        assert!(step > 30, "{step} steps");
    }
}

/// The same, killed again and again, on networks that do whatever they like.
#[tokio::test]
async fn killed_again_and_again() {
    for seed in 0..100 {
        let mut prng = Prng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let house = House::new().await;
        let fates = (0..60).map(|_| prng.pick(&Fate::ALL).unwrap());
        house.world().fates = fates.collect();
        let plug = prng.pick(&[Plug::Process, Plug::Power]).unwrap();
        while run(&house, folder.path(), prng.below(25), plug).await != End::Done {}
        check(&house, &format!("seed {seed}"));
    }
}
