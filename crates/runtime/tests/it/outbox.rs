//! Messages between slots are applied once (D13): counters in three slots, on two nodes with a store
//! each, send each other amounts. Messages and acknowledgements are lost, repeated, late and out of
//! order, nodes crash, batches are refused and given up; what all counters have together, with what is
//! on its way, never changes, and when all is done nothing is left on either side.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use bytes::Bytes;
use indelible_records::outbox::{self as rows, Channel, Message, MessageId, Row, WINDOW};
use indelible_records::{APPLIED, OUTBOX, Room, TABLES, check};
use indelible_runtime::outbox::{ChannelFull, Delivery, DeliveryUse, Outbox, receive};
use indelible_sim::Rng;
use indelible_slots::Slot;
use indelible_store::{
    Batch, Bounds, Expect, Position, Scan, Shape, Store, SubmitError, Table, backend,
};

use crate::support::disk::Disk;

/// Balances, by slot.
const COUNTERS: Table = Table::new(40, "counters", Shape::Churn).with_slots(Slot::at_start_of);

/// The key of a slot's balance, whose first 12 bits are the slot.
fn key_of(slot: Slot) -> Vec<u8> {
    (slot.get() << 4).to_be_bytes().to_vec()
}

/// The slots with their nodes: two share a node, so that both ways are taken.
const SLOTS: [(u16, usize); 3] = [(0, 0), (0xfff, 0), (7, 1)];
const NODES: usize = 2;
const EACH: u64 = 1_000;

enum Wire {
    Delivery(Delivery),
    Acknowledgement(MessageId),
}

/// A process: all but the disk goes when it crashes.
struct Node {
    disk: Arc<Disk>,
    store: Store,
    outbox: Outbox,
    /// Batches that were made and are not submitted, the message that each applies, and its amount.
    prepared: Vec<(Option<(MessageId, u64)>, Batch)>,
    /// What may be acknowledged, and when.
    applied: Vec<(MessageId, Position)>,
}

fn open(disk: &Arc<Disk>) -> (Store, Outbox) {
    let tables = [&TABLES[..], &[COUNTERS]].concat();
    let engine = Arc::clone(disk) as Arc<dyn backend::Backend>;
    let store = Store::start_by_hand(engine, &tables, Bounds::DEFAULT).unwrap();
    let outbox = Outbox::open(store.clone()).unwrap();
    (store, outbox)
}

impl Node {
    fn new() -> Self {
        let disk = Arc::new(Disk::new());
        let (store, outbox) = open(&disk);
        Self { disk, store, outbox, prepared: Vec::new(), applied: Vec::new() }
    }

    fn crash(&mut self) {
        self.disk.die_now();
        self.prepared.clear();
        self.applied.clear();
        // What was accepted is not committed on the way out: the disk is dead.
        let (store, outbox) = open(&Arc::new(Disk::new()));
        (self.store, self.outbox) = (store, outbox);
        self.disk.revive();
        (self.store, self.outbox) = open(&self.disk);
    }

    /// The disk does something; if it dies of it, so does the process.
    fn step(&mut self) -> bool {
        let stepped = self.store.step();
        if self.store.poison().is_some() {
            self.crash();
        }
        stepped
    }

    fn balance(&self, slot: Slot) -> Option<u64> {
        let value = self.store.get(COUNTERS, &key_of(slot)).unwrap().value?;
        Some(u64::from_be_bytes(value[..].try_into().unwrap()))
    }

    /// Adds to a batch: the balance changes from what it is now.
    fn change(&self, batch: &mut Batch, slot: Slot, change: impl FnOnce(u64) -> u64) {
        let key = key_of(slot);
        let before = self.balance(slot);
        let expect = before.map(|before| Bytes::copy_from_slice(&before.to_be_bytes()));
        batch.expect(COUNTERS, key.clone(), expect.map_or(Expect::Absent, Expect::Equal));
        let after = change(before.unwrap_or(EACH));
        batch.put(COUNTERS, key, after.to_be_bytes().to_vec());
    }
}

struct World {
    rng: Rng,
    nodes: Vec<Node>,
    network: Vec<Wire>,
}

fn slot(index: usize) -> Slot {
    Slot::new(SLOTS[index].0).unwrap()
}

fn node_of(slot: Slot) -> usize {
    SLOTS.iter().find(|(number, _)| *number == slot.get()).unwrap().1
}

fn amount(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload[..].try_into().unwrap())
}

impl World {
    fn new(seed: u64) -> Self {
        let nodes = (0..NODES).map(|_| Node::new()).collect();
        Self { rng: Rng::new(seed), nodes, network: Vec::new() }
    }

