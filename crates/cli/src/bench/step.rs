//! Steps of executions, committed by the store: the main workload.

use indelible_store::{Batch, Store};
use tokio::runtime::Runtime;

use super::drive::{DriveResult, Producer, Stretch, Windows, drive};
use super::steps::Steps;
use crate::failure::Failure;

/// The result of a run of steps.
pub(super) struct StepRun {
    pub(super) driven: DriveResult,
    pub(super) fsyncs: u64,
    pub(super) bytes_given: u64,
}

/// Commits steps until the time is up. Different seeds give different executions.
pub(super) fn run(
    runtime: &Runtime,
    store: &Store,
    seed: u64,
    producers: u32,
    windows: Windows,
    each: impl FnMut(&Stretch) -> Result<(), Failure>,
) -> Result<StepRun, Failure> {
    let all = (0..producers).map(|number| {
        let steps = Steps::new(seed, u64::from(number));
        Committer { store: store.clone(), steps }
    });
    let before = store.readings();
    let driven = drive(runtime, all.collect(), windows, each)?;
    let after = store.readings();
    Ok(StepRun {
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
        .hint("check the disk's free space and health, or choose another disk with --dir")
}
