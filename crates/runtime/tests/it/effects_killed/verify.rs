//! What the journals say against what the peers saw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use indelible_http_peer::Arrival;
use indelible_journal::{ErrorKind, Micros, OnUnknown, RetryBound, RetryCause, Timestamp};
use indelible_records::check;
use indelible_records::{TABLES, doubts, queue};
use indelible_store::embedded;
use indelible_test_store::outcome;
use serde_json::Value;

use crate::effects_killed::effects::{self, Attempt, Effect, Told};
use crate::effects_killed::fate::{self, Fate};
use crate::effects_killed::specs::{TIMEOUT_LONG_MS, Urls};
use crate::effects_killed::work::{How, Work};
use crate::effects_killed::{History, MARK};
use crate::support::process::TOKEN;

/// What an attempt is called whose process was killed.
const ENGINE_LOST: &str = "the engine stopped while the request was in flight";

/// How many effects there were of each kind, so that it can be seen that all were tested.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    operations: usize,
    effects: usize,
    arrivals: usize,
    answered: usize,
    /// Idem, and sent again because the process was killed.
    idem_lost: usize,
    /// Not idem, and Indeterminate because the process was killed.
    lost: usize,
    /// Not idem, and Indeterminate because no complete answer came.
    no_answer: usize,
    /// Proven unsent.
    unsent: usize,
    /// A reconciler said so.
    reconciled_done: usize,
    reconciled_not_done: usize,
    /// A person said so.
    happened: usize,
    did_not_happen: usize,
    run_again: usize,
    /// Answered long before the kill.
    surely_kept: usize,
}

impl Seen {
    /// Fails if a kind of effect was not there at all.
    pub(crate) fn has_seen_everything(&self) {
        let all = [
            self.operations,
            self.effects,
            self.arrivals,
            self.answered,
            self.idem_lost,
            self.lost,
            self.no_answer,
            self.reconciled_done,
            self.reconciled_not_done,
            self.happened,
            self.did_not_happen,
            self.run_again,
            self.surely_kept,
        ];
        assert!(all.iter().all(|count| *count > 0), "something was not tested: {self:?}");
    }
}

/// Everything is over, and is what the peers saw.
pub(crate) fn verify(
    folder: &Path,
    work: &Work,
    history: &History,
    logs: &[Vec<Arrival>; 2],
    urls: &Urls,
) -> Seen {
    let store =
        embedded::open(&folder.join("store"), &TABLES, &embedded::Options::default()).unwrap();
    let findings = check::check(&store, &mut |_| {}).unwrap();
    assert!(findings.problems.is_empty(), "{:?}", findings.problems);
    let left = queue::next(&store, None, 10).unwrap().value;
    assert!(left.is_empty(), "left in the queue: {left:?}");
    let awaited = doubts::Filter {
        states: vec![doubts::StateName::Held, doubts::StateName::Asking],
        ..doubts::Filter::default()
    };
    let left = doubts::page(&store, &awaited, false, None, 10, 10_000).unwrap().value.doubts;
    assert!(left.is_empty(), "left unresolved: {left:?}");
    let told = effects::all(&store);
    store.close().unwrap();

    operations_are_right(work, &told);
    let mut arrivals: BTreeMap<String, Vec<&Arrival>> = BTreeMap::new();
    for arrival in logs.iter().flatten() {
        let key = arrival.key.clone().expect("every attempt has a key");
        arrivals.entry(key).or_default().push(arrival);
        let is_question = arrival.path.starts_with("/do/lookup/");
        let secret = arrival.header("authorization");
        assert!(is_question || secret.is_some_and(|own| own == TOKEN), "{arrival:?}");
    }
    let mut seen = Seen {
        operations: work.operations.len(),
        arrivals: arrivals.values().map(Vec::len).sum(),
        ..Seen::default()
    };
    // Attempts at a caller share its effects' promises, and so their keys.
    let mut promises: BTreeMap<String, Vec<(&Told, &Effect)>> = BTreeMap::new();
    for told in &told {
        for effect in &told.effects {
            promises.entry(effect.idempotency_key()).or_default().push((told, effect));
        }
    }
    for (key, runs) in &promises {
        let own = arrivals.remove(key).unwrap_or_default();
        let sent: usize = runs.iter().map(|(_, run)| run.attempts.len() - run.unsent()).sum();
        // At most one request for each attempt, and none for one that is proven unsent.
        assert!(own.len() <= sent, "{} arrivals: {runs:#?}", own.len(), runs = effects_of(runs));
        for (told, effect) in runs {
            seen.effects += 1;
            seen.unsent += effect.unsent();
            let scene = Scene { told, effect, arrivals: &own, work, history, urls };
            if effect.is_idem() {
                scene.idem(&mut seen);
            } else {
                assert_eq!(runs.len(), 1, "{effect:?} was run again with its caller");
                scene.not_idem(&mut seen);
            }
        }
    }
    // D2: nothing leaves before that it leaves is durable.
    assert!(arrivals.is_empty(), "sent, and nobody knows of it: {arrivals:#?}");
    no_secret(folder);
    seen
}

