//! Doubts: what is recorded when it becomes unknown whether something happened, and what when that
//! is settled (D5, C-78).
//!
//! A doubt arises with its evidence, in the commit that makes it known. It is *awaited* while its
//! execution waits for the answer: then the execution has it in memory, too. Afterwards only the
//! store has it, and settling it changes neither a journal nor an operation's record.

use std::collections::BTreeMap;

use data_encoding::{BASE64, HEXLOWER};
use indelible_http::Request;
use indelible_journal::{
    Attempt, Event, ExecutionId, InvokeKind, InvokePhase, JournalKey, OpenInvoke, PromiseId,
    Started, Timestamp,
};
use indelible_records::doubts::{
    self, Doubt, DoubtId, DoubtState, Evidence, EvidenceAnswer, EvidenceAttempt, Excerpt, Finding,
    SentRequest, Settlement,
};
use indelible_records::idempotency_keys::Answer;
use indelible_records::{executions, journals, operations};
use indelible_store::ReadError;
use sha2::{Digest as _, Sha256};

use crate::Tree;
use crate::audit::{Actor, cut};
use crate::context::Cx;
use crate::execution::number;
use crate::input::{CommandRefusal, Resolution, Resolve};
use crate::output::Outgoing;
use crate::reconcile::{key_sent, shown};
use crate::unresolved_effect::UnresolvedEffect;

/// How much of a body is kept as evidence.
const BODY_BYTES_MAX: usize = 8 << 10;

/// How much of an input is kept as evidence.
const INPUT_BYTES_MAX: usize = 4 << 10;

/// How much of an address is kept, and of all headers together.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// How many attempts, and how many answers of a reconciler, are kept: the last ones.
const HISTORY_MAX: usize = 32;

/// How many pages of a journal are read to find earlier attempts, and how many rows a page has.
const PAGES_MAX: usize = 8;
const PAGE_ROWS: usize = 256;

/// How many attempts at an execution are looked through for a doubt about one of its promises.
const DOUBTS_MAX: usize = 256;

impl Tree {
    /// A doubt about an attempt arises. It is in no list before [`Tree::write_doubt`].
    pub(crate) fn new_doubt(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        open: &OpenInvoke,
        why: &str,
        state: DoubtState,
    ) -> Doubt {
        let attempt = match open.phase {
            InvokePhase::Started { attempt, .. } => attempt,
            InvokePhase::Retrying { failed, .. } => failed,
            InvokePhase::Scheduled => Attempt::FIRST,
        };
        let evidence = Box::new(self.evidence(cx, key, open, why));
        let (label, why) = (open.function_name.to_string(), cut(why).to_owned());
        Doubt { attempt, since: cx.now, label, why, state, evidence }
    }

    /// A call or an effect without a row is over as Indeterminate: a doubt is left (C-78).
    pub(crate) fn leave_doubt(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        open: &OpenInvoke,
        why: &str,
    ) {
        let doubt = self.new_doubt(cx, key, open, why, DoubtState::Ended { at: cx.now });
        let id = DoubtId { key: key.clone(), child: number(&open.promise_id) };
        self.open_doubt(cx, id, doubt);
    }

    /// Writes a new doubt, and has observers told of it.
    pub(crate) fn open_doubt(&mut self, cx: Cx<'_>, id: DoubtId, doubt: Doubt) {
        self.tell_of_doubt(&id, &doubt);
        // An earlier attempt may have left a doubt that was settled: this one takes its place.
        let before = self.stored_doubt(cx, &id).ok().flatten();
        self.write_doubt(id, before, doubt);
    }

    /// Has observers told of a doubt when it is durable.
    pub(crate) fn tell_of_doubt(&mut self, id: &DoubtId, doubt: &Doubt) {
        let shown = Box::new(UnresolvedEffect::new(id, doubt));
        self.pending.outgoing.push(Outgoing::Doubt(shown));
    }

    /// Puts a doubt into the next commit.
    pub(crate) fn write_doubt(&mut self, id: DoubtId, before: Option<Doubt>, after: Doubt) {
        match self.pending.doubts.get_mut(&id) {
            Some((_, pending)) => *pending = after,
            None => {
                self.pending.doubts.insert(id, (before, after));
            }
        }
    }

