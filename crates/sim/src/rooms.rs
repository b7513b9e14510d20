//! Counters beside the programs: users add and lend while everything else happens, and in the end
//! nothing is lost and nothing is counted twice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use indelible_runtime::{Engine, EngineError};

use crate::Rng;
use crate::counter::{self, Answer, Ask, COUNTERS, Counter, Standing};
use crate::run::Run;

/// How many counters there are.
const COUNTERS_MAX: u8 = 3;

/// The most requests that wait for an answer at once.
const WAITING_MAX: usize = 4;

/// Rounds after which a message that is still not applied counts as lost.
const ROUNDS_MAX: usize = 200;

type Answered = Pin<Box<dyn Future<Output = Result<Answer, EngineError>> + Send>>;

/// The users of counters, and what they were told.
pub(crate) struct Users {
    rng: Rng,
    waiting: Vec<(u64, Answered)>,
    /// The sum of all amounts asked for, answered or not.
    asked: u64,
    /// The sum of the amounts that were acknowledged.
    acknowledged: u64,
}

impl Users {
    /// Two of three seeds have users.
    pub(crate) fn new(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x726f_6f6d);
        let some = !rng.number().is_multiple_of(3);
        some.then(|| Self { rng, waiting: Vec::new(), asked: 0, acknowledged: 0 })
    }

    /// Drops every waiting request: the process that would answer is gone.
    pub(crate) fn hang_up(&mut self) {
        self.waiting.clear();
    }

    /// In one of ten calls a user asks; then the waiting requests are polled.
    pub(crate) fn act(&mut self, engine: &Arc<Engine>) -> Result<(), String> {
        if self.waiting.len() < WAITING_MAX && self.rng.percent(10) {
            let (amount, own) = (self.rng.between(1, 9), self.rng.below(COUNTERS_MAX.into()));
            let ask = if self.rng.percent(50) {
                Ask::Add(amount)
            } else {
                let to = self.rng.below(COUNTERS_MAX.into()) as u8;
                Ask::Lend(amount, to, self.rng.below(2_000_000))
            };
            let engine = Arc::clone(engine);
            let key = counter::key(own as u8);
            let answer = async move { engine.ask_room::<Counter>(key, ask).await };
            self.asked += amount;
            self.waiting.push((amount, Box::pin(answer)));
        }
        self.look()
    }

    /// Polls the waiting requests, and checks the answers.
    pub(crate) fn look(&mut self) -> Result<(), String> {
        let mut place = 0;
        while place < self.waiting.len() {
            let mut context = Context::from_waker(Waker::noop());
            match self.waiting[place].1.as_mut().poll(&mut context) {
                Poll::Pending => place += 1,
                Poll::Ready(answer) => {
                    let (amount, _) = self.waiting.remove(place);
                    if let Ok(answer) = answer {
                        let standing = answer?;
                        ensure!(standing.count >= amount, "a counter forgot what it was asked");
                        self.acknowledged += amount;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Run {
    /// Runs until every message is applied, acknowledged and forgotten.
    pub(crate) fn settle_rooms(&mut self) -> Result<(), String> {
        if self.users.is_none() {
            return Ok(());
        }
        let mut still = 0;
        for _ in 0..ROUNDS_MAX {
            self.rest()?;
            let carried = self.engine().fire_due().map_err(|error| error.to_string())?;
            still = if carried == 0 { still + 1 } else { 0 };
            if still > 3 {
                return self.rest();
            }
        }
        Err("messages between counters never come to an end".to_owned())
    }

    /// What was acknowledged was counted, what was asked for was counted once at most, and what was
    /// passed on arrived once.
    pub(crate) fn counters_agree(&self) -> Result<(), String> {
        let Some(users) = &self.users else { return Ok(()) };
        let (mut count, mut passed_on) = (0, 0);
        for number in 0..COUNTERS_MAX {
            let row = self.store().get(COUNTERS, &counter::key(number).key);
            let row = row.map_err(|error| error.to_string())?.value;
            let Some(row) = row else { continue };
            let standing: Standing =
                serde_json::from_slice(&row).map_err(|error| error.to_string())?;
            ensure!(standing.lent.is_empty(), "counter {number} never passed on {standing:?}");
            (count, passed_on) = (count + standing.count, passed_on + standing.passed_on);
        }
        let added = count - passed_on;
        let Users { asked, acknowledged, .. } = users;
        ensure!(
            (*acknowledged..=*asked).contains(&added),
            "counters have {count} and passed on {passed_on}: {acknowledged} was acknowledged, \
             and {asked} asked for"
        );
        Ok(())
    }
}
