//! A desk of a post office: an endpoint with what waits for it. All of it is made again from rows.

use std::collections::{BTreeSet, HashMap};

use indelible_delivery::breaker::Admission;
use indelible_delivery::pace::Pace;
use indelible_delivery::{EndpointState, LaneKey};
use indelible_journal::Timestamp;
use indelible_records::delivery::{MessageNumber, StoredEndpoint};

/// An endpoint in memory.
pub(super) struct Desk {
    pub(super) stored: StoredEndpoint,
    pub(super) pace: Pace,
    /// Deliveries that may be sent, in the order of their messages.
    pub(super) queued: BTreeSet<MessageNumber>,
    /// How many attempts are under way.
    pub(super) sending: usize,
    lanes: HashMap<LaneKey, Lane>,
    /// How many deliveries wait behind the heads of their lanes.
    behind: usize,
}

/// The deliveries of a lane that are not over.
struct Lane {
    /// The one that is queued, being sent, waiting or a dead letter that blocks the lane.
    head: MessageNumber,
    behind: BTreeSet<MessageNumber>,
}

/// Whether the next delivery may be sent.
pub(super) enum Turn {
    /// It may.
    Begin(MessageNumber),
    /// Nothing is to be sent, or the endpoint takes nothing until an attempt has ended.
    Nothing,
    /// The endpoint takes nothing before this time.
    Pause(Timestamp),
}

impl Desk {
    pub(super) fn new(stored: StoredEndpoint) -> Self {
        Self {
            stored,
            pace: Pace::default(),
            queued: BTreeSet::new(),
            sending: 0,
            lanes: HashMap::new(),
            behind: 0,
        }
    }

    /// How many deliveries wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.queued.len() + self.behind
    }

    /// Whether nothing of it has to stay in memory.
    pub(super) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.sending == 0 && self.lanes.is_empty()
    }

    /// The heads of all lanes, in the order of their messages.
    pub(super) fn heads(&self) -> BTreeSet<MessageNumber> {
        self.lanes.values().map(|lane| lane.head).collect()
    }

    /// A delivery joins its lane. True: it is the head, and may be queued.
    pub(super) fn join(&mut self, lane: &LaneKey, number: MessageNumber) -> bool {
        match self.lanes.get_mut(lane) {
            Some(lane) if lane.head == number => true,
            Some(lane) => {
                self.behind += usize::from(lane.behind.insert(number));
                false
            }
            None => {
                let new = Lane { head: number, behind: BTreeSet::new() };
                self.lanes.insert(lane.clone(), new);
                true
            }
        }
    }

    /// A delivery leaves its lane: the one that is the head from now on, if the head has changed.
    pub(super) fn leave(&mut self, lane: &LaneKey, number: MessageNumber) -> Option<MessageNumber> {
        let known = self.lanes.get_mut(lane)?;
        if known.head != number {
            self.behind -= usize::from(known.behind.remove(&number));
            return None;
        }
        match known.behind.pop_first() {
            Some(next) => {
                self.behind -= 1;
                known.head = next;
                Some(next)
            }
            None => {
                self.lanes.remove(lane);
                None
            }
        }
    }

    /// What is next, at this time. The turn is taken: the rate and the breaker have counted it.
    pub(super) fn turn(&mut self, now: Timestamp) -> Turn {
        let Some(number) = self.queued.first().copied() else { return Turn::Nothing };
        let endpoint = &self.stored.endpoint;
        if self.stored.deleted {
            return Turn::Begin(number);
        }
        if endpoint.state != EndpointState::Enabled
            || self.sending >= endpoint.in_flight_max.get() as usize
        {
            return Turn::Nothing;
        }
        if let Some(until) = self.stored.paused_until
            && now < until
        {
            return Turn::Pause(until);
        }
        // The breaker counts a trial as begun, so it is asked for good only when nothing else can
        // refuse.
        let mut breaker = self.stored.breaker.clone();
        match breaker.admit(now) {
            Admission::Wait(until) => return Turn::Pause(until),
            Admission::Attempt | Admission::Trial => {}
        }
        if let Some(rate) = endpoint.rate
            && let Err(until) = self.pace.admit(now, rate)
        {
            return Turn::Pause(until);
        }
        self.stored.breaker = breaker;
        Turn::Begin(number)
    }
}
