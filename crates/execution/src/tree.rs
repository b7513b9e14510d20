//! A tree of executions: a root and everything that it called, in memory as far as it is needed.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use indelible_journal::{ExecutionId, JournalKey, Violation};
use indelible_machine::{CallerId, Changes, Machine};
use indelible_records::executions::AdvanceError;
use indelible_records::timers::Timer;
use indelible_store::Batch;

use crate::changes::PendingCommit;
use crate::context::Context;
use crate::execution::{Execution, Phase};
use crate::input::{Input, Reply, Start};
use crate::output::{Event, Notice, Outgoing, Severity, Trouble};

/// One thing to do in a tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Run or resume the guest of this execution.
    Run(JournalKey),
    /// Start this call of this execution.
    Start(JournalKey, u32),
    /// Cancel this call of this execution, for this reason.
    Cancel(JournalKey, u32, String),
    /// The caller of this effect ends.
    Close(JournalKey, u32),
    /// Another process started this effect of this execution, so that its outcome is unknown.
    Lost(JournalKey, u32),
}

/// A tree of executions.
#[derive(Default)]
pub struct Tree {
    /// A fixed hash is safe: keys are a hash and numbers that the engine gave out, so no client can
    /// choose them to collide.
    pub(crate) executions: HashMap<JournalKey, Execution, foldhash::fast::FixedState>,
    pub(crate) work: VecDeque<Work>,
    pub(crate) pending: PendingCommit,
    pub(crate) sealed: VecDeque<Changes<Self>>,
    pub(crate) notices: Vec<Notice>,
    /// An execution was loaded since the host last asked.
    pub(crate) loaded: bool,
    /// Whether the tree is a question to a reconciler; `None` until that was read.
    pub(crate) reconciles: Option<bool>,
    /// A volatile root is not released when no caller waits for it any more, because its caller
    /// asks for the outcome later. A persist root is never released.
    pub(crate) kept: bool,
    /// A root that was released while its guest was on a worker, until that guest has stopped.
    pub(crate) leaving: Option<JournalKey>,
    /// Starts that came while the guest of `leaving` was still on a worker.
    pub(crate) after_leaving: Vec<(CallerId, Start)>,
}

impl Machine for Tree {
    type Context<'a> = Context<'a>;
    type Input = Input;
    /// Err: memory does not follow from what is stored, which is the engine's mistake.
    type Rows = Result<Batch, AdvanceError>;
    type Timer = Timer;
    type Outgoing = Outgoing;
    type Reply = Reply;
    type Event = Event;
    type Notice = Notice;

    fn handle(&mut self, cx: &Context<'_>, input: Input) {
        self.handle(cx, input);
    }

    fn changes(&mut self) -> Option<Changes<Self>> {
        if self.sealed.is_empty() {
            self.seal();
        }
        self.sealed.pop_front()
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn is_idle(&self) -> bool {
        self.work.is_empty()
            && self.pending.is_empty()
            && self.sealed.is_empty()
            && self.leaving.is_none()
            && self.executions.values().all(|execution| match execution.phase {
                Phase::Waiting => execution.is_stored_whole(),
                // An effect in flight reports to this execution, and a volatile execution is
                // nowhere but in memory.
                Phase::Stuck { .. } => execution.in_flight.is_empty() && !execution.volatile,
                Phase::PendingAttempt => !execution.volatile,
                Phase::Ended => true,
                Phase::Ready | Phase::Running { .. } | Phase::Ending { .. } => false,
            })
    }
}

impl Tree {
    /// Whether there is something to do.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Whether something was loaded from the store since the host last asked.
    pub fn take_loaded(&mut self) -> bool {
        std::mem::take(&mut self.loaded)
    }

    /// An execution that is in memory.
    pub(crate) fn execution(&mut self, key: &JournalKey) -> &mut Execution {
        self.executions.get_mut(key).expect("it was loaded and is not forgotten while it is used")
    }

    /// An execution that may have been forgotten.
    pub(crate) fn find(&mut self, key: &JournalKey) -> Option<&mut Execution> {
        self.executions.get_mut(key)
    }

    /// Puts an execution into the list of work.
    pub(crate) fn ready(&mut self, key: &JournalKey) {
        let execution = self.execution(key);
        execution.phase = Phase::Ready;
        self.work.push_back(Work::Run(key.clone()));
    }

    /// Tells the host of trouble.
    pub(crate) fn trouble(
        &mut self,
        severity: Severity,
        message: &'static str,
        execution: &ExecutionId,
        error: &dyn fmt::Display,
    ) {
        let (execution, error) = (execution.clone(), error.to_string());
        self.notices.push(Notice::Trouble(Trouble { severity, message, execution, error }));
    }

    /// Drops the guest of an execution: a new one runs over the journal when it is needed.
    pub(crate) fn drop_guest(&mut self, key: &JournalKey) {
        if self.execution(key).replay.take().is_some() {
            self.notices.push(Notice::GuestGone(key.clone()));
        }
    }

    /// The execution cannot go on: it is stuck, and the host is told (D1, C-25).
    pub(crate) fn hold(&mut self, key: &JournalKey, why: String) {
        self.drop_guest(key);
        self.notices.push(Notice::Stuck(key.clone(), why.clone()));
        let execution = self.execution(key);
        execution.stuck = None;
        execution.phase = Phase::Stuck { why };
        self.touch(key);
    }

    /// The journal refused an entry that the engine was about to write: a mistake of the engine's,
    /// which never reaches the disk (D1).
    pub(crate) fn breaks(&mut self, key: &JournalKey, violation: &Violation) {
        self.hold(
            key,
            format!(
                "the engine was about to break a journal rule (a defect of Indelible): {violation}"
            ),
        );
    }
}
