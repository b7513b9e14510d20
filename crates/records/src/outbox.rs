//! Messages from one slot to another (D13). A message is in the outbox of the sender's slot from
//! the commit that causes it until it is settled. It is marked as applied in the receiver's slot
//! from the commit that applies it until the receiver knows that it is settled.
//!
//! ```text
//! outbox    from (2) ‖ to (2)                 ->   settled (8), sealed
//! outbox    from (2) ‖ to (2) ‖ number (8)    ->   room (1) ‖ length of the key (2) ‖ key ‖ payload, sealed
//! applied   to (2) ‖ from (2)                 ->   settled (8), sealed
//! applied   to (2) ‖ from (2) ‖ number (8)    ->   empty
//! ```
//! A slot is its 12 bits and four zero bits. A channel is a sender's slot and a receiver's; numbers
//! rise within it. All numbers up to *settled* are over for ever: none of them is in the outbox,
//! and none will be given to another message. So the receiver can forget their marks and still
//! recognize them.

use std::ops::Bound;

use bytes::{BufMut as _, Bytes, BytesMut};
use indelible_slots::Slot;
use indelible_store::{Batch, Expect, Read, ReadError, Scan, Seen, Table};

use super::codec::{self, Malformed};
use super::{APPLIED, OUTBOX, Room};

const VERSION: u8 = 1;

/// How far the numbers of a channel may be ahead of the last settled one. This bounds the rows of a
/// channel on both sides: a sender with so many messages under way waits for acknowledgements.
pub const WINDOW: u64 = 1_024;

/// A pair of slots that messages go between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    /// The sender's slot.
    pub from: Slot,
    /// The receiver's slot.
    pub to: Slot,
}

/// Identifies a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The channel.
    pub channel: Channel,
    /// The message's number in the channel, from 1.
    pub number: u64,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The kind of machine that it is for.
    pub room: Room,
    /// The key of the machine. At most 64 KiB.
    pub key: Bytes,
    /// What the machine is told.
    pub payload: Bytes,
}

/// A row of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// All numbers up to this one are settled.
    Settled(Channel, u64),
    /// A message that is not settled.
    Message(MessageId),
}

/// The key of a channel, or of one of its messages: in the outbox the sender's slot is first, in
/// the table `applied` the receiver's.
fn key(first: Slot, second: Slot, number: Option<u64>) -> Bytes {
    let mut key = BytesMut::with_capacity(12);
    key.put_u16(first.get() << 4);
    key.put_u16(second.get() << 4);
    if let Some(number) = number {
        key.put_u64(number);
    }
    key.freeze()
}

/// With a number, the key is of a message; without, of the channel's own row.
impl Channel {
    fn in_outbox(self, number: impl Into<Option<u64>>) -> Bytes {
        key(self.from, self.to, number.into())
    }

    fn in_applied(self, number: impl Into<Option<u64>>) -> Bytes {
        key(self.to, self.from, number.into())
    }
}

/// Adds to a batch: this message is to be sent.
pub fn put(batch: &mut Batch, id: MessageId, message: &Message) {
    let mut body = BytesMut::with_capacity(3 + message.key.len() + message.payload.len());
    message.room.put(&mut body);
    body.put_u16(u16::try_from(message.key.len()).expect("keys of rooms are below 64 KiB"));
    body.put_slice(&message.key);
    body.put_slice(&message.payload);
    codec::put(batch, OUTBOX, id.channel.in_outbox(id.number), VERSION, &body);
}

/// A message that is not settled.
pub fn get(read: &impl Read, id: MessageId) -> Result<Seen<Option<Message>>, ReadError> {
    let key = id.channel.in_outbox(id.number);
    codec::get(read, OUTBOX, &key, |value| decode_message(&key, value))
}

/// Adds to a batch: all numbers of a channel up to this one are settled, and these were messages.
pub fn settle(batch: &mut Batch, channel: Channel, settled: u64, messages: &[u64]) {
    for number in messages {
        batch.delete(OUTBOX, channel.in_outbox(*number));
    }
    codec::put(batch, OUTBOX, channel.in_outbox(None), VERSION, &settled.to_be_bytes());
}

/// Rows of the outbox after `after`, at most `limit`.
pub fn next(
    read: &impl Read,
    after: Option<Row>,
    limit: usize,
) -> Result<Seen<Vec<Row>>, ReadError> {
    let scan = Scan::all(OUTBOX, limit);
    let scan = match after {
        None => scan,
        Some(Row::Settled(channel, _)) => scan.after(channel.in_outbox(None)),
        Some(Row::Message(id)) => scan.after(id.channel.in_outbox(id.number)),
    };
    codec::scan(read, &scan, decode)
}

/// The last settled number of a channel, as its receiver knows it.
pub fn settled_at_receiver(read: &impl Read, channel: Channel) -> Result<Seen<u64>, ReadError> {
    let key = channel.in_applied(None);
    let settled = codec::get(read, APPLIED, &key, |value| read_settled(APPLIED, &key, value))?;
    Ok(settled.map(Option::unwrap_or_default))
}

