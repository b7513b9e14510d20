//! What the process was asked and what it acknowledged, kept where no kill reaches it; and what
//! must come of it.

use std::collections::VecDeque;

use indelible_test_support::Prng;

/// How many requests are under way at once, those for outcomes apart: these may take their time.
const UNDER_WAY_MAX: usize = 400;
/// More is started until so many wait.
const WAITING_WANTED: usize = 2_400;

/// What an operation does. See the guest: `guests/behaviours/src/kept.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds up what signals bring.
    Collect { count: usize },
    /// The same, and its first attempt panics.
    CollectAgain { count: usize },
    /// Calls and sleeps.
    Errands { calls: u64, milliseconds: u64 },
    /// Books, and is confirmed, declined or cancelled.
    Travel { stops: u64, decision: Decision },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Confirm,
    Decline,
    Cancel,
}

/// Something that is sent to an operation: a signal, or the request to cancel it.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// How often it was sent. One that was not acknowledged is sent again, with another token.
    pub(crate) sent: u32,
    /// Which of them was acknowledged, and under which number of a delivery.
    pub(crate) acknowledged: Option<(u32, Option<u64>)>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) execution: Option<String>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) shown: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Start(usize),
    Input(usize, usize),
    Outcome(usize),
}

/// Whether new operations are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Busy,
    /// Everything that was started comes to its end.
    Finishing,
}

/// Everything that was asked and acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    pub(crate) operations: Vec<Operation>,
    /// What this process has to be asked again, or next.
    todo: VecDeque<Request>,
    outcomes: VecDeque<usize>,
    /// Inputs that were never sent, of operations that were acknowledged.
    unsent: Vec<(usize, usize)>,
    /// Operations with such inputs: they wait, whatever happens.
    waiting: usize,
    under_way: usize,
    asked_outcomes: usize,
}

impl Operation {
    fn new(kind: Kind) -> Self {
        let count = match kind {
            Kind::Collect { count } | Kind::CollectAgain { count } => count,
            Kind::Errands { .. } => 0,
            Kind::Travel { .. } => 1,
        };
        let inputs = (0..count).map(|_| Input::default()).collect();
        Self { kind, execution: None, inputs, shown: None }
    }

    fn all_sent(&self) -> bool {
        self.inputs.iter().all(|input| input.sent > 0)
    }

    fn all_acknowledged(&self) -> bool {
        self.inputs.iter().all(|input| input.acknowledged.is_some())
    }

    /// How it must end.
    pub(crate) fn expected(&self, number: usize) -> String {
        match self.kind {
            Kind::Collect { count } | Kind::CollectAgain { count } => {
                let sum: u64 = (0..count).map(|part| value(number, part)).sum();
                format!("completed {sum}")
            }
            Kind::Errands { calls, .. } => {
                format!("completed {}", calls * (calls + 1) / 2 + calls)
            }
            Kind::Travel { stops, decision: Decision::Confirm } => format!("completed {stops}"),
            Kind::Travel { decision: Decision::Decline, .. } => "failed declined".to_owned(),
            Kind::Travel { decision: Decision::Cancel, .. } => "cancelled enough".to_owned(),
        }
    }

    fn start_line(&self, number: usize) -> String {
        let (function, input) = match self.kind {
            Kind::Collect { count } => ("collect", count.to_string()),
            Kind::CollectAgain { count } => ("collect_again", count.to_string()),
            Kind::Errands { calls, milliseconds } => {
                ("errands", format!("[{calls},{milliseconds}]"))
            }
            Kind::Travel { stops, .. } => ("travel", stops.to_string()),
        };
        format!("start op-{number} {function} {input}")
    }

    fn input_line(&self, number: usize, input: usize) -> String {
        let token = token(number, input, self.inputs[input].sent);
        let execution = self.execution.as_ref().unwrap();
        match self.kind {
            Kind::Travel { decision: Decision::Cancel, .. } => {
                format!("cancel op-{number} {execution}")
            }
            Kind::Travel { decision, .. } => {
                let go = decision == Decision::Confirm;
                let payload = format!("{{\"go\":{go},\"token\":\"{token}\"}}");
                format!("signal {token} {execution} decision {payload}")
            }
            _ => {
                let value = value(number, input);
                let payload =
                    format!("{{\"number\":{input},\"value\":{value},\"token\":\"{token}\"}}");
                format!("signal {token} {execution} part {payload}")
            }
        }
    }
}

/// What a part adds to a sum.
fn value(operation: usize, part: usize) -> u64 {
    ((operation * 7 + part * 13) % 1_000) as u64
}

/// What tells one sending from all others.
pub(crate) fn token(operation: usize, input: usize, sent: u32) -> String {
    format!("{operation}.{input}.{sent}")
}

/// The operation, the input and the sending of a token.
pub(crate) fn read_token(token: &str) -> (usize, usize, u32) {
    let mut words = token.split('.');
    let mut next = || words.next().unwrap();
    (next().parse().unwrap(), next().parse().unwrap(), next().parse().unwrap())
}

