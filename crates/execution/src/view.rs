//! What a tree shows of its executions. A view changes nothing: an execution that is not in memory
//! is read from the store, and not kept.

use indelible_journal::{ExecutionId, InvokePhase, JournalKey, OperationKey, Timestamp};
use indelible_records::executions::{self, Execution as Row};
use indelible_records::timers;
use indelible_store::ReadError;

use crate::Tree;
use crate::context::Cx;
use crate::execution::{Execution, Phase, caller};
use crate::load::{self, LoadError};
use crate::shown::{PendingAttempt, View, Waits};

/// Timers are ordered by due time alone, so the timer of a resting root is looked for among this
/// many of the next ones.
const TIMERS_LOOKED_AT_MAX: usize = 1_000;

/// What a tree shows of an execution.
#[derive(Debug)]
pub enum TreeView {
    /// It is in memory, or not over.
    Live(Box<View>),
    /// It is over: the caller reads the outcome from the store.
    Over(Box<Row>),
    /// There is no such execution.
    Absent,
}

impl Tree {
    /// What is known of the last attempt at an execution.
    pub(crate) fn view(&self, cx: Cx<'_>, id: &ExecutionId) -> Result<TreeView, LoadError> {
        let stored = executions::latest(&cx.reads, id)?.value;
        let in_memory = self.in_memory(id);
        // Memory may be ahead of the store by this turn's changes, or hold a volatile execution.
        let is_latest = |key: &JournalKey| stored.as_ref().is_none_or(|row| *key >= row.key);
        if let Some(execution) =
            in_memory.filter(is_latest).and_then(|key| self.executions.get(&key))
        {
            return Ok(TreeView::Live(Box::new(self.shown(cx, execution)?)));
        }
        match stored {
            None => Ok(TreeView::Absent),
            Some(row) if row.standing.is_terminal() => Ok(TreeView::Over(Box::new(row))),
            Some(row) => {
                let execution = load::stored(cx, &row.key)?;
                Ok(TreeView::Live(Box::new(self.shown(cx, &execution)?)))
            }
        }
    }

    fn shown(&self, cx: Cx<'_>, execution: &Execution) -> Result<View, LoadError> {
        let journal = &execution.journal;
        let started = journal.started().expect("what is in memory has started");
        let resting = match execution.phase {
            Phase::PendingAttempt => {
                Some(PendingAttempt { until: self.rests_until(cx, execution)? })
            }
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

    /// When a resting attempt is due, as far as that can be found.
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
            None => load::stored(cx, &caller)?.journal.open_invoke(promise),
        };
        Ok(match open.map(|open| open.phase) {
            Some(InvokePhase::Retrying { retry_at, .. }) => Some(retry_at),
            _ => None,
        })
    }

    /// The operation of the root, if the root is in memory.
    pub(crate) fn root_operation(&self) -> Option<OperationKey> {
        let roots = self.executions.iter().filter(|(key, _)| key.execution_id().is_root());
        let mut started = roots.filter_map(|(_, root)| root.journal.started());
        started.find_map(|started| started.idempotency_key.clone())
    }
}

fn root_timer(cx: Cx<'_>, key: &JournalKey) -> Result<Option<Timestamp>, ReadError> {
    // A timer that was put in this turn is not stored yet.
    let next = timers::next(&cx.reads, None, TIMERS_LOOKED_AT_MAX)?.value;
    let mut own = next.into_iter().filter_map(timers::Row::tree);
    let own = own.find(|timer| timer.key == *key && timer.child.is_none());
    Ok(own.map(|timer| timer.due))
}
