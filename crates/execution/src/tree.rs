//! A tree of executions: a root and everything that it called, in memory as far as it is needed.

use std::collections::{HashMap, VecDeque};

use indelible_journal::{JournalKey, Violation};
use indelible_machine::{Asker, Changes, Machine};
use indelible_records::executions::AdvanceError;
use indelible_records::timers::Timer;
use indelible_store::Batch;

use crate::changes::Pending;
use crate::context::Context;
use crate::execution::{Execution, Phase};
use crate::input::{Input, Reply, Start};
use crate::output::{Event, Notice, Outgoing};

/// One thing to do in a tree, in the order of arrival.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Run or resume the guest of this execution.
    Run(JournalKey),
    /// Start this call of this execution.
    Start(JournalKey, u32),
    /// Cancel this call of this execution, because of this.
    Cancel(JournalKey, u32, String),
    /// The caller of this effect ends.
    Close(JournalKey, u32),
    /// Another process started this effect of this execution: nobody knows how it ended.
    Lost(JournalKey, u32),
}

/// A tree of executions.
#[derive(Default)]
pub struct Tree {
    /// Keys are a hash and numbers that we gave out: nobody can choose them to collide.
    pub(crate) executions: HashMap<JournalKey, Execution, foldhash::fast::FixedState>,
    pub(crate) work: VecDeque<Work>,
    pub(crate) pending: Pending,
    pub(crate) sealed: VecDeque<Changes<Self>>,
    pub(crate) notices: Vec<Notice>,
    /// Something of it was loaded since the host last asked.
    pub(crate) loaded: bool,
    /// Whether it is a question about an effect, if somebody looked.
    pub(crate) reconciles: Option<bool>,
    /// Its root is not released when nobody waits for it any more: somebody started it and asks
    /// later. Means nothing for a persist one.
    pub(crate) kept: bool,
    /// What was released while its guest was on a worker, until that has stopped.
    pub(crate) leaving: Option<JournalKey>,
    /// Starts that came meanwhile.
    pub(crate) after_leaving: Vec<(Asker, Start)>,
}

impl Machine for Tree {
    type Context<'a> = Context<'a>;
    type Input = Input;
    /// Err: what is in memory does not follow from what is stored, which is the engine's mistake.
    type Rows = Result<Batch, AdvanceError>;
    type Timer = Timer;
    type Outgoing = Outgoing;
    type Reply = Reply;
    type Event = Event;
    type Notice = Notice;

    fn handle(&mut self, cx: &Context<'_>, input: Input) {
        self.obey(cx, input);
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
                // What is in flight comes back to it, and what is volatile is nowhere else.
                Phase::Held { .. } => execution.in_flight.is_empty() && !execution.volatile,
                Phase::Resting => !execution.volatile,
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

    /// An execution goes into the list of work, once.
    pub(crate) fn ready(&mut self, key: &JournalKey) {
        let execution = self.execution(key);
        execution.phase = Phase::Ready;
        self.work.push_back(Work::Run(key.clone()));
    }

    /// Something is not as it should be.
    pub(crate) fn trouble(&mut self, what: String) {
        self.notices.push(Notice::Trouble(what));
    }

    /// Forgets the guest of an execution: it runs again over the journal when it is wanted.
    pub(crate) fn drop_guest(&mut self, key: &JournalKey) {
        if self.execution(key).replay.take().is_some() {
            self.notices.push(Notice::GuestGone(key.clone()));
        }
    }

    /// Something could not go on as it must: the execution is held as stuck, loudly (D1, C-25).
    pub(crate) fn hold(&mut self, key: &JournalKey, why: String) {
        self.drop_guest(key);
        self.notices.push(Notice::Held(key.clone(), why.clone()));
        let execution = self.execution(key);
        execution.stuck = None;
        execution.phase = Phase::Held { why };
        self.touch(key);
    }

    /// A journal refused what the engine was about to write: a mistake of the engine's, which never
    /// reaches the disk (D1).
    pub(crate) fn breaks(&mut self, key: &JournalKey, violation: &Violation) {
        self.hold(key, format!("the engine was about to break a rule: {violation}"));
    }
}
