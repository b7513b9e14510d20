//! Guests that wait stay where they are, as long as there are not too many (D4). Each takes
//! memory and, what runs out first, entries of the kernel's memory map.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::guest::Guest;
use crate::options::Parking;

/// Counts the guests that are parked.
#[derive(Debug)]
pub(crate) struct ParkingLot {
    parking: Parking,
    parked: Arc<AtomicUsize>,
}

/// A guest that is parked; it counts until it leaves.
#[derive(Debug)]
pub(crate) struct Parked {
    guest: Guest,
    _place: Place,
}

#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ParkingLot {
    /// A lot beside which every worker has a place for the guest that it runs: guests that wait
    /// for others must not keep those from starting.
    pub(crate) fn new(parking: Parking, places: usize, workers: usize) -> Self {
        let parking = match parking {
            Parking::Keep { guests_max } => {
                let most = places.saturating_sub(workers.max(1));
                Parking::Keep { guests_max: guests_max.min(most) }
            }
            Parking::Drop => Parking::Drop,
        };
        Self { parking, parked: Arc::default() }
    }

    /// Parks a guest that waits, if there is a place for it. Otherwise it is gone, and will run
    /// again over its journal.
    pub(crate) fn park(&self, guest: Guest) -> Option<Parked> {
        match self.parking {
            Parking::Keep { guests_max } if self.count() < guests_max => Some(self.hold(guest)),
            Parking::Keep { .. } | Parking::Drop => None,
        }
    }

    /// Keeps a guest that is about to go on.
    pub(crate) fn hold(&self, guest: Guest) -> Parked {
        self.parked.fetch_add(1, Ordering::Relaxed);
        Parked { guest, _place: Place(Arc::clone(&self.parked)) }
    }

    /// How many are parked.
    pub(crate) fn count(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }
}

impl Parked {
    /// The guest goes on.
    pub(crate) fn leave(self) -> Guest {
        self.guest
    }
}