/// Whether a message that is not settled was applied.
pub fn is_applied(read: &impl Read, id: MessageId) -> Result<Seen<bool>, ReadError> {
    Ok(read.get(APPLIED, &id.channel.in_applied(id.number))?.map(|value| value.is_some()))
}

/// Adds to a batch: it applies this message. The store refuses the batch if the message was applied
/// before; or if the receiver has learned since `settled` was read that more is settled, because
/// the message's mark may be deleted then.
pub fn apply(batch: &mut Batch, id: MessageId, settled: u64) {
    expect_settled(batch, id.channel, settled);
    batch.expect(APPLIED, id.channel.in_applied(id.number), Expect::Absent);
    batch.put(APPLIED, id.channel.in_applied(id.number), Bytes::new());
}

/// Adds to a batch: the receiver knows that all numbers up to `now` are settled, and forgets their
/// marks. The store refuses the batch if the last settled number is not `before`.
pub fn forget(
    read: &impl Read,
    batch: &mut Batch,
    channel: Channel,
    before: u64,
    now: u64,
) -> Result<(), ReadError> {
    // At most a window of marks: each message carries the last settled number.
    let mut scan = Scan::all(APPLIED, WINDOW as usize);
    let last = channel.in_applied(now);
    scan.range = (Bound::Excluded(channel.in_applied(None)), Bound::Included(last));
    for (key, _) in read.scan(&scan)?.value.rows {
        batch.delete(APPLIED, key);
    }
    expect_settled(batch, channel, before);
    codec::put(batch, APPLIED, channel.in_applied(None), VERSION, &now.to_be_bytes());
    Ok(())
}

fn expect_settled(batch: &mut Batch, channel: Channel, settled: u64) {
    let key = channel.in_applied(None);
    let expect = match settled {
        0 => Expect::Absent,
        _ => Expect::Equal(codec::seal(&APPLIED, &key, VERSION, &settled.to_be_bytes())),
    };
    batch.expect(APPLIED, key, expect);
}

fn read_settled(table: Table, key: &Bytes, value: &Bytes) -> Result<u64, ReadError> {
    let body = codec::unseal(&table, key, VERSION, value)?;
    codec::parse(&table, key, &body, |reader| Ok(u64::from_be_bytes(reader.array()?)))
}

/// The two slots of a key, and the number if it has one.
fn read_key(table: Table, key: &Bytes) -> Result<(Slot, Slot, Option<u64>), ReadError> {
    codec::parse(&table, key, key, |reader| {
        let mut slot = || {
            let bits = reader.u16()?;
            let slot = Slot::new(bits >> 4).filter(|_| bits & 0xf == 0);
            slot.ok_or(Malformed("a slot is invalid"))
        };
        let (first, second) = (slot()?, slot()?);
        let number = if reader.0.is_empty() { None } else { Some(reader.u64()?) };
        if number == Some(0) {
            return Err(Malformed("a number is 0"));
        }
        Ok((first, second, number))
    })
}

fn decode(key: &Bytes, value: &Bytes) -> Result<Row, ReadError> {
    let (from, to, number) = read_key(OUTBOX, key)?;
    let channel = Channel { from, to };
    match number {
        None => Ok(Row::Settled(channel, read_settled(OUTBOX, key, value)?)),
        Some(number) => Ok(Row::Message(MessageId { channel, number })),
    }
}

fn decode_message(key: &Bytes, value: &Bytes) -> Result<Message, ReadError> {
    let body = codec::unseal(&OUTBOX, key, VERSION, value)?;
    codec::parse(&OUTBOX, key, &body, |reader| {
        let room = Room::read(reader)?.ok_or(Malformed(super::room::UNKNOWN_ROOM))?;
        let length = usize::from(reader.u16()?);
        let key = Bytes::copy_from_slice(reader.take(length)?);
        Ok(Message { room, key, payload: Bytes::copy_from_slice(reader.rest()) })
    })
}

/// What is wrong with a row of one of the two tables.
pub(crate) fn check(
    read: &impl Read,
    table: Table,
    key: &Bytes,
    value: &Bytes,
) -> Result<(), ReadError> {
    let (_, _, number) = read_key(table, key)?;
    let Some(number) = number else { return read_settled(table, key, value).map(drop) };
    if table == OUTBOX {
        decode_message(key, value)?;
    } else if !value.is_empty() {
        return Err(codec::damaged(&table, key, "its value is not empty"));
    }
    let channel = key.slice(..4);
    let settled = read.get(table, &channel)?.value;
    let settled = settled.map_or(Ok(0), |value| read_settled(table, &channel, &value));
    // The settled row has its own check if it cannot be read.
    if settled.is_ok_and(|settled| number <= settled) {
        return Err(codec::damaged(&table, key, "it is settled but was not deleted"));
    }
    Ok(())
}
