//! A key of a vault as a checker of histories sees it: what it holds, and what each operation on it
//! may answer then.

use std::collections::BTreeMap;

use porcupine_rs::{Model, Operation};

/// What clients did and saw, with the times of requests and answers.
pub type History = Vec<Operation<Register>>;

/// The model.
#[derive(Debug, Clone)]
pub struct Register;

/// An operation on a key, and its answer.
#[derive(Debug, Clone)]
pub struct Step {
    pub key: usize,
    pub action: Action,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// A request for the entity.
    Read,
    /// A transaction that answers the entity.
    Get,
    Set {
        to: i64,
        condition: Option<Condition>,
    },
    /// No less than zero may remain.
    Add {
        delta: i64,
    },
    Delete,
}

#[derive(Debug, Clone, Copy)]
pub enum Condition {
    Absent,
    Version(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entity {
    pub version: u64,
    pub quantity: i64,
}

#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    Seen {
        height: u64,
        entity: Option<Entity>,
    },
    Set {
        height: u64,
    },
    Added {
        height: u64,
        balance: i64,
    },
    /// With the version that there was.
    Deleted {
        height: u64,
        version: Option<u64>,
    },
    /// With what the operation met.
    Refused {
        met: Option<Entity>,
    },
    /// Of a `set` without a condition: no answer came. It may happen at any time, or never.
    Open,
}

impl Outcome {
    /// The height that the answer says.
    fn height(self) -> Option<u64> {
        match self {
            Self::Seen { height, .. }
            | Self::Set { height }
            | Self::Added { height, .. }
            | Self::Deleted { height, .. } => Some(height),
            Self::Refused { .. } | Self::Open => None,
        }
    }
}

/// What a key holds. The version of what an open operation wrote is unknown until an answer has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct State {
    entity: Option<(Option<u64>, i64)>,
    /// The last known height at which the key changed: later changes are above it.
    floor: u64,
}

impl State {
    /// The entity has this version, or may have it.
    fn with_version(self, version: u64) -> Option<Self> {
        match self.entity? {
            (Some(known), _) => (known == version).then_some(self),
            (None, quantity) => self.changed(version, Some(quantity)),
        }
    }

    /// The entity is this one.
    fn with(self, seen: Option<Entity>) -> Option<Self> {
        match (self.entity, seen) {
            (None, None) => Some(self),
            (Some((_, quantity)), Some(seen)) if quantity == seen.quantity => {
                self.with_version(seen.version)
            }
            _ => None,
        }
    }

    fn changed(self, height: u64, quantity: Option<i64>) -> Option<Self> {
        let entity = quantity.map(|quantity| (Some(height), quantity));
        (height > self.floor).then_some(Self { entity, floor: height })
    }

    /// What there is after a condition that held.
    fn under(self, condition: Option<Condition>) -> Option<Self> {
        match condition {
            None => Some(self),
            Some(Condition::Absent) => self.entity.is_none().then_some(self),
            Some(Condition::Version(version)) => self.with_version(version),
        }
    }

    fn sum(self, delta: i64) -> Option<i64> {
        let balance = self.entity.map_or(0, |(_, quantity)| quantity) + delta;
        (balance >= 0).then_some(balance)
    }

    /// The key after the step, if the step can have been answered like this here.
    fn after(self, step: &Step) -> Option<Self> {
        match (step.action, step.outcome) {
            (Action::Read | Action::Get, Outcome::Seen { height, entity }) => {
                self.with(entity).filter(|state| height >= state.floor)
            }
            (Action::Set { to, condition }, Outcome::Set { height }) => {
                self.under(condition)?.changed(height, Some(to))
            }
            (Action::Set { condition: Some(condition), .. }, Outcome::Refused { met }) => {
                let state = self.with(met)?;
                state.under(Some(condition)).is_none().then_some(state)
            }
            (Action::Set { to, condition: None }, Outcome::Open) => {
                Some(Self { entity: Some((None, to)), ..self })
            }
            (Action::Add { delta }, Outcome::Added { height, balance }) => {
                let sum = self.sum(delta).filter(|sum| *sum == balance)?;
                self.changed(height, Some(sum))
            }
            (Action::Add { delta }, Outcome::Refused { met }) => {
                self.with(met).filter(|state| state.sum(delta).is_none())
            }
            (Action::Delete, Outcome::Deleted { height, version }) => {
                let state = match version {
                    None => self.entity.is_none().then_some(self)?,
                    Some(version) => self.with_version(version)?,
                };
                state.changed(height, None)
            }
            _ => None,
        }
    }
}

