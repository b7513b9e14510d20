//! Lanes: messages of one lane key are sent to an endpoint one at a time, in their order.
//!
//! A lane is the list of its deliveries that are not over. Only its head can be sent, so all that
//! decides is the state of the head.

use indelible_journal::Timestamp;

use crate::delivery::State;

/// What a dead letter does to the messages behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LanePolicy {
    /// They wait until it is decided.
    Block,
    /// They overtake it. If it is sent again, it comes after them.
    Skip,
}

/// What a lane does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Its head may begin an attempt.
    Begin,
    /// Its head is being sent.
    Busy,
    /// Its head waits until then.
    Wait(Timestamp),
    /// Its head is a dead letter that is not decided.
    Blocked,
    /// Its head is over: remove it, and ask again with the next.
    Advance,
}

/// What the lane does whose head is in this state.
pub fn turn(policy: LanePolicy, head: &State) -> Turn {
    match head {
        State::Queued => Turn::Begin,
        State::Sending { .. } => Turn::Busy,
        State::Waiting { until, .. } => Turn::Wait(*until),
        State::Dead { .. } if policy == LanePolicy::Block => Turn::Blocked,
        State::Dead { .. }
        | State::Delivered { .. }
        | State::Reissued { .. }
        | State::Abandoned { .. }
        | State::Ended { .. } => Turn::Advance,
    }
}