impl Promises {
    /// How many operations wait for an input that the test has not sent yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether every outcome was shown.
    pub(crate) fn all_shown(&self) -> bool {
        self.operations.iter().all(|operation| operation.shown.is_some())
    }

    /// A new process is to be asked everything again that the old one did not acknowledge, and some
    /// that it did.
    pub(crate) fn new_process(&mut self, numbers: &mut Prng) {
        self.todo.clear();
        self.outcomes.clear();
        (self.under_way, self.asked_outcomes) = (0, 0);
        for (number, operation) in self.operations.iter().enumerate() {
            let again = numbers.below(20) == 0;
            if operation.execution.is_none() || again {
                self.todo.push_back(Request::Start(number));
            }
            if operation.execution.is_none() {
                continue;
            }
            for (place, input) in operation.inputs.iter().enumerate() {
                if input.sent > 0 && input.acknowledged.is_none() {
                    self.todo.push_back(Request::Input(number, place));
                }
            }
            if operation.all_acknowledged() && (operation.shown.is_none() || again) {
                self.outcomes.push_back(number);
            }
        }
    }

    /// The next line for the process, if it is to get one now.
    pub(crate) fn next(&mut self, numbers: &mut Prng, mood: Mood) -> Option<String> {
        if self.asked_outcomes < UNDER_WAY_MAX
            && let Some(number) = self.outcomes.pop_front()
        {
            self.asked_outcomes += 1;
            return Some(self.line(Request::Outcome(number)));
        }
        if self.under_way >= UNDER_WAY_MAX {
            return None;
        }
        let request = self.todo.pop_front().or_else(|| self.something_new(numbers, mood))?;
        self.under_way += 1;
        Some(self.line(request))
    }

    fn something_new(&mut self, numbers: &mut Prng, mood: Mood) -> Option<Request> {
        let start = self.waiting < WAITING_WANTED || numbers.below(4) == 0;
        if mood == Mood::Busy && start {
            self.operations.push(Operation::new(kind(numbers)));
            return Some(Request::Start(self.operations.len() - 1));
        }
        let count = self.unsent.len() as u64;
        let place = (count > 0).then(|| numbers.below(count))?;
        let (number, input) = self.unsent.swap_remove(place as usize);
        Some(Request::Input(number, input))
    }

    fn line(&mut self, request: Request) -> String {
        match request {
            Request::Start(number) => self.operations[number].start_line(number),
            Request::Input(number, input) => {
                let operation = &mut self.operations[number];
                let waited = !operation.all_sent();
                operation.inputs[input].sent += 1;
                if waited && operation.all_sent() {
                    self.waiting -= 1;
                }
                operation.input_line(number, input)
            }
            Request::Outcome(number) => {
                let execution = self.operations[number].execution.as_ref().unwrap();
                format!("outcome op-{number} {execution}")
            }
        }
    }

    /// The process said this.
    pub(crate) fn heard(&mut self, line: &str) {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = || name.strip_prefix("op-").unwrap().parse().unwrap();
        match what {
            "started" => self.started(number(), rest),
            "signalled" => {
                let (operation, input, sent) = read_token(name);
                self.acknowledged(operation, input, (sent, Some(rest.parse().unwrap())));
            }
            "late" => {
                let (operation, input, sent) = read_token(name);
                // Over: then an earlier sending had arrived, and the process died before it
                // acknowledged it.
                assert!(sent > 1, "{name} found it over, and was sent once");
                self.acknowledged(operation, input, (sent, None));
            }
            "cancelled" => self.acknowledged(number(), 0, (1, None)),
            "ended" => self.ended(number(), rest),
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
        if operation.inputs.is_empty() {
            self.outcomes.push_back(number);
        } else {
            self.waiting += 1;
            self.unsent.extend((0..operation.inputs.len()).map(|input| (number, input)));
        }
    }

    fn acknowledged(&mut self, number: usize, input: usize, how: (u32, Option<u64>)) {
        self.under_way -= 1;
        let operation = &mut self.operations[number];
        let before = operation.inputs[input].acknowledged.replace(how);
        assert_eq!(before, None, "input {input} of op-{number} was acknowledged twice");
        if operation.all_acknowledged() {
            self.outcomes.push_back(number);
        }
    }

    fn ended(&mut self, number: usize, outcome: &str) {
        self.asked_outcomes -= 1;
        let operation = &mut self.operations[number];
        assert_eq!(outcome, operation.expected(number), "op-{number}: {:?}", operation.kind);
        operation.shown = Some(outcome.to_owned());
    }
}

fn kind(numbers: &mut Prng) -> Kind {
    match numbers.below(10) {
        0..4 => Kind::Collect { count: 1 + numbers.below(4) as usize },
        4 => Kind::CollectAgain { count: 2 + numbers.below(3) as usize },
        5..7 => Kind::Errands { calls: 1 + numbers.below(4), milliseconds: numbers.below(400) },
        _ => {
            let decision = match numbers.below(3) {
                0 => Decision::Confirm,
                1 => Decision::Decline,
                _ => Decision::Cancel,
            };
            Kind::Travel { stops: 1 + numbers.below(4), decision }
        }
    }
}