    fn send(&mut self) {
        let from = self.rng.below(3) as usize;
        let to = (from + 1 + self.rng.below(2) as usize) % 3;
        let (channel, cents) =
            (Channel { from: slot(from), to: slot(to) }, self.rng.between(1, 40));
        let fate = self.rng.below(10);
        let node = &self.nodes[node_of(channel.from)];
        if node.balance(channel.from).unwrap_or(EACH) < cents {
            return;
        }
        let mut batch = Batch::in_slots(channel.from);
        node.change(&mut batch, channel.from, |before| before - cents);
        let key = key_of(channel.to).into();
        let payload = Bytes::copy_from_slice(&cents.to_be_bytes());
        let message = Message { room: Room::Tree, key, payload };
        let unsent = node.outbox.write(&mut batch, channel, &message).unwrap();
        match fate {
            // Given up.
            0 => drop(unsent),
            // Refused.
            1 => {
                batch.expect(COUNTERS, key_of(channel.from), Expect::Equal(Bytes::new()));
                assert!(matches!(node.store.try_submit(batch), Err(SubmitError::Refused(_))));
            }
            // Accepted, and its sender went away before it said so.
            2 => _ = node.store.try_submit(batch).unwrap(),
            _ => unsent.accepted(node.store.try_submit(batch).unwrap()),
        }
    }

    fn flush(&mut self, node: usize) {
        let network = &mut self.network;
        self.nodes[node].outbox.flush(&mut |one| network.push(Wire::Delivery(one))).unwrap();
        let Node { store, applied, .. } = &mut self.nodes[node];
        let durable = store.durable_now();
        let ready = applied.extract_if(.., |(_, at)| *at <= durable);
        self.network.extend(ready.map(|(id, _)| Wire::Acknowledgement(id)));
    }

    fn arrive(&mut self, wire: &Wire) {
        match wire {
            Wire::Acknowledgement(id) => {
                self.nodes[node_of(id.channel.from)].outbox.acknowledged(*id);
            }
            Wire::Delivery(delivery) => {
                let node = &mut self.nodes[node_of(delivery.channel.to)];
                let channel = delivery.channel;
                let id = delivery.message.as_ref().map(|(number, message)| {
                    (MessageId { channel, number: *number }, amount(message))
                });
                match (receive(&node.store, delivery).unwrap(), id) {
                    (DeliveryUse::Fresh(batch), Some(id)) => node.prepared.push((Some(id), batch)),
                    (DeliveryUse::Prior(at), Some((id, _))) => node.applied.push((id, at)),
                    (DeliveryUse::Settled(batch), None) => node.prepared.push((None, batch)),
                    (DeliveryUse::Nothing, None) => {}
                    (other, _) => panic!("{other:?}"),
                }
            }
        }
    }

