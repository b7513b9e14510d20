//! The smallest machine with all that a machine can have, a row, a timer and a message: counters
//! that can be added to, and that pass on a loan when its timer fires. The host's tests run it, and
//! `docs/rooms.md` explains it.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use indelible_journal::Micros;
use indelible_machine::{CallerId, Changes, Machine, TimerChange};
use indelible_records::TABLES;
use indelible_runtime::rooms::{
    BegunTree, Context, Input, Message, Outgoing, RoomKey, RoomMachine, RoomRows, RoomStart,
    RoomTimer, Rooms,
};
use indelible_slots::{Slot, SlotSet};
use indelible_store::{Batch, Shape, Table};
use serde::{Deserialize, Serialize};

/// The number of the room.
pub const ROOM: u8 = 128;

/// The rows of counters, by their keys: a slot and a name.
pub const COUNTERS: Table = Table::new(63, "counters", Shape::Churn).with_slots(Slot::at_start_of);

/// All tables of a store with counters.
pub fn tables() -> Vec<Table> {
    TABLES.into_iter().chain([COUNTERS]).collect()
}

/// The room, for an engine to be opened with.
pub fn room() -> Rooms {
    Rooms::default().with(ROOM, Counter::default)
}

/// The counter of this number. Each is in a slot of its own.
pub fn key(number: u8) -> RoomKey {
    let slot = u16::from(number) << 4;
    let key = [&slot.to_be_bytes()[..], b"counter"].concat();
    RoomKey { room: ROOM, key: key.into() }
}

/// What a counter can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To tell what it stands at.
    Read,
    /// To add this.
    Add(u64),
    /// To add this, and to pass it on to another counter after so many microseconds.
    Lend(u64, u8, u64),
    /// To add one, and to start an execution in the same commit.
    Start(Box<RoomStart>),
}

/// What a counter answers.
pub type Answer = Result<Standing, String>;

/// What a counter stands at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// All that was added, lent or passed on to it.
    pub count: u64,
    /// What it has passed on.
    pub passed_on: u64,
    /// Loans by the number of their timer: the amount, and the counter that gets it next.
    pub lent: BTreeMap<u64, (u64, u8)>,
    next: u64,
}

/// A counter.
#[derive(Default)]
pub struct Counter {
    /// `None`: it has not loaded its row.
    standing: Option<Standing>,
    changed: Option<RoomKey>,
    starts: Vec<BegunTree>,
    timers: Vec<(RoomTimer, TimerChange)>,
    replies: Vec<(CallerId, Answer)>,
    outgoing: Vec<Outgoing>,
    notices: Vec<String>,
}

impl Counter {
    fn standing(&mut self, cx: &Context<'_>) -> Result<&mut Standing, String> {
        if self.standing.is_none() {
            let row = cx.reads.get(COUNTERS, &cx.key.key).map_err(|error| error.to_string())?;
            let standing = row.value.map(|row| serde_json::from_slice(&row));
            let standing = standing.transpose().map_err(|error| error.to_string())?;
            self.standing = Some(standing.unwrap_or_default());
        }
        Ok(self.standing.as_mut().expect("it was just read"))
    }

    fn handle(&mut self, cx: &Context<'_>, input: Input<Ask>) -> Result<(), String> {
        let standing = self.standing(cx)?;
        match input {
            Input::Asked(asker, ask) => {
                if let Ask::Add(amount) | Ask::Lend(amount, ..) = ask {
                    let Some(count) = standing.count.checked_add(amount) else {
                        // Nothing changes, and the caller is told.
                        let refused = format!("the counter cannot count {amount} more");
                        self.replies.push((asker, Err(refused)));
                        return Ok(());
                    };
                    standing.count = count;
                }
                if let Ask::Lend(amount, to, after) = ask {
                    standing.next += 1;
                    let number = standing.next;
                    standing.lent.insert(number, (amount, to));
                    let due = cx.now.saturating_add(Micros::new(after));
                    self.timers.push((timer(cx, due, number), TimerChange::Put));
                }
                if let Ask::Start(start) = &ask {
                    match cx.begin((**start).clone()) {
                        Ok(begun) => self.starts.push(begun),
                        Err(error) => {
                            self.replies.push((asker, Err(error.to_string())));
                            return Ok(());
                        }
                    }
                    self.standing(cx)?.count += 1;
                }
                let now = self.standing(cx)?.clone();
                self.replies.push((asker, Ok(now)));
                if ask == Ask::Read {
                    return Ok(());
                }
            }
            // A timer that fires twice finds no loan, and does nothing.
            Input::Due(timer) => {
                let number = timer.what.as_ref().try_into().map_or(0, u64::from_be_bytes);
                if let Some((amount, to)) = standing.lent.remove(&number) {
                    standing.passed_on += amount;
                    let message = Message { to: key(to), what: json(&amount) };
                    self.outgoing.push(message.into());
                }
                self.timers.push((timer, TimerChange::Delete));
            }
            Input::Message(amount) => {
                // Counters send nothing else.
                let amount: u64 = serde_json::from_slice(&amount).unwrap_or(0);
                standing.count += amount;
            }
            // It is never in the queue: everything that it has to do has a timer or a message.
            // It sends no requests.
            Input::Recover | Input::Report(..) => return Ok(()),
        }
        self.changed = Some(cx.key.clone());
        Ok(())
    }
}

fn timer(cx: &Context<'_>, due: indelible_journal::Timestamp, number: u64) -> RoomTimer {
    RoomTimer { due, key: cx.key.clone(), what: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("numbers are JSON").into()
}

impl RoomMachine for Counter {
    type Ask = Ask;
    type Answer = Answer;
}

impl Machine for Counter {
    type Context<'a> = Context<'a>;
    type Input = Input<Ask>;
    type Rows = RoomRows;
    type Timer = RoomTimer;
    type Outgoing = Outgoing;
    type Reply = Answer;
    type Event = Infallible;
    type Notice = String;

    fn handle(&mut self, cx: &Context<'_>, input: Input<Ask>) {
        if let Err(wrong) = self.handle(cx, input) {
            self.notices.push(wrong);
        }
    }

    fn changes(&mut self) -> Option<Changes<Self>> {
        let mut rows = Batch::in_slots(SlotSet::empty());
        if let (Some(key), Some(standing)) = (self.changed.take(), &self.standing) {
            rows.touch(key.slot());
            rows.put(COUNTERS, key.key, json(standing));
        } else if self.replies.is_empty() {
            return None;
        }
        Some(Changes {
            rows: RoomRows { batch: rows, starts: std::mem::take(&mut self.starts) },
            timers: std::mem::take(&mut self.timers),
            volatile_timers: Vec::new(),
            events: Vec::new(),
            replies: std::mem::take(&mut self.replies),
            outgoing: std::mem::take(&mut self.outgoing),
        })
    }

    fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    fn is_idle(&self) -> bool {
        self.changed.is_none() && self.replies.is_empty()
    }
}