impl Model for Register {
    type State = State;
    type Op = Step;
    type Metadata = ();

    fn partition_operations(history: &[Operation<Self>]) -> Vec<Vec<Operation<Self>>> {
        let mut keys: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for step in history {
            keys.entry(step.op.key).or_default().push(step.clone());
        }
        keys.into_values().collect()
    }

    fn init() -> State {
        State::default()
    }

    fn step(state: &State, step: &Step) -> (bool, State) {
        state.after(step).map_or((false, *state), |next| (true, next))
    }
}

/// A second judgement, by heights alone and over all keys: no two transactions have one height, and
/// what was asked for after an answer has no height below that answer's.
pub fn heights(history: &History) -> Result<(), String> {
    let mut transactions = BTreeMap::new();
    let mut moments = Vec::new();
    for (index, step) in history.iter().enumerate() {
        let Some(height) = step.op.outcome.height() else { continue };
        let is_transaction = !matches!(step.op.action, Action::Read);
        if is_transaction && let Some(other) = transactions.insert(height, index) {
            return Err(format!("one height: {step:?} and {:?}", history[other]));
        }
        moments.push((step.call_time, false, index));
        moments.push((step.return_time, true, index));
    }
    moments.sort_unstable();
    let mut answered = 0;
    let mut least = vec![0; history.len()];
    for (_, is_answer, index) in moments {
        let step = &history[index];
        let height = step.op.outcome.height().expect("others were left out");
        if !is_answer {
            // A transaction has a height of its own.
            least[index] = answered + u64::from(!matches!(step.op.action, Action::Read));
        } else if height < least[index] {
            return Err(format!("a height below {}: {step:?}", least[index]));
        } else {
            answered = answered.max(height);
        }
    }
    Ok(())
}

/// Histories that no vault can have, each made of one that a vault had by changing one answer.
pub fn stale_reads(history: &History) -> impl Iterator<Item = History> {
    let writes = writes(history);
    (0..history.len()).filter_map(move |index| {
        let read = &history[index];
        let Outcome::Seen { height, entity: Some(seen) } = read.op.outcome else { return None };
        let written = writes.get(&(read.op.key, seen.version))?;
        if history[*written].return_time > read.call_time {
            return None;
        }
        // What was there before the write that was over when the read began.
        let earlier = writes.range((read.op.key, 0)..(read.op.key, seen.version));
        let old = earlier.rev().find_map(|(_, index)| entity(&history[*index].op))?;
        let mut broken = history.clone();
        broken[index].op.outcome = Outcome::Seen { height, entity: Some(old) };
        Some(broken)
    })
}

/// The same with sums: of two additions the second did not see the first.
pub fn lost_updates(history: &History) -> impl Iterator<Item = History> {
    let writes = writes(history);
    let pairs: Vec<_> =
        writes.iter().zip(writes.iter().skip(1)).map(|(a, b)| (*a.1, *b.1)).collect();
    pairs.into_iter().filter_map(move |(first, second)| {
        let (one, other) = (&history[first].op, &history[second].op);
        let Action::Add { delta } = one.action else { return None };
        let Outcome::Added { height, balance } = other.outcome else { return None };
        let balance = balance - delta;
        if one.key != other.key || balance < 0 {
            return None;
        }
        let mut broken = history.clone();
        broken[second].op.outcome = Outcome::Added { height, balance };
        Some(broken)
    })
}

/// The steps that changed a key, by key and height.
fn writes(history: &History) -> BTreeMap<(usize, u64), usize> {
    let changes = history.iter().enumerate().filter(|(_, step)| {
        matches!(
            step.op.outcome,
            Outcome::Set { .. } | Outcome::Added { .. } | Outcome::Deleted { .. }
        )
    });
    changes
        .filter_map(|(index, step)| Some(((step.op.key, step.op.outcome.height()?), index)))
        .collect()
}

/// What a step left there.
fn entity(step: &Step) -> Option<Entity> {
    match (step.action, step.outcome) {
        (Action::Set { to, .. }, Outcome::Set { height }) => {
            Some(Entity { version: height, quantity: to })
        }
        (_, Outcome::Added { height, balance }) => {
            Some(Entity { version: height, quantity: balance })
        }
        _ => None,
    }
}
