//! Replays one trace: every step through [`Journal`], and what the model says after it.

use std::collections::BTreeMap;
use std::fmt;

use indelible_journal::{Journal, Record, Sequence, Status};

use super::model::{ModelId, ModelStatus, Names, Step, Tagged, Trace, timestamp};

/// What a trace comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Refused {
        step: usize,
        violation: Broken,
    },
    /// Accepted, but not with the model's status or next child.
    Differs {
        step: usize,
        how: String,
    },
}

/// The id of the rule, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str, String);

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Refused { step, violation: Broken(id, reason) } => {
                write!(f, "refused at step {step} with {id}: {reason}")
            }
            Self::Differs { step, how } => {
                write!(f, "differs from the model at step {step}: {how}")
            }
        }
    }
}

pub(super) fn run(trace: &Trace) -> anyhow::Result<Verdict> {
    let names = Names::of(trace)?;
    let mut journals: BTreeMap<&ModelId, Journal> = BTreeMap::new();
    for (index, step) in trace.steps.iter().enumerate() {
        let key = names.key(&step.exec)?;
        let journal = journals.entry(&step.exec).or_insert_with(|| Journal::new(key.clone()));
        let refused = |id, reason| Verdict::Refused { step: index, violation: Broken(id, reason) };
        let event = match names.event(&key, &step.event)? {
            Ok(event) => event,
            Err(inexpressible) => return Ok(refused(inexpressible.rule, inexpressible.reason)),
        };
        let (sequence, timestamp) = (Sequence::new(step.seq), timestamp(step.ts)?);
        let before = journal.clone();
        if let Err(violation) = journal.append_record(Record { sequence, timestamp, event }) {
            anyhow::ensure!(*journal == before, "the refusal at step {index} left a trace");
            return Ok(refused(violation.rule.id(), violation.reason));
        }
        if let Some(how) = difference(&names, step, journal)? {
            return Ok(Verdict::Differs { step: index, how });
        }
    }
    Ok(Verdict::Accepted)
}

/// How the journal differs from the model's state after a step. A step without such a state is not
/// compared.
fn difference(names: &Names, step: &Step, journal: &Journal) -> anyhow::Result<Option<String>> {
    if let Some(next) = step.next
        && next != journal.next_child()
    {
        return Ok(Some(format!("the next child is {}, not {next}", journal.next_child())));
    }
    let (Some(expected), Some(status)) = (&step.status, journal.status()) else { return Ok(None) };
    let same = expected.tag == status.name() && same_wait(names, expected, status, journal)?;
    Ok((!same).then(|| format!("the status is {status:?}, not {}", expected.tag)))
}

fn same_wait(
    names: &Names,
    expected: &Tagged<ModelStatus>,
    status: &Status,
    journal: &Journal,
) -> anyhow::Result<bool> {
    match (&expected.value, status) {
        (
            Some(ModelStatus::Blocked { waiting_on, kind }),
            Status::Blocked { waiting_on: set, kind: real },
        ) => {
            let expected = names.wait_set(journal.key(), waiting_on)?;
            Ok(expected.is_ok_and(|expected| expected == *set) && names.kind(kind)? == *real)
        }
        (Some(ModelStatus::Other(_)) | None, Status::Blocked { .. }) => Ok(false),
        _ => Ok(true),
    }
}