    /// The doubt about something as this commit leaves it.
    fn stored_doubt(&self, cx: Cx<'_>, id: &DoubtId) -> Result<Option<Doubt>, ReadError> {
        match self.pending.doubts.get(id) {
            Some((_, doubt)) => Ok(Some(doubt.clone())),
            None => Ok(doubts::get(&cx.reads, id)?.value),
        }
    }

    /// The effect of an awaited doubt is over as Indeterminate; the doubt stays open.
    pub(crate) fn end_doubt(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        child: u32,
        before: Doubt,
        why: &str,
    ) {
        let state = DoubtState::Ended { at: cx.now };
        let after = Doubt { state, why: cut(why).to_owned(), ..before.clone() };
        let id = DoubtId { key: key.clone(), child };
        if self.execution(key).volatile {
            // While the execution waited, only its memory had the doubt.
            return self.open_doubt(cx, id, after);
        }
        self.write_doubt(id, Some(before), after);
    }

    /// An awaited doubt is settled.
    pub(crate) fn settle_doubt(
        &mut self,
        key: &JournalKey,
        child: u32,
        before: Doubt,
        settlement: Settlement,
    ) {
        if self.execution(key).volatile {
            return;
        }
        let after = Doubt { state: DoubtState::Settled(settlement), ..before.clone() };
        self.write_doubt(DoubtId { key: key.clone(), child }, Some(before), after);
    }

    /// A person settles a doubt whose effect has ended, and whose execution may be gone (C-78).
    pub(crate) fn settle_ended(
        &mut self,
        cx: Cx<'_>,
        resolve: &Resolve,
    ) -> Result<Answer, CommandRefusal> {
        let Some((id, doubt)) = self.doubt_of(cx, &resolve.promise)? else {
            return Err(CommandRefusal::Unknown);
        };
        let conflict = |why: String| Err(CommandRefusal::NotUnresolved(why));
        match &doubt.state {
            DoubtState::Settled(settled) => return conflict(already(settled)),
            DoubtState::Ended { .. } if resolve.resolution == Resolution::RunAgain => {
                return conflict(
                    "it ended as Indeterminate, and what has ended does not run again".to_owned(),
                );
            }
            DoubtState::Ended { .. } => {}
            DoubtState::Held | DoubtState::Asking(_) => return Err(CommandRefusal::Unknown),
        }
        is_meant(resolve, doubt.attempt)?;
        let settled = settlement(cx, &resolve.resolution, &resolve.actor, &resolve.reason);
        let after = Doubt { state: DoubtState::Settled(settled), ..doubt.clone() };
        self.audit_resolution(cx, &id.key, resolve);
        self.write_doubt(id, Some(doubt), after);
        Ok(Answer::Done)
    }

    /// An answer came for an attempt whose effect has ended as Indeterminate: it happened.
    pub(crate) fn settle_by_answer(
        &mut self,
        cx: Cx<'_>,
        id: &DoubtId,
        attempt: Attempt,
        settlement: Settlement,
    ) {
        let Ok(Some(doubt)) = self.stored_doubt(cx, id) else { return };
        if doubt.attempt == attempt && matches!(doubt.state, DoubtState::Ended { .. }) {
            let after = Doubt { state: DoubtState::Settled(settlement), ..doubt.clone() };
            self.write_doubt(id.clone(), Some(doubt), after);
        }
    }

    /// The doubt about a promise that a person means: the open one, else the latest.
    fn doubt_of(
        &self,
        cx: Cx<'_>,
        promise: &PromiseId,
    ) -> Result<Option<(DoubtId, Doubt)>, CommandRefusal> {
        let unreadable = |error: ReadError| match error.is_damage() {
            true => CommandRefusal::Damaged(error.to_string()),
            false => CommandRefusal::Broken(error.to_string()),
        };
        let found = doubts::of_promise(&cx.reads, promise, DOUBTS_MAX).map_err(unreadable)?;
        let mut found = found.value;
        for (id, doubt) in &mut found {
            if let Some((_, pending)) = self.pending.doubts.get(id) {
                *doubt = pending.clone();
            }
        }
        let open = found.iter().rposition(|(_, doubt)| doubt.is_open());
        Ok(match open {
            Some(at) => Some(found.swap_remove(at)),
            None => found.pop(),
        })
    }

