//! What a tree shows of its executions. Looking changes nothing: what is not in memory is read, and
//! not kept.

use indelible_journal::{ExecutionId, InvokePhase, JournalKey, OperationKey, Timestamp};
use indelible_records::executions::{self, Execution as Row};
use indelible_records::timers;
use indelible_store::ReadError;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{Execution, Phase, caller};
use crate::load::{self, LoadError};
use crate::shown::{Resting, View, Waits};

/// Among so many timers, the next to be due, that of a resting root is looked for: they go by time,
/// and by nothing else.
const TIMERS_LOOKED_AT_MAX: usize = 1_000;

/// What a tree shows of an execution.
#[derive(Debug)]
pub enum Viewed {
    /// It is in memory, or not over.
    Live(Box<View>),
    /// It is over: whoever asked reads what is left of it.
    Over(Box<Row>),
    /// There is no such execution.
    Absent,
}

impl Tree {
    /// What is known of the last attempt at an execution. Without an answer it cannot be read, and
    /// why is told.
    pub(crate) fn view(&self, cx: Cx<'_>, id: &ExecutionId) -> Result<Viewed, LoadError> {
        let stored = executions::latest(&cx.reads, id)?.value;
        let in_memory = self.in_memory(id);
        // What is in memory may be ahead of the store, by this turn's changes, or volatile.
        let is_latest = |key: &JournalKey| stored.as_ref().is_none_or(|row| *key >= row.key);
        if let Some(execution) =
            in_memory.filter(is_latest).and_then(|key| self.executions.get(&key))
        {
            return Ok(Viewed::Live(Box::new(self.shown(cx, execution)?)));
        }
        match stored {
            None => Ok(Viewed::Absent),
            Some(row) if row.standing.is_terminal() => Ok(Viewed::Over(Box::new(row))),
            Some(row) => {
                let execution = load::stored(cx, &row.key, None)?;
                Ok(Viewed::Live(Box::new(self.shown(cx, &execution)?)))
            }
        }
    }

    fn shown(&self, cx: Cx<'_>, execution: &Execution) -> Result<View, LoadError> {
        let journal = &execution.journal;
        let started = journal.started().expect("what is in memory has started");
        let resting = match execution.phase {
            Phase::Resting => Some(Resting { until: self.rests_until(cx, execution)? }),
            _ => None,
        };
        Ok(View {
            volatile: execution.volatile,
            ending: journal.ending().cloned(),
            resting,
            waits: Waits::of(journal, execution.blocked_since, &execution.unresolved),
            ..View::new(execution.row_now(), started)
        })
    }

    /// When the time of a resting attempt comes, as far as that can be found.
    fn rests_until(
        &self,
        cx: Cx<'_>,
        execution: &Execution,
    ) -> Result<Option<Timestamp>, LoadError> {
        let key = execution.journal.key();
        if execution.rests_until.is_some() {
            return Ok(execution.rests_until);
        }
        let Some(caller) = caller(key) else { return Ok(root_timer(cx, key)?) };
        let promise = key.execution_id().as_promise();
        let open = match self.executions.get(&caller) {
            Some(caller) => caller.journal.open_invoke(promise),
            None => load::stored(cx, &caller, None)?.journal.open_invoke(promise),
        };
        Ok(match open.map(|open| open.phase) {
            Some(InvokePhase::Retrying { retry_at, .. }) => Some(retry_at),
            _ => None,
        })
    }

    /// The operation of its root, as far as that is in memory.
    pub(crate) fn root_operation(&self) -> Option<OperationKey> {
        let roots = self.executions.iter().filter(|(key, _)| key.execution_id().is_root());
        let mut started = roots.filter_map(|(_, root)| root.journal.started());
        started.find_map(|started| started.idempotency_key.clone())
    }
}

fn root_timer(cx: Cx<'_>, key: &JournalKey) -> Result<Option<Timestamp>, ReadError> {
    // One that was put in this very turn is not there yet.
    let next = timers::next(&cx.reads, None, TIMERS_LOOKED_AT_MAX)?.value;
    let mut own = next.into_iter().filter_map(timers::Row::tree);
    let own = own.find(|timer| timer.key == *key && timer.child.is_none());
    Ok(own.map(|timer| timer.due))
}
