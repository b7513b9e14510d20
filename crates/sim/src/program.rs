//! Random programs for the guest `script`: bounded, so that each comes to an end when it is given
//! the signals that it waits for, and otherwise as wild as a user's.

use serde_json::{Value, json};

use crate::Rng;
use crate::peer::FATES;

/// The signals that programs wait for.
pub const SIGNALS: [&str; 2] = ["go", "stop"];

/// A program, and the function of `script` that runs it.
#[derive(Debug, Clone)]
pub struct Program {
    /// Which function of `script` runs it.
    pub function: &'static str,
    /// Its steps, as `script` describes them.
    pub steps: Value,
}

impl Program {
    /// Draws a program.
    pub fn draw(rng: &mut Rng) -> Self {
        Self::draw_with(rng, false)
    }

    /// Draws a program that sends HTTP requests.
    pub fn draw_sending(rng: &mut Rng) -> Self {
        Self::draw_with(rng, true)
    }

    fn draw_with(rng: &mut Rng, sends: bool) -> Self {
        let function = *rng.pick(&["main", "main", "idem", "plain"]);
        let tame = rng.percent(40);
        let mut draft = Draft { budget: rng.between(6, 50), tame, rng, sends, slots: 0 };
        let steps = draft.body(function, 3, 9);
        Self { function, steps }
    }

    /// Whether its result depends on which of several events came first.
    pub fn has_races(&self) -> bool {
        let text = self.steps.to_string();
        ["\"any\"", "\"signal_or\"", "\"next\"", "\"take_all\""]
            .iter()
            .any(|step| text.contains(step))
    }
}

struct Draft<'a> {
    rng: &'a mut Rng,
    /// How many steps may still be drawn, in all functions together.
    budget: u64,
    /// Without races, and without calls that are dropped: a crash must not change its end.
    tame: bool,
    /// With HTTP effects.
    sends: bool,
    slots: u64,
}

/// What the steps written so far have made, in one function.
#[derive(Default, Clone)]
struct ProgramDraft {
    promises: Vec<String>,
    /// Calls that are in no join set.
    calls: Vec<String>,
    /// Join sets, and whether results were taken.
    sets: Vec<(String, bool)>,
}