    /// A copy of what a person needs to find out whether something happened.
    fn evidence(&mut self, cx: Cx<'_>, key: &JournalKey, open: &OpenInvoke, why: &str) -> Evidence {
        let root = self.root_started(cx, key);
        let operation = root.and_then(|root| root.idempotency_key);
        let caller_key = operation.as_ref().and_then(|operation| match &self.pending.operation {
            Some(change) => change.after.record.key.clone(),
            None => operations::get(&cx.reads, operation).ok()?.value?.record.key,
        });
        let child = number(&open.promise_id);
        let labels = self.root_labels(cx, key);
        let attempts = self.attempts(cx, key, open, why);
        let execution = self.execution(key);
        let started = execution.journal.started().expect("it has begun a call");
        let asked = execution.requests.get(&child).or_else(|| execution.unstarted.get(&child));
        let (request, call) = match (open.kind, asked) {
            (InvokeKind::Http, Some(asked)) => {
                (Request::decode(&asked.bytes).ok().map(|request| sent(&request, open)), None)
            }
            (InvokeKind::Function, Some(input)) => {
                (None, Some(excerpt(&input.bytes, INPUT_BYTES_MAX)))
            }
            (_, None) => (None, None),
        };
        Evidence {
            namespace: operation.as_ref().map(|own| own.namespace.to_string()).unwrap_or_default(),
            operation: operation.map(|own| own.operation_id.to_string()).unwrap_or_default(),
            key: caller_key,
            labels,
            function: started.function_name.to_string(),
            input: excerpt(&started.input.bytes, INPUT_BYTES_MAX),
            request,
            call,
            attempts,
            answers: Vec::new(),
        }
    }

    /// The attempts at a call up to the one that is in doubt. Only the journal has the earlier ones.
    fn attempts(
        &mut self,
        cx: Cx<'_>,
        key: &JournalKey,
        open: &OpenInvoke,
        why: &str,
    ) -> Vec<EvidenceAttempt> {
        let mut attempts = Vec::new();
        let mut saw = |at: Timestamp, event: &Event| match event {
            Event::InvokeStarted { promise_id, attempt, .. } if *promise_id == open.promise_id => {
                let (attempt, started_us) = (attempt.get(), at.as_micros());
                attempts.push(EvidenceAttempt { attempt, started_us, end: cut(why).to_owned() });
            }
            Event::InvokeRetrying { promise_id, error, .. } if *promise_id == open.promise_id => {
                if let Some(last) = attempts.last_mut() {
                    last.end = cut(&error.message).to_owned();
                }
            }
            _ => {}
        };
        if let InvokePhase::Started { attempt: Attempt::FIRST, since } = open.phase {
            let end = cut(why).to_owned();
            return vec![EvidenceAttempt { attempt: 1, started_us: since.as_micros(), end }];
        }
        let mut next = Some(open.scheduled_at.get());
        for _ in 0..PAGES_MAX {
            let Some(from) = next else { break };
            let Ok(page) = journals::read(&cx.reads, key, from, PAGE_ROWS) else { break };
            for record in &page.value.records {
                saw(record.timestamp, &record.event);
            }
            next = page.value.next;
        }
        for entry in &self.execution(key).fresh {
            saw(entry.timestamp(), entry.event());
        }
        let extra = attempts.len().saturating_sub(HISTORY_MAX);
        attempts.drain(..extra);
        attempts
    }

    /// The labels of a tree's root, as far as they can be read.
    fn root_labels(&mut self, cx: Cx<'_>, key: &JournalKey) -> BTreeMap<String, String> {
        let root = ExecutionId::root_of(*key.execution_id().root());
        let in_memory = self.in_memory(&root).and_then(|key| self.find(&key));
        let labels = match in_memory {
            Some(root) => Some(root.labels.clone()),
            None => executions::latest(&cx.reads, &root)
                .ok()
                .and_then(|row| row.value)
                .map(|row| row.labels),
        };
        let labels = labels.unwrap_or_default();
        labels.iter().map(|own| (own.name().to_owned(), own.value().to_owned())).collect()
    }

