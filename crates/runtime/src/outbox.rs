//! The outbox (D13): messages between slots that no single batch may touch, each applied once.
//!
//! A message takes five steps. Each may be lost, repeated, late or out of order, with a crash
//! between any two:
//! 1. The sender's commit holds the cause of the message and its row ([`Outbox::write`]).
//! 2. When that is durable, the message leaves, again and again, with the last settled number of
//!    its channel ([`Outbox::flush`]). The row survives a crash, so the message is not lost.
//! 3. The receiver's commit holds the changes that the message causes and a mark of its number
//!    ([`receive`]). Its precondition is that there is no mark and the number is not settled, so
//!    the message is not applied twice.
//! 4. When that is durable, an acknowledgement leaves ([`Outbox::acknowledged`]).
//! 5. The sender deletes rows and raises the settled number over them in one commit
//!    ([`Outbox::settle`]). When that is durable, the receiver is told, and deletes its marks.
//!
//! Three orders matter:
//! - Rows are deleted from the front only. If message 5's row went while message 3's is still
//!   there, a restarted sender would give out 4 and 5 again, and the new message 5 would be taken
//!   for the old one and lost.
//! - A settled number is told only when it is durable. It may have passed over a number that was
//!   given out and never written; if the settled number were lost, that number would be given out
//!   again, and its new message taken for settled and lost.
//! - A mark is deleted when its number is settled, and applying has the settled number that was
//!   read as a precondition. So a copy of a message that was read before its mark was deleted, and
//!   is committed after, is refused.

use std::collections::BTreeMap;
use std::sync::Mutex;

use indelible_records::outbox::{self, Channel, Message, MessageId, Row, WINDOW};
use indelible_store::{Batch, Position, Read, ReadError, Store};

use crate::engine::EngineError;
use crate::shared::lock;

/// How many rows are read at a time when an outbox is opened.
const PAGE: usize = 256;

/// What a sender tells a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// From which slot to which.
    pub channel: Channel,
    /// All numbers of the channel up to this one are settled, durably.
    pub settled: u64,
    /// A message and its number; none: there is only `settled` to tell.
    pub message: Option<(u64, Message)>,
}

/// The state of one number of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberState {
    /// It was given out, and its batch is not accepted yet.
    Assigned,
    /// The batch was given up. Whether it had been accepted, only the store knows.
    Dropped,
    /// Its row is accepted at this position; it may leave when that is durable.
    Written { at: Position, sent: bool },
    /// The receiver has applied it, durably.
    Acknowledged,
}

/// The numbers of a channel, as its sender knows them. Pure.
#[derive(Debug, Default)]
struct ChannelNumbers {
    /// All up to this one are settled, durably.
    settled: u64,
    /// All up to this one are settled when this position is durable.
    settling: Option<(u64, Position)>,
    /// The settled number that the receiver was last told.
    told: u64,
    /// The last number that was given out.
    last: u64,
    /// The numbers above `settled` that may have rows. Missing ones were never written.
    open: BTreeMap<u64, NumberState>,
}

impl ChannelNumbers {
    /// The next number; none while the window is full.
    fn assign(&mut self) -> Option<u64> {
        if self.last - self.settled >= WINDOW {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, NumberState::Assigned);
        Some(self.last)
    }

    /// A row of this number is stored.
    fn recover(&mut self, number: u64, at: Position) {
        self.last = self.last.max(number);
        self.open.insert(number, NumberState::Written { at, sent: false });
    }

    fn recover_settled(&mut self, settled: u64) {
        self.settled = settled;
        self.last = self.last.max(settled);
    }

    fn acknowledge(&mut self, number: u64) {
        if let Some(standing @ NumberState::Written { .. }) = self.open.get_mut(&number) {
            *standing = NumberState::Acknowledged;
        }
    }

    /// Takes note of what is durable now.
    fn advance(&mut self, durable: Position) {
        if let Some((settled, at)) = self.settling
            && at <= durable
        {
            (self.settled, self.settling) = (settled, None);
        }
    }

    /// The numbers whose messages may leave now and have not.
    fn leave(&mut self, durable: Position) -> Vec<u64> {
        let mut leaving = Vec::new();
        for (number, standing) in &mut self.open {
            if let NumberState::Written { at, sent: sent @ false } = standing
                && *at <= durable
            {
                *sent = true;
                leaving.push(*number);
            }
        }
        leaving
    }

    /// The number up to which all are over, and those that have rows; none if it is settled
    /// already.
    fn settleable(&self) -> Option<(u64, Vec<u64>)> {
        let over = |standing: &NumberState| *standing == NumberState::Acknowledged;
        let first_open = self.open.iter().find(|(_, standing)| !over(standing));
        let upto = first_open.map_or(self.last, |(number, _)| number - 1);
        if self.settling.is_some() || upto == self.settled {
            return None;
        }
        Some((upto, self.open.range(..=upto).map(|(number, _)| *number).collect()))
    }