impl Draft<'_> {
    /// The steps of a function; `depth` bounds how deep its calls nest.
    fn body(&mut self, function: &str, depth: u64, most: u64) -> Value {
        let mut made = ProgramDraft::default();
        let mut steps = Vec::new();
        let count = self.rng.between(1, most);
        // Most functions that make calls begin with one or two.
        if depth > 0 && self.budget > 0 && self.rng.percent(60) {
            for _ in 0..self.rng.between(1, 2) {
                self.budget = self.budget.saturating_sub(1);
                let call = self.call(depth, &mut made);
                steps.push(call);
            }
        }
        for _ in 0..count {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.step(depth, &mut made, &mut steps);
        }
        if self.tame {
            steps.push(json!({ "all": made.promises }));
        } else if self.rng.percent(50) && !made.promises.is_empty() {
            let slots = self.some(&made.promises, 1);
            steps.push(json!({ "all": slots }));
        }
        if function != "main" && self.rng.percent(50) {
            let places = if self.tame { 1 } else { steps.len() as u64 + 1 };
            // A tame program fails before its first step, or after its last.
            let last = self.tame && self.rng.percent(50);
            let place = if last { steps.len() } else { self.rng.below(places) as usize };
            let attempt = self.rng.between(2, 4);
            let below = json!({ "below": [attempt, [self.failure()]] });
            steps.insert(place, below);
        }
        if self.rng.percent(25) && !steps.is_empty() {
            steps.insert(0, json!({ "cancelled": self.cleanup(depth, &ProgramDraft::default()) }));
        }
        if self.rng.percent(10) {
            steps.push(self.end());
        }
        Value::Array(steps)
    }

    fn step(&mut self, depth: u64, made: &mut ProgramDraft, steps: &mut Vec<Value>) {
        if self.sends && self.rng.percent(35) {
            return self.effect(made, steps);
        }
        let kind = self.rng.below(100);
        let wild = matches!(kind, 46..51 | 60..75 | 79..83);
        match kind {
            _ if wild && self.tame => steps.push(json!({ "signal": self.rng.pick(&SIGNALS) })),
            0..28 if depth > 0 => {
                let call = self.call(depth, made);
                steps.push(call);
                if self.rng.percent(15) {
                    steps.push(json!({ "cancelled": self.cleanup(depth, made) }));
                }
                if self.rng.percent(40) {
                    let slot = made.promises.last().cloned().unwrap_or_default();
                    steps.push(json!({ "await": slot }));
                }
            }
            28..34 => steps.push(self.timer(made)),
            34..46 if !made.promises.is_empty() => {
                steps.push(json!({ "await": self.rng.pick(&made.promises) }));
            }
            46..51 if !made.promises.is_empty() => {
                let slots = self.some(&made.promises, 1);
                steps.push(json!({ "any": slots }));
            }
            51..55 => {
                let slots = self.some(&made.promises, 0);
                steps.push(json!({ "all": slots }));
            }
            55..60 => steps.push(json!({ "signal": self.rng.pick(&SIGNALS) })),
            60..65 => {
                let slots = self.some(&made.promises, 0);
                steps.push(json!({ "signal_or": [self.rng.pick(&SIGNALS), slots] }));
            }
            65..71 if depth > 0 => self.join_set(depth, made, steps),
            71..75 if !made.sets.is_empty() => {
                let set = self.rng.below(made.sets.len() as u64) as usize;
                self.take(made, set, steps);
            }
            75..77 => steps.push(json!({ "now": 0 })),
            77..79 => steps.push(json!({ "random": self.rng.between(0, 9) })),
            79..82 => {
                let attempt = self.rng.between(2, 4);
                let mut inner = Vec::new();
                if self.rng.percent(50) {
                    // Later attempts skip these steps, so no step outside may use the slots they
                    // make.
                    self.step(depth.saturating_sub(1), &mut made.clone(), &mut inner);
                }
                if self.rng.percent(60) {
                    inner.push(self.failure());
                }
                steps.push(json!({ "below": [attempt, inner] }));
            }
            82 if depth > 0 => {
                // More calls than one turn runs. They share a slot: only the last can be waited
                // for.
                let (slot, body) = (self.slot(), self.body("main", 0, 2));
                let calls = json!({ "call": [slot, "main", body] });
                steps.push(json!({ "repeat": [self.rng.between(20, 40), [calls]] }));
                made.promises.push(slot);
            }
            82..88 => {
                let cleanup = self.cleanup(depth, made);
                steps.push(json!({ "cancelled": cleanup }));
            }
            _ => {
                let timer = self.timer(made);
                steps.push(timer);
                let slot = made.promises.last().cloned().unwrap_or_default();
                steps.push(json!({ "await": slot }));
            }
        }
    }

    /// A request, which is awaited, raced, put into a set, or left.
    fn effect(&mut self, made: &mut ProgramDraft, steps: &mut Vec<Value>) {
        let slot = self.slot();
        steps.push(json!({ "http": [slot, request(self.rng)] }));
        made.promises.push(slot.clone());
        match self.rng.below(100) {
            0..40 => steps.push(json!({ "await": slot })),
            40..55 if !self.tame => {
                let timer = self.timer(made);
                let other = made.promises.last().cloned().unwrap_or_default();
                steps.push(timer);
                steps.push(json!({ "any": [slot, other] }));
            }
            55..70 if !self.tame => {
                let set = self.slot();
                steps.push(json!({ "set": set }));
                steps.push(json!({ "submit": [set, slot] }));
                made.sets.push((set, false));
                if self.rng.percent(60) {
                    let last = made.sets.len() - 1;
                    self.take(made, last, steps);
                }
            }
            _ => made.calls.push(slot),
        }
    }

    fn timer(&mut self, made: &mut ProgramDraft) -> Value {
        let slot = self.slot();
        made.promises.push(slot.clone());
        json!({ "timer": [slot, self.duration()] })
    }

    fn call(&mut self, depth: u64, made: &mut ProgramDraft) -> Value {
        let slot = self.slot();
        let function = *self.rng.pick(&["main", "main", "main", "idem", "idem", "plain", "nobody"]);
        // A call takes its share of the steps, and leaves the rest to its caller.
        let share = self.rng.between(1, 10).min(self.budget / 2);
        let rest = self.budget - share;
        self.budget = share;
        let body = self.body(function, depth - 1, 5);
        self.budget += rest;
        made.promises.push(slot.clone());
        made.calls.push(slot.clone());
        json!({ "call": [slot, function, body] })
    }

    /// A set with a few calls in it; it may get more later.
    fn join_set(&mut self, depth: u64, made: &mut ProgramDraft, steps: &mut Vec<Value>) {
        let set = self.slot();
        steps.push(json!({ "set": set }));
        made.sets.push((set.clone(), false));
        for _ in 0..self.rng.below(4) {
            let call = self.call(depth, made);
            let slot = made.calls.pop().unwrap_or_default();
            steps.push(call);
            steps.push(json!({ "submit": [set, slot] }));
        }
        let last = made.sets.len() - 1;
        for _ in 0..self.rng.below(3) {
            self.take(made, last, steps);
        }
    }

    fn take(&mut self, made: &mut ProgramDraft, set: usize, steps: &mut Vec<Value>) {
        let (name, taken) = &mut made.sets[set];
        if !*taken && self.rng.percent(30) && !made.calls.is_empty() {
            let call = made.calls.swap_remove(self.rng.below(made.calls.len() as u64) as usize);
            steps.push(json!({ "submit": [name, call] }));
        }
        *taken = true;
        let how = if self.rng.percent(70) { "next" } else { "take_all" };
        steps.push(json!({ how: name }));
    }

    /// What to do when told of a cancel.
    fn cleanup(&mut self, depth: u64, made: &ProgramDraft) -> Value {
        let mut made = made.clone();
        let mut steps = Vec::new();
        if !made.promises.is_empty() && self.rng.percent(50) {
            // Waits for a call, to learn what became of it.
            steps.push(json!({ "await": self.rng.pick(&made.promises) }));
        }
        for _ in 0..self.rng.between(0, 3) {
            self.step(depth.saturating_sub(1), &mut made, &mut steps);
        }
        if depth > 0 && self.rng.percent(20) {
            self.linger(&mut made, &mut steps);
        }
        if self.tame {
            steps.push(json!({ "all": made.promises }));
        }
        if self.rng.percent(30) {
            steps.push(self.failure());
        }
        Value::Array(steps)
    }

    /// Cleaning up that may not come to its end in time, with a call in flight that takes time to
    /// clean up, too.
    fn linger(&mut self, made: &mut ProgramDraft, steps: &mut Vec<Value>) {
        let (slot, timer) = (self.slot(), self.slot());
        let cleanup = json!([{ "timer": [timer, self.duration()] }, { "await": timer }]);
        let body = json!([{ "cancelled": cleanup }, { "signal": self.rng.pick(&SIGNALS) }]);
        steps.push(json!({ "call": [slot, "main", body] }));
        steps.push(json!({ "signal": self.rng.pick(&SIGNALS) }));
        made.promises.push(slot.clone());
        made.calls.push(slot);
    }

    fn failure(&mut self) -> Value {
        match self.rng.below(11) {
            0 | 1 => json!({ "fail": "no" }),
            2..6 => json!({ "transient": "not yet" }),
            6 => json!({ "unknown": "who knows" }),
            _ => json!({ "panic": "oh" }),
        }
    }

    fn end(&mut self) -> Value {
        if self.rng.percent(50) { json!({ "return": "early" }) } else { self.failure() }
    }

    fn slot(&mut self) -> String {
        self.slots += 1;
        format!("p{}", self.slots)
    }

    /// Milliseconds. Few are equal; some are longer than cleaning up may take.
    fn duration(&mut self) -> u64 {
        match self.rng.below(20) {
            0 => 0,
            1..4 => self.rng.between(10_000, 90_000),
            _ => self.rng.between(1, 5_000),
        }
    }

    /// Up to three of them, each once.
    fn some(&mut self, of: &[String], least: u64) -> Vec<String> {
        let mut left = of.to_vec();
        let count = self.rng.between(least, 3).min(left.len() as u64);
        (0..count).map(|_| left.swap_remove(self.rng.below(left.len() as u64) as usize)).collect()
    }
}

