//! Guests that wait stay in memory, as long as they are few, small and needed soon (D4). Each takes
//! memory and, what runs out first, entries of the kernel's memory map. When there are too many,
//! those that have waited longest are evicted; each runs again over its journal when it goes on.
//!
//! The lot owns the guests, and their trees hold only places: a guest is evicted without its tree's
//! lock. Its tree is told afterwards (`Shared::tell_evicted`), and then forgets the execution. If
//! the tree wants the guest before that, it finds the place empty.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use indelible_journal::{JournalKey, Timestamp};

use crate::guest::Guest;
use crate::options::{Parking, ParkingBounds};
use crate::shared::lock;

#[derive(Debug)]
pub(crate) struct ParkingLot {
    room: Option<ParkingBounds>,
    lot: Arc<Mutex<Lot>>,
    /// Whether guests were evicted whose trees have not been told.
    evicting: AtomicBool,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Lot {
    /// In the order in which they came: the first has waited longest.
    parked: BTreeMap<u64, WaitingGuest>,
    bytes: usize,
    next: u64,
    evicted: Vec<WaitingGuest>,
}

#[derive(Debug)]
struct WaitingGuest {
    guest: Guest,
    key: JournalKey,
    bytes: usize,
    since: Timestamp,
}

/// A guest's place in the lot. The guest may have been evicted.
#[derive(Debug)]
pub(crate) struct ParkingPlace {
    lot: Arc<Mutex<Lot>>,
    number: u64,
}

/// Where a guest is that does not run.
#[derive(Debug)]
pub(crate) enum Parked {
    /// It has yielded, and goes on in its next turn.
    Here(Guest),
    /// It waits, and may be evicted.
    InLot(ParkingPlace),
}

impl ParkingLot {
    /// A lot that leaves each worker a place for the guest that it runs: guests that wait for
    /// others must not keep those from starting.
    pub(crate) fn new(parking: Parking, places: usize, workers: usize) -> Self {
        let room = match parking {
            Parking::Keep(room) => {
                let most = places.saturating_sub(workers.max(1));
                Some(ParkingBounds { guests_max: room.guests_max.min(most), ..room })
            }
            Parking::Drop => None,
        };
        Self { room, lot: Arc::default(), evicting: false.into(), evicted: 0.into() }
    }

    /// Parks a guest that waits; those that have waited longest make room. `until`: when it goes
    /// on, if that is known. None: it was dropped, and will run again over its journal.
    pub(crate) fn park(
        &self,
        guest: Guest,
        key: &JournalKey,
        now: Timestamp,
        until: Option<Timestamp>,
    ) -> Option<Parked> {
        let room = self.room?;
        if until.is_some_and(|until| until > now.saturating_add(room.wait_max)) {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let bytes = guest.memory_bytes();
        let mut lot = lock(&self.lot);
        let number = lot.next;
        lot.next += 1;
        lot.bytes += bytes;
        lot.parked.insert(number, WaitingGuest { guest, key: key.clone(), bytes, since: now });
        while lot.parked.len() > room.guests_max || lot.bytes > room.bytes_max {
            self.evict_first(&mut lot);
        }
        Some(Parked::InLot(ParkingPlace { lot: Arc::clone(&self.lot), number }))
    }

    /// Evicts up to `count` guests that have waited longest; returns how many.
    pub(crate) fn evict(&self, count: usize) -> usize {
        let mut lot = lock(&self.lot);
        let count = count.min(lot.parked.len());
        for _ in 0..count {
            self.evict_first(&mut lot);
        }
        count
    }

    /// Evicts guests that have waited too long.
    pub(crate) fn sweep(&self, now: Timestamp) {
        let Some(ParkingBounds { wait_max, .. }) = self.room else { return };
        let mut lot = lock(&self.lot);
        while let Some((_, first)) = lot.parked.first_key_value()
            && now.saturating_since(first.since) > wait_max
        {
            self.evict_first(&mut lot);
        }
    }

    fn evict_first(&self, lot: &mut Lot) {
        let Some((_, waiting)) = lot.parked.pop_first() else { return };
        lot.bytes -= waiting.bytes;
        lot.evicted.push(waiting);
        self.evicted.fetch_add(1, Ordering::Relaxed);
        self.evicting.store(true, Ordering::Release);
    }

    /// The evicted guests whose trees have to be told. Drops the guests before it returns: must not
    /// be called under a tree's lock.
    pub(crate) fn take_evicted(&self) -> Vec<JournalKey> {
        if !self.evicting.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let evicted = std::mem::take(&mut lock(&self.lot).evicted);
        evicted.into_iter().map(|waiting| waiting.key).collect()
    }

    /// How many are parked, and about how many bytes they take.
    pub(crate) fn count(&self) -> (usize, usize) {
        let lot = lock(&self.lot);
        (lot.parked.len(), lot.bytes)
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

impl Parked {
    /// Takes the guest back, unless it was evicted.
    pub(crate) fn leave(self) -> Option<Guest> {
        match self {
            Self::Here(guest) => Some(guest),
            Self::InLot(place) => place.take(),
        }
    }

    /// Whether the guest was evicted.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::InLot(place) => !lock(&place.lot).parked.contains_key(&place.number),
        }
    }
}

impl ParkingPlace {
    fn take(&self) -> Option<Guest> {
        let mut lot = lock(&self.lot);
        let waiting = lot.parked.remove(&self.number)?;
        lot.bytes -= waiting.bytes;
        Some(waiting.guest)
    }
}

impl Drop for ParkingPlace {
    /// The tree forgets the execution: the guest is dropped, after the lot's lock.
    fn drop(&mut self) {
        drop(self.take());
    }
}