    /// Submits one of the batches that were made, which may be too old by now.
    fn submit(&mut self, node: usize) {
        let count = self.nodes[node].prepared.len() as u64;
        if count == 0 {
            return;
        }
        let index = self.rng.below(count) as usize;
        let node = &mut self.nodes[node];
        let (id, mut batch) = node.prepared.swap_remove(index);
        if let Some((id, cents)) = id {
            // By the balance of now: nothing but the outbox's own conditions refuses it.
            node.change(&mut batch, id.channel.to, |before| before + cents);
        }
        match node.store.submit_blocking(batch) {
            Ok(at) => node.applied.extend(id.map(|(id, _)| (id, at))),
            // It comes again.
            Err(SubmitError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn act(&mut self, crashes: bool) {
        let node = self.rng.below(NODES as u64) as usize;
        match self.rng.below(100) {
            0..20 => self.send(),
            20..40 => _ = self.nodes[node].step(),
            40..55 => self.flush(node),
            55..75 if !self.network.is_empty() => {
                let index = self.rng.below(self.network.len() as u64) as usize;
                let wire = self.network.swap_remove(index);
                if self.rng.percent(80) {
                    self.arrive(&wire);
                }
                if self.rng.percent(30) {
                    self.network.push(wire);
                }
            }
            75..88 => self.submit(node),
            88..94 => drop(self.nodes[node].outbox.settle().unwrap()),
            94..97 => self.nodes[node].outbox.send_again(),
            97..99 if crashes => self.nodes[node].crash(),
            _ => {}
        }
    }

    fn outbox_rows(&self) -> Vec<MessageId> {
        let rows = |node: &Node| rows::next(&node.store, None, 10_000).unwrap().value;
        let all = self.nodes.iter().flat_map(rows);
        all.filter_map(|row| if let Row::Message(id) = row { Some(id) } else { None }).collect()
    }

    /// What the counters have, and what is on its way to them.
    fn sum(&self) -> u64 {
        let balance = |index: usize| self.nodes[SLOTS[index].1].balance(slot(index));
        let balances: u64 = (0..3).map(|index| balance(index).unwrap_or(EACH)).sum();
        let on_its_way = self.outbox_rows().into_iter().filter(|id| {
            let receiver = &self.nodes[node_of(id.channel.to)].store;
            let settled = rows::settled_at_receiver(receiver, id.channel).unwrap().value;
            id.number > settled && !rows::is_applied(receiver, *id).unwrap().value
        });
        let message = |id: MessageId| {
            rows::get(&self.nodes[node_of(id.channel.from)].store, id).unwrap().value.unwrap()
        };
        balances + on_its_way.map(|id| amount(&message(id))).sum::<u64>()
    }

    /// Nothing is lost any more, and everything comes to its end.
    fn heal(&mut self) {
        for round in 0.. {
            assert!(round < 50, "it never comes to rest");
            for node in 0..NODES {
                self.nodes[node].outbox.send_again();
                while self.nodes[node].step() {}
                self.flush(node);
            }
            for wire in std::mem::take(&mut self.network) {
                self.arrive(&wire);
                for node in 0..NODES {
                    self.submit(node);
                }
            }
            for node in &mut self.nodes {
                while node.step() {}
                node.outbox.settle().unwrap();
            }
            let marks = |node: &Node| {
                let marks = node.store.scan(&Scan::all(APPLIED, 10_000)).unwrap().value.rows;
                marks.into_iter().any(|(key, _)| key.len() > 4)
            };
            if self.outbox_rows().is_empty() && !self.nodes.iter().any(marks) {
                return;
            }
        }
    }

    fn run(&mut self, steps: usize, crashes: bool) {
        for step in 0..steps {
            self.act(crashes);
            assert_eq!(self.sum(), 3 * EACH, "step {step}");
        }
        self.heal();
        assert_eq!(self.sum(), 3 * EACH);
        assert_eq!(self.outbox_rows(), []);
        for node in &self.nodes {
            let findings = check::check(&node.store, &mut |_| {}).unwrap();
            assert!(findings.problems.is_empty(), "{:?}", findings.problems);
        }
    }
}

/// D13: from a seed, everything that can happen to a message: the sum is the same after every step,
/// and when all is done no message and no mark is left.
#[test]
fn amounts_are_conserved() {
    for seed in 0..400 {
        let told = std::panic::catch_unwind(|| World::new(seed).run(600, true));
        assert!(told.is_ok(), "seed {seed}");
    }
}

/// D13: a crash at every single commit of each node, with what the disk has not taken lost.
#[test]
fn a_crash_at_every_commit() {
    let mut crashes = 0;
    for seed in 0..8 {
        for node in 0..NODES {
            let mut undisturbed = World::new(seed);
            undisturbed.run(300, false);
            for commits in 0..undisturbed.nodes[node].disk.taken() {
                let mut world = World::new(seed);
                world.nodes[node].disk.dies_after(commits);
                world.run(300, false);
                crashes += 1;
            }
        }
    }
    assert!(crashes > 200, "{crashes}");
}

/// A channel takes a window of messages that are not settled, also after a restart, and more when they
/// are; the others are not held up.
#[test]
fn the_window_is_a_bound() {
    let mut world = World::new(1);
    let channel = Channel { from: slot(0), to: slot(2) };
    let message = Message { room: Room::Tree, key: Bytes::new(), payload: vec![0; 8].into() };
    let fill = |world: &World, channel: Channel| {
        let node = &world.nodes[0];
        let mut batch = Batch::in_slots(channel.from);
        let unsent = node.outbox.write(&mut batch, channel, &message)?;
        unsent.accepted(node.store.try_submit(batch).unwrap());
        while node.store.step() {}
        Ok::<_, ChannelFull>(())
    };
    for _ in 0..WINDOW {
        fill(&world, channel).unwrap();
    }
    assert_eq!(fill(&world, channel), Err(ChannelFull(channel)));
    world.nodes[0].crash();
    assert_eq!(world.outbox_rows().len(), WINDOW as usize);
    assert_eq!(fill(&world, channel), Err(ChannelFull(channel)));
    fill(&world, Channel { to: slot(1), ..channel }).unwrap();
    world.heal();
    fill(&world, channel).unwrap();
    world.heal();
    // What is left: how far each channel has come, on both sides.
    for (node, table, count) in [(0, OUTBOX, 2), (0, APPLIED, 1), (1, OUTBOX, 0), (1, APPLIED, 1)] {
        let left = world.nodes[node].store.scan(&Scan::all(table, 10)).unwrap().value.rows;
        assert_eq!(left.len(), count, "{} of node {node}", table.name());
    }
}