    /// What the root of a tree was started with. None: it cannot be read.
    pub(crate) fn root_started(&mut self, cx: Cx<'_>, key: &JournalKey) -> Option<Started> {
        let root = JournalKey::first(ExecutionId::root_of(*key.execution_id().root()));
        if let Some(started) = self.find(&root).and_then(|root| root.journal.started()) {
            return Some(started.clone());
        }
        // A later attempt at the root may be in memory alone.
        let in_memory = self.in_memory(root.execution_id());
        if let Some(started) = in_memory.and_then(|key| self.find(&key)?.journal.started().cloned())
        {
            return Some(started);
        }
        let page = journals::read(&cx.reads, &root, 0, 1).ok()?;
        match page.value.records.into_iter().next()?.event {
            Event::ExecutionStarted(started) => Some(*started),
            _ => None,
        }
    }
}

/// Adds an answer of a reconciler to the evidence.
pub(crate) fn add_answer(doubt: &mut Doubt, at: Timestamp, answer: &str) {
    let answers = &mut doubt.evidence.answers;
    if answers.len() == HISTORY_MAX {
        answers.remove(0);
    }
    answers.push(EvidenceAnswer { at_us: at.as_micros(), answer: answer.to_owned() });
}

/// Refuses a decision about another attempt than the one in doubt: the person has not seen this
/// one.
pub(crate) fn is_meant(resolve: &Resolve, attempt: Attempt) -> Result<(), CommandRefusal> {
    match resolve.attempt {
        Some(meant) if meant != attempt => Err(CommandRefusal::NotUnresolved(format!(
            "the decision is about attempt {meant}, but attempt {attempt} is in doubt now"
        ))),
        _ => Ok(()),
    }
}

/// What a decision settles.
pub(crate) fn settlement(
    cx: Cx<'_>,
    resolution: &Resolution,
    actor: &Actor,
    reason: &str,
) -> Settlement {
    let (finding, status) = match resolution {
        Resolution::Happened(response) => (Finding::Happened, Some(response.status)),
        Resolution::DidNotHappen => (Finding::DidNotHappen, None),
        Resolution::RunAgain => (Finding::RunAgain, None),
        Resolution::AcceptUnknown => (Finding::AcceptedUnknown, None),
    };
    let (actor, reason) = (actor.as_str().to_owned(), cut(reason).to_owned());
    Settlement { finding, status, actor, reason, at_us: cx.now.as_micros() }
}

fn already(settled: &Settlement) -> String {
    let finding = match settled.finding {
        Finding::Happened => "it happened",
        Finding::DidNotHappen => "it did not happen",
        Finding::RunAgain => "it was to run again",
        Finding::AcceptedUnknown => "it stays unknown",
    };
    let at = Timestamp::from_micros(settled.at_us).unwrap_or(Timestamp::MAX);
    let Settlement { actor, reason, .. } = settled;
    format!("{actor} settled it at {at}: {finding} ({reason})")
}

/// A request as evidence. Secrets stand there by name.
fn sent(request: &Request, open: &OpenInvoke) -> SentRequest {
    let mut left = HEAD_BYTES_MAX;
    let headers = request.headers.iter().map_while(|header| {
        let value = String::from_utf8_lossy(&shown(&header.value)).into_owned();
        left = left.checked_sub(header.name.len() + value.len())?;
        Some((header.name.clone(), value))
    });
    let url = &request.url;
    SentRequest {
        method: request.method.clone(),
        idempotency_key: key_sent(request, open),
        headers: headers.collect(),
        body: excerpt(&shown(&request.body), BODY_BYTES_MAX),
        url: url[..url.floor_char_boundary(HEAD_BYTES_MAX)].to_owned(),
    }
}

/// The beginning of some bytes, as text if all of them are.
fn excerpt(bytes: &[u8], bytes_max: usize) -> Excerpt {
    let sha256 = (bytes.len() > bytes_max).then(|| HEXLOWER.encode(&Sha256::digest(bytes)));
    let (text, base64) = match str::from_utf8(bytes) {
        Ok(text) => (Some(text[..text.floor_char_boundary(bytes_max)].to_owned()), None),
        Err(_) => (None, Some(BASE64.encode(&bytes[..bytes.len().min(bytes_max)]))),
    };
    Excerpt { bytes: bytes.len() as u64, text, base64, sha256 }
}
