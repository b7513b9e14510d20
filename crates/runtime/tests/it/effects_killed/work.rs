//! What the process was asked and what it said, kept where no kill reaches it: operations with
//! their outcomes, and how a person resolved the unknown ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use indelible_test_support::Prng;

use crate::effects_killed::specs::{self, Urls};

/// How many requests for starts are under way at once.
const UNDER_WAY_MAX: usize = 300;
/// How many outcomes are asked for at once.
const OUTCOMES_MAX: usize = 1_000;
/// So many unresolved effects are looked at, at once.
const UNRESOLVED_MAX: usize = 500;
/// From this attempt on nothing is run again: it has to end.
const RUN_AGAIN_MAX: u32 = 3;

/// Something that was started.
pub(crate) struct Operation {
    pub(crate) function: &'static str,
    pub(crate) input: String,
    pub(crate) execution: Option<String>,
    /// The outcome, as it was shown first.
    pub(crate) shown: Option<String>,
}

/// What a person says of an effect that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Happened,
    DidNotHappen,
    RunAgain,
}

impl How {
    /// The rule by which the test decides: always the same for an attempt.
    fn of(promise: &str, attempt: u32) -> Self {
        let sum = promise.bytes().fold(attempt, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        match sum % 3 {
            0 if attempt < RUN_AGAIN_MAX => Self::RunAgain,
            0 | 1 => Self::Happened,
            _ => Self::DidNotHappen,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Happened => "happened",
            Self::DidNotHappen => "did-not-happen",
            Self::RunAgain => "run-again",
        }
    }
}

/// Everything that was asked and said.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) operations: Vec<Operation>,
    /// What was asked for of each promise: the attempt, and how it was resolved.
    pub(crate) resolved: BTreeMap<String, BTreeMap<u32, How>>,
    to_start: VecDeque<usize>,
    to_show: VecDeque<usize>,
    to_resolve: VecDeque<String>,
    /// The attempts that this process was told of: a list may name one again before it has heard.
    told: BTreeSet<(String, u32)>,
    under_way: usize,
    asked_outcomes: usize,
    /// Whether a list of what is unresolved was asked for.
    looking: bool,
    tokens: u64,
}

impl Work {
    pub(crate) fn all_shown(&self) -> bool {
        self.operations.iter().all(|operation| operation.shown.is_some())
    }

    /// How many are not over, as far as is known.
    pub(crate) fn open(&self) -> usize {
        self.operations.iter().filter(|operation| operation.shown.is_none()).count()
    }

    /// For a failing test: what is not over.
    pub(crate) fn not_shown(&self) -> Vec<String> {
        let open = self.operations.iter().enumerate().filter(|(_, one)| one.shown.is_none());
        open.take(5)
            .map(|(number, one)| {
                format!("op-{number} {:?} {} {}", one.execution, one.function, one.input)
            })
            .collect()
    }

    /// A new process: it is asked everything again that the old one did not acknowledge, and some
    /// that it did.
    pub(crate) fn new_process(&mut self, numbers: &mut Prng) {
        (self.under_way, self.asked_outcomes, self.looking) = (0, 0, false);
        self.to_start.clear();
        self.to_show.clear();
        self.to_resolve.clear();
        self.told.clear();
        for (number, operation) in self.operations.iter().enumerate() {
            let again = numbers.below(20) == 0;
            if operation.execution.is_none() || again {
                self.to_start.push_back(number);
            }
            if operation.execution.is_some() && (operation.shown.is_none() || again) {
                self.to_show.push_back(number);
            }
        }
    }

    /// Another operation.
    pub(crate) fn add(&mut self, numbers: &mut Prng, urls: &Urls) {
        let (function, input) = specs::call(numbers, urls);
        self.operations.push(Operation { function, input, execution: None, shown: None });
        self.to_start.push_back(self.operations.len() - 1);
    }

    /// Whether starts are waiting to be asked for.
    pub(crate) fn has_room(&self) -> bool {
        self.to_start.is_empty() && self.under_way < UNDER_WAY_MAX
    }

    /// The next line for the process, if it is to get one now.
    pub(crate) fn next(&mut self) -> Option<String> {
        if let Some(line) = self.to_resolve.pop_front() {
            return Some(line);
        }
        if self.asked_outcomes < OUTCOMES_MAX
            && let Some(number) = self.to_show.pop_front()
        {
            self.asked_outcomes += 1;
            let execution = self.operations[number].execution.as_ref().unwrap();
            return Some(format!("outcome op-{number} {execution}"));
        }
        if self.under_way >= UNDER_WAY_MAX {
            return None;
        }
        let number = self.to_start.pop_front()?;
        self.under_way += 1;
        let Operation { function, input, .. } = &self.operations[number];
        Some(format!("start op-{number} {function} {input}"))
    }

    /// A person looks at what is held, unless one does already.
    pub(crate) fn look(&mut self) -> Option<String> {
        let looks = !std::mem::replace(&mut self.looking, true);
        looks.then(|| format!("unresolved list {UNRESOLVED_MAX}"))
    }

    /// The process said this.
    pub(crate) fn heard(&mut self, line: &str) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = || -> usize { name.strip_prefix("op-").unwrap().parse().unwrap() };
        match what {
            "started" => self.started(number(), rest),
            "ended" => self.ended(number(), rest),
            "unresolved" => self.unresolved(rest),
            // Refused: an earlier process had done it, or an answer came late.
            "resolved" | "refused" => {}
            _ => panic!("it said: {line}"),
        }
    }

    fn started(&mut self, number: usize, execution: &str) {
        self.under_way -= 1;
        let operation = &mut self.operations[number];
        if let Some(known) = &operation.execution {
            assert_eq!(known, execution, "op-{number} was started twice");
            return;
        }
        operation.execution = Some(execution.to_owned());
        self.to_show.push_back(number);
    }

    fn ended(&mut self, number: usize, outcome: &str) {
        self.asked_outcomes -= 1;
        let before = self.operations[number].shown.replace(outcome.to_owned());
        assert!(
            before.as_deref().is_none_or(|before| before == outcome),
            "op-{number} had ended with {before:?}, and now with {outcome}"
        );
    }

    fn unresolved(&mut self, held: &str) {
        self.looking = false;
        let words: Vec<&str> = held.split_whitespace().collect();
        for effect in words.chunks(2) {
            let (promise, attempt) = (effect[0], effect[1].parse().unwrap());
            if !self.told.insert((promise.to_owned(), attempt)) {
                continue;
            }
            let how = How::of(promise, attempt);
            self.resolved.entry(promise.to_owned()).or_default().insert(attempt, how);
            self.tokens += 1;
            let line = format!("resolve {} {promise} {}", self.tokens, how.word());
            self.to_resolve.push_back(line);
        }
    }

    /// How often a promise was to be run again.
    pub(crate) fn asked_again(&self, promise: &str) -> usize {
        self.count(promise, How::RunAgain)
    }

    /// How often this was said of a promise.
    pub(crate) fn count(&self, promise: &str, how: How) -> usize {
        let all = self.resolved.get(promise);
        all.map_or(0, |all| all.values().filter(|own| **own == how).count())
    }
}
