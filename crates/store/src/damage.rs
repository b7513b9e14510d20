//! Damage found since a store was opened: where it is, and whom to tell. It is remembered until the
//! process ends, so that an operator who looks later still sees it.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::ReadError;

/// The most places that are remembered, counted and told. They show how far the damage goes, and a
/// folder in which every block is damaged does not fill the log.
pub const PLACES_MAX: usize = 100;

/// The longest description of a place, in bytes. A key can be long, and its beginning names it.
const PLACE_BYTES_MAX: usize = 512;

/// Called with each place when it is found, perhaps while the store is locked: it must not use the
/// store.
type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// The places in a store that could not be read. The pipeline notes what the backend finds damaged,
/// readers of rows note rows that do not decode.
#[derive(Default)]
pub struct DamageLog {
    /// As many as `found` has; read without the lock.
    count: AtomicUsize,
    found: Mutex<DamageSite>,
}

#[derive(Default)]
struct DamageSite {
    places: HashSet<String>,
    tell: Option<Tell>,
}

impl DamageLog {
    /// How many places were found, up to [`PLACES_MAX`].
    pub fn places(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Notes a place. One that is known already is neither counted nor told again.
    pub fn note(&self, place: &str) {
        let place = &place[..place.floor_char_boundary(PLACE_BYTES_MAX)];
        let (tell, is_last) = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.places.len() == PLACES_MAX || !found.places.insert(place.to_owned()) {
                return;
            }
            self.count.store(found.places.len(), Ordering::Release);
            (found.tell.clone(), found.places.len() == PLACES_MAX)
        };
        let Some(tell) = tell else { return };
        tell(place);
        if is_last {
            tell(&format!("{PLACES_MAX} damaged places were found; further ones are not reported"));
        }
    }

    /// Calls `tell` with every known place now, and with each new one from now on.
    pub fn tell(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let tell: Tell = Arc::new(tell);
        let known: Vec<_> = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.tell = Some(Arc::clone(&tell));
            found.places.iter().cloned().collect()
        };
        known.iter().for_each(|place| tell(place));
    }

    /// The same result. A row that does not decode is noted; what the backend finds damaged was noted
    /// by the pipeline, with its key.
    pub fn noted<T>(&self, result: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(error @ ReadError::Row { .. }) = &result {
            self.note(&error.to_string());
        }
        result
    }
}

impl fmt::Debug for DamageLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DamageLog").field("places", &self.places()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place counts and is told once, those from before the listener came included; after the
    /// last that is remembered, a line says that the list is full.
    #[test]
    fn each_place_is_told_once_and_not_for_ever() {
        let log = DamageLog::default();
        log.note("early");
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        log.tell({
            let told = Arc::clone(&told);
            move |place| told.lock().unwrap().push(place.to_owned())
        });
        for number in 0..PLACES_MAX * 2 {
            log.note(&format!("place {number}"));
            log.note("early");
        }
        let told = told.lock().unwrap();
        assert_eq!((log.places(), told.len()), (PLACES_MAX, PLACES_MAX + 1));
        assert_eq!((told[0].as_str(), told[1].as_str()), ("early", "place 0"));
        assert!(told[PLACES_MAX].contains("further ones are not reported"), "{told:?}");
    }

    /// A place with a long key is cut, between characters.
    #[test]
    fn a_long_place_is_cut() {
        let log = DamageLog::default();
        log.note(&"é".repeat(PLACE_BYTES_MAX));
        log.note(&"é".repeat(PLACE_BYTES_MAX + 1));
        assert_eq!(log.places(), 1);
    }
}
