//! Operation ids: who makes them, where each is unique, and what time it carries.
//!
//! | where | the id | unique within | how it expires (see C-3) |
//! |---|---|---|---|
//! | over HTTP | a UUIDv7 | a namespace | by the time in it |
//! | in a session | a number from 1 | the session (V-7) | by the session's watermark |
//! | in an embedding program | any other name | a namespace | it carries no time: it does not |

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use indelible_journal::{OperationId, OperationKey, Timestamp};
use indelible_slots::Slot;
use uuid::{Uuid, Variant};

/// The number of an operation in its session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionOperationId(NonZeroU64);

impl SessionOperationId {
    /// The first of a session.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Operation `number`; none for 0.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for SessionOperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for SessionOperationId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// Makes the ids of one session, on the side of its client (V-5): one for each intention, never the
/// same twice (V-6). It lives as long as the session does, across its attachments (V-8).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionIds {
    last: u64,
}

impl SessionIds {
    /// Of a session in which this id was the last.
    pub const fn after(last: SessionOperationId) -> Self {
        Self { last: last.get() }
    }

    /// The id of a new intention. None: all have been used, and the session has to end.
    pub fn mint(&mut self) -> Option<SessionOperationId> {
        self.last = self.last.checked_add(1)?;
        SessionOperationId::new(self.last)
    }
}

/// Which session. Whoever opens it chooses the number so that nobody guesses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// The session with this number.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An operation's id with its scope: what its record is kept under. Neither an attachment nor a
/// connection is in it, so that a session which resumes elsewhere finds its operations (V-2, V-8).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// Within a namespace.
    Namespaced(OperationKey),
    /// Within a session.
    InSession {
        /// Which session.
        session: SessionId,
        /// Which of its operations.
        id: SessionOperationId,
    },
}

/// When an operation id was made, if it says so: if it is a UUIDv7, in any spelling. In
/// milliseconds, by the clock of whoever made it.
///
/// Another spelling is another id: nothing here makes two spellings one.
pub fn created_at(id: &OperationId) -> Option<Timestamp> {
    let uuid = Uuid::try_parse(id.as_str()).ok()?;
    if uuid.get_version_num() != 7 || uuid.get_variant() != Variant::RFC4122 {
        return None;
    }
    let millis = u64::try_from(uuid.as_u128() >> 80).expect("48 bits are left");
    // It can hold times that no timestamp can: they are in the far future all the same.
    Some(Timestamp::from_micros(millis.saturating_mul(1_000)).unwrap_or(Timestamp::MAX))
}

/// A new operation id out of a time and random bytes: a UUIDv7 (C-31) that leads to this slot, the
/// one of the idempotency key if there is one (C-77).
pub fn mint(now: Timestamp, random: &[u8; 10], slot: Option<Slot>) -> OperationId {
    let millis = now.as_micros() / 1_000;
    let id = uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid();
    let id = slot.map_or(id, |slot| slot.stamp_uuid(id));
    OperationId::new(&id.to_string()).expect("a UUID is a name")
}

#[cfg(test)]
mod tests {
    use indelible_journal::Namespace;
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> OperationId {
        OperationId::new(text).unwrap()
    }

    /// C-3: a UUIDv7 carries when it was made, in every spelling; nothing else does.
    #[test]
    fn a_uuidv7_carries_its_time() {
        // 0x0198c0de0000 is 1755582431232.
        let made = Timestamp::from_micros(1_755_582_431_232_000);
        for text in [
            "0198c0de-0000-7000-8000-000000000001",
            "0198C0DE-0000-7FFF-BFFF-FFFFFFFFFFFF",
            "0198c0de00007000a000000000000001",
            "{0198c0de-0000-7000-9000-000000000001}",
            "urn:uuid:0198c0de-0000-7000-8000-000000000001",
        ] {
            assert_eq!(created_at(&id(text)), made, "{text}");
        }
        for text in [
            "order-1",
            "1",
            "0198c0de-0000-4000-8000-000000000001", // random
            "0198c0de-0000-7000-c000-000000000001", // another variant
            "0198c0de-0000-7000-8000-00000000000",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert_eq!(created_at(&id(text)), None, "{text}");
        }
        // Later than any timestamp, and so refused, not wrapped.
        let last = "ffffffff-ffff-7000-8000-000000000001";
        assert_eq!(created_at(&id(last)), Some(Timestamp::MAX));
    }

    /// V-5, V-6: a session's ids count from 1, and none comes twice, also after a resumption.
    #[test]
    fn every_intention_has_its_own_id() {
        let mut ids = SessionIds::default();
        let first = ids.mint().unwrap();
        assert_eq!((first, first.get()), (SessionOperationId::FIRST, 1));
        let second = ids.mint().unwrap();
        assert_eq!(SessionIds::after(second).mint(), SessionOperationId::new(3));
        let mut used_up = SessionIds::after(SessionOperationId::new(u64::MAX).unwrap());
        assert_eq!((used_up.mint(), used_up.mint()), (None, None));
        assert_eq!(SessionOperationId::new(0), None);
        assert!("0".parse::<SessionOperationId>().is_err());
        assert_eq!("7".parse(), Ok(SessionOperationId::new(7).unwrap()));
    }

    /// V-7, V-8: an id means something within its scope only, and the scope is the session, not
    /// what it is attached to.
    #[test]
    fn a_name_is_an_id_in_its_scope() {
        let in_session = |session, id| Name::InSession {
            session: SessionId::new(session),
            id: SessionOperationId::new(id).unwrap(),
        };
        assert_eq!(in_session(1, 1), in_session(1, 1));
        assert_ne!(in_session(1, 1), in_session(2, 1));
        assert_ne!(in_session(1, 1), in_session(1, 2));
        let namespaced = |namespace: &str| {
            let namespace = Namespace::new(namespace).unwrap();
            Name::Namespaced(OperationKey { namespace, operation_id: id("1") })
        };
        assert_ne!(namespaced("shop"), namespaced("bank"));
        assert_ne!(namespaced("shop"), in_session(1, 1));
    }

    proptest! {
        /// C-3, C-31, C-77: an id that is minted carries its time, to the millisecond, and leads to
        /// the slot that it was minted for.
        #[test]
        fn what_is_minted_carries_its_time(
            micros in 0..=Timestamp::MAX.as_micros(),
            random in any::<[u8; 10]>(),
            slot in 0..Slot::COUNT,
        ) {
            let now = Timestamp::from_micros(micros).unwrap();
            let slot = Slot::new(slot);
            for wanted in [slot, None] {
                let id = mint(now, &random, wanted);
                let made = created_at(&id).unwrap();
                prop_assert_eq!(made.as_micros(), micros - micros % 1_000);
                let leads_to = indelible_slots::of_operation("shop", id.as_str());
                prop_assert!(wanted.is_none() || Some(leads_to) == wanted);
            }
        }
    }
}