/// A request to the simulated peer. A request with unbounded retries is answered in the end.
fn request(rng: &mut Rng) -> Value {
    let method = *rng.pick(&["POST", "POST", "POST", "PATCH", "PUT", "GET", "DELETE"]);
    let unbounded = rng.percent(25);
    let settle = rng.percent(30).then(|| rng.between(31_000, 90_000));
    let mut fates: Vec<&str> = (0..rng.between(1, 3)).map(|_| *rng.pick(&FATES)).collect();
    if unbounded || settle.is_some() || rng.percent(30) {
        fates.push("ok");
    }
    let mut url = format!("http://peer/{}", fates.join(","));
    if settle.is_some() {
        let mut look: Vec<&str> = (0..rng.below(3)).map(|_| *rng.pick(&FATES)).collect();
        // Now and then a reconciler that never knows.
        look.push(if rng.percent(15) { "broken" } else { "ok" });
        url = format!("{url}?look={}", look.join(","));
    }
    let backoff = rng.between(10, 2_000);
    let mut request = json!({
        "method": method,
        "url": url,
        "backoff": backoff,
        "cap": backoff * 8,
        "timeout": rng.between(500, 30_000),
        "hold": rng.percent(40),
    });
    if !unbounded {
        request["retries"] = json!(rng.below(4));
    }
    if let Some(settle) = settle {
        request["settle"] = json!(settle);
    }
    if rng.percent(15) {
        request["deadline"] = json!(rng.between(1_000, 60_000));
    }
    if rng.percent(15) {
        request["idem"] = json!(rng.percent(50));
    }
    request
}