    fn settle(&mut self, upto: u64, at: Position) {
        self.open = self.open.split_off(&(upto + 1));
        self.settling = Some((upto, at));
    }
}

/// The messages that leave the slots of this node.
#[derive(Debug)]
pub struct Outbox {
    store: Store,
    channels: Mutex<BTreeMap<Channel, ChannelNumbers>>,
}

/// As many messages of a channel are under way as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{WINDOW} messages to slot {} wait for their acknowledgement", .0.to)]
pub struct ChannelFull(pub Channel);

/// A message in a batch that is not accepted yet. Dropping it says that the batch was given up.
#[derive(Debug)]
#[must_use = "an accepted message leaves only if the outbox is told"]
pub struct UnsentMessage<'a> {
    outbox: &'a Outbox,
    id: MessageId,
}

impl UnsentMessage<'_> {
    /// The batch was accepted at this position.
    pub fn accepted(self, at: Position) {
        self.stands(NumberState::Written { at, sent: false });
    }

    fn stands(&self, now: NumberState) {
        let mut channels = lock(&self.outbox.channels);
        let numbers = channels.get_mut(&self.id.channel);
        let standing = numbers.and_then(|numbers| numbers.open.get_mut(&self.id.number));
        if let Some(standing @ NumberState::Assigned) = standing {
            *standing = now;
        }
    }
}

impl Drop for UnsentMessage<'_> {
    fn drop(&mut self) {
        self.stands(NumberState::Dropped);
    }
}

impl Outbox {
    /// The outbox of a store. Messages that another process left in it are sent again.
    pub fn open(store: Store) -> Result<Self, ReadError> {
        let mut channels = BTreeMap::<Channel, ChannelNumbers>::new();
        let mut last = None;
        loop {
            let page = outbox::next(&store, last, PAGE)?;
            last = page.value.last().copied();
            for row in page.value {
                match row {
                    Row::Settled(channel, settled) => {
                        channels.entry(channel).or_default().recover_settled(settled);
                    }
                    Row::Message(id) => {
                        channels.entry(id.channel).or_default().recover(id.number, page.position);
                    }
                }
            }
            if last.is_none() {
                return Ok(Self { store, channels: Mutex::new(channels) });
            }
        }
    }

    /// Adds a message to the batch of its cause.
    pub fn write(
        &self,
        batch: &mut Batch,
        channel: Channel,
        message: &Message,
    ) -> Result<UnsentMessage<'_>, ChannelFull> {
        let mut channels = lock(&self.channels);
        let number = channels.entry(channel).or_default().assign().ok_or(ChannelFull(channel))?;
        let id = MessageId { channel, number };
        batch.touch(channel.from);
        outbox::put(batch, id, message);
        Ok(UnsentMessage { outbox: self, id })
    }

    /// Sends messages whose rows are durable, and settled numbers, unless they were sent before;
    /// returns how many. A message whose row is damaged stays; the store has noted it.
    pub fn flush(&self, send: &mut dyn FnMut(Delivery)) -> Result<usize, ReadError> {
        let durable = self.store.durable_now();
        let mut leaving = Vec::new();
        for (channel, numbers) in lock(&self.channels).iter_mut() {
            numbers.advance(durable);
            let messages = numbers.leave(durable);
            if !messages.is_empty() || numbers.told < numbers.settled {
                numbers.told = numbers.settled;
                leaving.push((*channel, numbers.settled, messages));
            }
        }
        let mut count = 0;
        for (channel, settled, messages) in leaving {
            if messages.is_empty() {
                send(Delivery { channel, settled, message: None });
                count += 1;
            }
            for number in messages {
                let message = match outbox::get(&self.store, MessageId { channel, number }) {
                    Ok(seen) => seen.value,
                    Err(error) if error.is_damage() => None,
                    Err(error) => return Err(error),
                };
                // It may have been acknowledged and settled meanwhile.
                let Some(message) = message else { continue };
                send(Delivery { channel, settled, message: Some((number, message)) });
                count += 1;
            }
        }
        Ok(count)
    }

    /// Lets everything without an acknowledgement leave again with the next [`Outbox::flush`], and
    /// settled numbers too: for when an answer has not come for a while.
    pub fn send_again(&self) {
        for numbers in lock(&self.channels).values_mut() {
            numbers.told = 0;
            for standing in numbers.open.values_mut() {
                if let NumberState::Written { sent, .. } = standing {
                    *sent = false;
                }
            }
        }
    }

    /// The receiver could not apply the settled number: it is told again.
    pub fn tell_again(&self, channel: Channel) {
        if let Some(numbers) = lock(&self.channels).get_mut(&channel) {
            numbers.told = 0;
        }
    }

    /// The receiver has applied a message, durably.
    pub fn acknowledged(&self, id: MessageId) {
        if let Some(numbers) = lock(&self.channels).get_mut(&id.channel) {
            numbers.acknowledge(id.number);
        }
    }

    /// Deletes rows that are over, in a commit for each channel; returns for how many channels. An
    /// error leaves the rest for the next time.
    pub fn settle(&self) -> Result<usize, EngineError> {
        let mut count = 0;
        let durable = self.store.durable_now();
        // The lock is held until acceptance: no number may be given out or settled in between.
        for (channel, numbers) in lock(&self.channels).iter_mut() {
            numbers.advance(durable);
            let dropped = numbers.open.iter().filter(|(_, one)| **one == NumberState::Dropped);
            let dropped: Vec<_> = dropped.map(|(number, _)| *number).collect();
            for number in dropped {
                // The batch of a caller that went away may have been accepted all the same.
                let seen = match outbox::get(&self.store, MessageId { channel: *channel, number }) {
                    // The number stays, and blocks its own channel alone; the store has noted the
                    // damage.
                    Err(error) if error.is_damage() => continue,
                    seen => seen?,
                };
                numbers.open.remove(&number);
                if seen.value.is_some() {
                    numbers.recover(number, seen.position);
                }
            }
            let Some((upto, messages)) = numbers.settleable() else { continue };
            let mut batch = Batch::in_slots(channel.from);
            outbox::settle(&mut batch, *channel, upto, &messages);
            numbers.settle(upto, self.store.try_submit(batch)?);
            count += 1;
        }
        Ok(count)
    }
}

