//! Steps of executions, committed by the store: the workload that everything else is about.

use indelible_store::{Batch, Store};
use tokio::runtime::Runtime;

use super::drive::{Driven, Producer, Stretch, Windows, drive};
use super::steps::Steps;
use crate::failure::Failure;

/// What a run of steps did.
pub(super) struct Ran {
    pub(super) driven: Driven,
    pub(super) fsyncs: u64,
    pub(super) bytes_given: u64,
}

/// Commits steps until the time is up. Executions of different seeds are different ones.
pub(super) fn run(
    runtime: &Runtime,
    store: &Store,
    seed: u64,
    producers: u32,
    windows: Windows,
    each: impl FnMut(&Stretch) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let all = (0..producers).map(|number| {
        let steps = Steps::new(seed, u64::from(number));
        Committer { store: store.clone(), steps }
    });
    let before = store.readings();
    let driven = drive(runtime, all.collect(), windows, each)?;
    let after = store.readings();
    Ok(Ran {
        driven,
        fsyncs: after.groups - before.groups,
        bytes_given: after.bytes_given - before.bytes_given,
    })
}

struct Committer {
    store: Store,
    steps: Steps,
}

impl Producer for Committer {
    type Input = Batch;

    fn prepare(&mut self) -> Batch {
        self.steps.next()
    }

    async fn commit(&mut self, batch: Batch) -> Result<(), Failure> {
        let position = self.store.submit(batch).await.map_err(failed)?;
        self.store.durable(position).await.map_err(failed)
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("a step could not be committed: {error}"))
        .hint("look at the disk's free space and its health, or choose another with --dir")
}