fn effects_of<'a>(runs: &[(&Told, &'a Effect)]) -> Vec<&'a Effect> {
    runs.iter().map(|(_, effect)| *effect).collect()
}

/// Each operation has one execution, which ended as was shown and as its effects ended.
fn operations_are_right(work: &Work, told: &[Told]) {
    let mut roots: BTreeMap<usize, &Told> = BTreeMap::new();
    let mut executions: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for told in told.iter().filter(|told| told.key.execution_id().is_root()) {
        let (namespace, operation) = told.operation.as_ref().expect("it came from an operation");
        if namespace == "indelible.reconcile" {
            continue;
        }
        let number: usize = operation.strip_prefix("op-").unwrap().parse().unwrap();
        executions.entry(number).or_default().insert(told.key.execution_id().to_string());
        // The last attempt is the outcome.
        let last = roots.entry(number).or_insert(told);
        if told.key > last.key {
            *last = told;
        }
    }
    assert_eq!(roots.len(), work.operations.len(), "an operation has no execution");
    for (number, operation) in work.operations.iter().enumerate() {
        assert_eq!(executions[&number].len(), 1, "op-{number} has two executions");
        let told = roots[&number];
        let ending = outcome::text(&told.ending);
        assert_eq!(operation.shown.as_ref(), Some(&ending), "op-{number}");
        told_is_what_came(number, told, &ending);
    }
}

/// The guest was told of each effect what its journal says.
fn told_is_what_came(number: usize, told: &Told, ending: &str) {
    let json = ending.strip_prefix("completed ").unwrap_or_else(|| panic!("op-{number} {ending}"));
    let json: Value = serde_json::from_str(json).unwrap();
    let all: Vec<Value> = match told.function.as_str() {
        "sends" => vec![json],
        "sends_or_timer" => vec![json[1].clone()],
        "sends_in_turn" | "sends_at_once" | "sends_again" => json.as_array().unwrap().clone(),
        _ => return,
    };
    assert_eq!(all.len(), told.effects.len(), "op-{number}");
    for (value, effect) in all.iter().zip(&told.effects) {
        let status = effect.response().map(|response| u64::from(response.status));
        let error = effect.failure().map(|failure| format!("{:?}", failure.kind));
        assert_eq!(value["error"].as_str(), error.as_deref(), "op-{number} {effect:?}");
        if status.is_some() {
            assert_eq!(value["status"].as_u64(), status, "op-{number} {effect:?}");
        }
    }
}

/// One effect in one journal, and what is known beside it.
struct Scene<'a> {
    told: &'a Told,
    effect: &'a Effect,
    /// Of its key, in order.
    arrivals: &'a [&'a Arrival],
    work: &'a Work,
    history: &'a History,
    urls: &'a Urls,
}