/// What the receiver of a delivery has to do.
#[derive(Debug)]
pub enum DeliveryUse {
    /// The message is new: the receiver adds the changes that it causes to this batch and submits
    /// it. When that is durable, the acknowledgement leaves. If it is refused, the delivery is
    /// looked at again.
    Fresh(Batch),
    /// The message was applied before: the acknowledgement leaves when this position is durable.
    Prior(Position),
    /// There is no message, and the settled number is new: this batch deletes the marks. If it is
    /// refused, the delivery is looked at again, or dropped: it only cleans up.
    Settled(Batch),
    /// There is no message, and nothing new.
    Nothing,
}

/// Decides what to do with a delivery.
pub fn receive(read: &impl Read, delivery: &Delivery) -> Result<DeliveryUse, ReadError> {
    let channel = delivery.channel;
    let known = outbox::settled_at_receiver(read, channel)?;
    let (before, news) = (known.value, delivery.settled > known.value);
    let mut batch = Batch::in_slots(channel.to);
    let Some((number, _)) = delivery.message else {
        if !news {
            return Ok(DeliveryUse::Nothing);
        }
        outbox::forget(read, &mut batch, channel, before, delivery.settled)?;
        return Ok(DeliveryUse::Settled(batch));
    };
    if number <= before {
        return Ok(DeliveryUse::Prior(known.position));
    }
    let id = MessageId { channel, number };
    let applied = outbox::is_applied(read, id)?;
    if applied.value {
        return Ok(DeliveryUse::Prior(applied.position));
    }
    outbox::apply(&mut batch, id, before);
    if news {
        outbox::forget(read, &mut batch, channel, before, delivery.settled)?;
    }
    Ok(DeliveryUse::Fresh(batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D13: numbers are settled from the front, over those that were never written, and only when
    /// that is durable; a restart knows every number that can matter.
    #[test]
    fn numbers_are_settled_from_the_front() {
        let (now, later) = (Position::new(1), Position::new(2));
        let written = NumberState::Written { at: now, sent: false };
        let mut numbers = ChannelNumbers::default();
        assert_eq!(
            (numbers.assign(), numbers.assign(), numbers.assign()),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!(numbers.settleable(), None, "none is over");
        numbers.open.insert(1, written);
        numbers.open.insert(3, written);
        assert_eq!(numbers.leave(Position::START), [0; 0], "not before it is durable");
        assert_eq!((numbers.leave(now), numbers.leave(now)), (vec![1, 3], vec![]));
        numbers.acknowledge(3);
        numbers.acknowledge(9);
        assert_eq!(numbers.settleable(), None, "1 is there");
        numbers.acknowledge(1);
        assert_eq!(numbers.settleable(), Some((1, vec![1])), "2 may still be written");
        numbers.open.remove(&2);
        assert_eq!(numbers.settleable(), Some((3, vec![1, 3])));
        numbers.settle(3, later);
        assert_eq!((numbers.settleable(), numbers.assign()), (None, Some(4)));
        numbers.advance(now);
        assert_eq!(numbers.settled, 0, "it is not durable");
        numbers.advance(later);
        assert_eq!(numbers.settled, 3);

        let mut restarted = ChannelNumbers::default();
        restarted.recover(7, now);
        restarted.recover_settled(5);
        assert_eq!((restarted.assign(), restarted.settleable()), (Some(8), Some((6, vec![]))));
        let mut over = ChannelNumbers::default();
        over.recover_settled(5);
        assert_eq!(over.assign(), Some(6));
        let left = (0..).take_while(|_| over.assign().is_some()).count() as u64;
        assert_eq!(left, WINDOW - 1);
    }
}