impl Scene<'_> {
    fn fate(&self, arrival: &Arrival) -> Fate {
        fate::of(&self.effect.url, arrival.nth)
    }

    fn processed(&self) -> usize {
        self.arrivals.iter().filter(|arrival| arrival.processed).count()
    }

    /// Whether its caller did not wait for it: then neither a reconciler nor a person is asked
    /// (C-40).
    fn is_left(&self) -> bool {
        self.told.function == "sends_and_leaves"
    }

    /// Whether its time can run out.
    fn is_short(&self) -> bool {
        self.effect.policy.attempt_timeout != Some(Micros::from_millis(TIMEOUT_LONG_MS))
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        let Self { told, effect, arrivals, .. } = self;
        let arrivals: Vec<_> =
            arrivals.iter().map(|a| (a.number, a.nth, a.processed, a.answered)).collect();
        let asked = self.work.resolved.get(&effect.promise.to_string());
        panic!(
            "{why}\n{} of {:#}: {effect:#?}\narrivals (number, nth, processed, answered): \
             {arrivals:?}\na person said: {asked:?}\nprocesses ended at {:?}",
            told.function, told.key, self.history.ends
        );
    }

    #[track_caller]
    fn ensure(&self, holds: bool, why: &str) {
        if !holds {
            self.fail(why);
        }
    }

    /// What is idem is never Indeterminate, and has happened when it is Ok.
    fn idem(&self, seen: &mut Seen) {
        let Self { effect, arrivals, .. } = self;
        for (cause, error) in effect.attempts.iter().filter_map(|attempt| attempt.again.as_ref()) {
            let allowed = [RetryCause::Failed, RetryCause::NotSent, RetryCause::EngineLost];
            self.ensure(allowed.contains(cause), "nobody is asked about what is idem");
            self.ensure(error.kind != ErrorKind::Indeterminate, "idem is never Indeterminate");
        }
        let lost = effect.again(RetryCause::EngineLost);
        seen.idem_lost += lost;
        let kept = arrivals.iter().filter(|arrival| self.is_kept(arrival)).count();
        seen.surely_kept += kept;
        if self.told.function != "sends_again" {
            let known = effect.attempts.len() - lost;
            self.ensure(kept <= known, "an answer was forgotten");
        }
        if let Some(response) = effect.response() {
            let answers = |arrival: &&&Arrival| {
                arrival.answered && self.fate(arrival).status == Some(response.status)
            };
            self.ensure(arrivals.iter().any(|arrival| answers(&arrival)), "nobody answered so");
            seen.answered += 1;
            return;
        }
        let Some(failure) = effect.failure() else {
            return self.ensure(self.is_left() && effect.attempts.is_empty(), "it has no outcome");
        };
        let counted = effect.again(RetryCause::Failed) + effect.again(RetryCause::NotSent);
        let bound = match effect.policy.bound {
            RetryBound::Bounded(most) => most as usize,
            RetryBound::Unbounded => usize::MAX,
        };
        self.ensure(self.is_left() || counted == bound, "it was given up too early");
        match failure.kind {
            ErrorKind::Transient | ErrorKind::Timeout => {}
            // What arrived was answered as not processed. Another attempt at the caller is another
            // matter.
            ErrorKind::NotPerformed => {
                let again = self.told.function == "sends_again";
                self.ensure(again || self.processed() == 0, "it was performed");
            }
            ErrorKind::Cancelled => self.ensure(self.is_left(), "nobody cancelled it"),
            _ => self.fail("idem does not end so"),
        }
    }

    /// Whether an arrival was answered long before the process was killed.
    fn is_kept(&self, arrival: &Arrival) -> bool {
        let here = self.effect.url.starts_with(&self.urls.peer);
        here && !self.is_short() && self.history.surely_kept.contains(&arrival.number)
    }

    fn not_idem(&self, seen: &mut Seen) {
        let Self { effect, work, .. } = self;
        let promise = effect.promise.to_string();
        let again = effect.again(RetryCause::Operator);
        for (cause, error) in effect.attempts.iter().filter_map(|attempt| attempt.again.as_ref()) {
            match cause {
                RetryCause::NotSent | RetryCause::Operator => {}
                RetryCause::Failed => self.ensure(
                    error.kind == ErrorKind::NotPerformed,
                    "what may have happened was sent again",
                ),
                RetryCause::ReconciledNotDone => {
                    self.ensure(effect.policy.reconciler.is_some(), "nobody was asked");
                }
                RetryCause::EngineLost => self.fail("what may have happened was sent again"),
            }
        }
        seen.run_again += again;
        seen.reconciled_not_done += effect.again(RetryCause::ReconciledNotDone);
        self.ensure(again <= work.asked_again(&promise), "nobody had it run again");
        self.ensure(self.processed() <= 1 + again, "it was processed twice");
        self.kept_is_known(seen);
        match (&effect.response(), effect.failure()) {
            (Some(response), _) if response.status == 299 => {
                let said = work.count(&promise, How::Happened) > 0;
                self.ensure(said, "nobody said that it happened");
                seen.happened += 1;
            }
            (Some(response), _) if self.is_looked_up(&response.body) => {
                self.ensure(effect.policy.reconciler.is_some(), "nobody was asked");
                self.ensure(self.processed() > 0, "it has not happened");
                seen.reconciled_done += 1;
            }
            (Some(response), _) => self.answered(response.status, again, seen),
            (None, Some(failure)) => match failure.kind {
                ErrorKind::Indeterminate => self.indeterminate(again, seen),
                ErrorKind::NotPerformed if failure.message.ends_with("that it did not happen") => {
                    let said = work.count(&promise, How::DidNotHappen) > 0;
                    self.ensure(said, "nobody said that it did not happen");
                    seen.did_not_happen += 1;
                }
                ErrorKind::NotPerformed => {
                    self.ensure(effect.last_was_unsent(), "it was sent");
                    self.ensure(self.processed() <= again, "it was performed");
                }
                // Between two attempts of which the first was not processed.
                ErrorKind::Cancelled => {
                    self.ensure(self.is_left(), "nobody cancelled it");
                    self.ensure(self.processed() == 0, "it was performed");
                }
                _ => self.fail("what is not idem does not end so"),
            },
            (None, None) => {
                self.ensure(self.is_left() && effect.attempts.is_empty(), "it has no outcome");
            }
        }
        self.lost_is_indeterminate();
    }

    /// An answer that was there long before the kill is the outcome.
    fn kept_is_known(&self, seen: &mut Seen) {
        let policy = &self.effect.policy;
        for arrival in self.arrivals.iter().filter(|arrival| self.is_kept(arrival)) {
            let Some(status) = self.fate(arrival).status else { continue };
            if policy.is_no_answer(status) || policy.not_processed.contains(status) {
                continue;
            }
            seen.surely_kept += 1;
            let response = self.effect.response();
            let known = response.is_some_and(|response| response.status == status);
            self.ensure(known, "an answer was forgotten");
        }
    }

    /// The peer's answer: it gave it, and has done what it says.
    fn answered(&self, status: u16, again: usize, seen: &mut Seen) {
        let Some(last) = self.arrivals.last() else { self.fail("nobody answered") };
        let fate = self.fate(last);
        self.ensure(last.answered && fate.status == Some(status), "nobody answered so");
        if again == 0 {
            // Whatever arrived before was told to be not processed, or found not to be.
            let expected = usize::from(fate.processes);
            self.ensure(self.processed() == expected, "it was not processed as was told");
        }
        seen.answered += 1;
    }

    /// Whether an answer is a reconciler's.
    fn is_looked_up(&self, body: &[u8]) -> bool {
        let body: Option<Value> = serde_json::from_slice(body).ok();
        body.is_some_and(|body| body["count"].is_null() && body["processed"].is_u64())
    }

    /// The outcome is unknown: its last attempt may have left, and no complete answer was durable.
    fn indeterminate(&self, again: usize, seen: &mut Seen) {
        let Self { effect, arrivals, .. } = self;
        let failure = effect.failure().unwrap();
        let asked = effect.policy.reconciler.is_some();
        if effect.policy.on_unknown == OnUnknown::Hold || asked {
            let in_vain = asked && failure.message.ends_with("cannot tell whether it happened");
            self.ensure(self.is_left() || in_vain, "somebody should have been asked");
        }
        let Some(last) = effect.attempts.last() else { self.fail("nothing was sent") };
        if again > 0 || asked {
            return;
        }
        // All before it were unsent, or answered as not processed.
        let before = effect.again(RetryCause::Failed);
        let arrival = arrivals.get(before);
        self.ensure(arrivals.len() <= before + 1, "it was sent again");
        if self.is_lost(last) {
            self.ensure(failure.message.starts_with(ENGINE_LOST), "another process started it");
            seen.lost += 1;
            return;
        }
        self.ensure(!failure.message.starts_with(ENGINE_LOST), "the process was there");
        let fate = arrival.map(|arrival| self.fate(arrival));
        let no_answer = fate.is_some_and(|fate| {
            fate.status.is_none_or(|status| effect.policy.is_no_answer(status))
        });
        // On a connection that the peer was closing, it may have gone nowhere.
        let closing = effect.url.starts_with(&self.urls.closing) && arrival.is_none();
        let broke_off = no_answer || self.is_short() || closing || self.peer_went(last);
        self.ensure(broke_off, "it was answered");
        seen.no_answer += 1;
    }

    /// The process that started an attempt died before it heard of its end: it is Indeterminate,
    /// whatever the peer did.
    fn lost_is_indeterminate(&self) {
        let policy = &self.effect.policy;
        if policy.on_unknown == OnUnknown::Indeterminate
            && policy.reconciler.is_none()
            && let Some(last) = self.effect.attempts.last()
            && self.is_lost(last)
        {
            self.ensure(self.effect.is_indeterminate(), "nobody can know that");
        }
    }

    /// Whether one process wrote its start, and another its end.
    fn is_lost(&self, attempt: &Attempt) -> bool {
        self.process(attempt.started_at) != self.process(attempt.ended_at)
    }

    /// Which process wrote at this time.
    fn process(&self, at: Timestamp) -> usize {
        self.history.ends.partition_point(|end| *end < at)
    }

    /// Whether the peer went down during an attempt.
    fn peer_went(&self, attempt: &Attempt) -> bool {
        let downs = &self.history.downs;
        downs.iter().any(|(begin, end)| attempt.started_at <= *end && *begin <= attempt.ended_at)
    }
}

/// The secret is in no file; what is no secret is found.
fn no_secret(folder: &Path) {
    let (mut folders, mut marked) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!has(TOKEN), "the secret is in {}", path.display());
            marked += usize::from(has(MARK));
        }
    }
    assert!(marked > 0, "the bodies of requests are in no file: the search is worth nothing");
}
