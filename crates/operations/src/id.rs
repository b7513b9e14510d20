//! Operation ids: who makes them, where each is unique, and what time it carries.
//!
//! | where | the id | unique within | how it expires (see C-3) |
//! |---|---|---|---|
//! | over HTTP | a UUIDv7 | a namespace | by the time in it |
//! | in an embedding program | any other name | a namespace | it carries no time: it does not |

use indelible_journal::{OperationId, Timestamp};
use indelible_slots::Slot;
use uuid::{Uuid, Variant};

/// When an operation id was made, by the clock of the client that made it, to the millisecond.
/// `None` unless the id is a UUIDv7, in any spelling.
///
/// Another spelling is another id: spellings are not normalized.
pub fn created_at(id: &OperationId) -> Option<Timestamp> {
    let uuid = Uuid::try_parse(id.as_str()).ok()?;
    if uuid.get_version_num() != 7 || uuid.get_variant() != Variant::RFC4122 {
        return None;
    }
    let millis = u64::try_from(uuid.as_u128() >> 80).expect("48 bits are left");
    // A UUIDv7 can hold times beyond `Timestamp::MAX`: they are in the far future all the same.
    Some(Timestamp::from_micros(millis.saturating_mul(1_000)).unwrap_or(Timestamp::MAX))
}

/// A new operation id out of a time and random bytes: a UUIDv7 (C-31) that leads to this slot, the
/// one of the idempotency key if there is one (C-77).
pub fn mint(now: Timestamp, random: &[u8; 10], slot: Option<Slot>) -> OperationId {
    let id = mint_uuid(now, random, slot);
    OperationId::new(&id.to_string()).expect("a UUID is a name")
}

/// A new UUIDv7 out of a time and random bytes, whose last three digits are this slot.
pub fn mint_uuid(now: Timestamp, random: &[u8; 10], slot: Option<Slot>) -> Uuid {
    let millis = now.as_micros() / 1_000;
    let id = uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid();
    slot.map_or(id, |slot| slot.stamp_uuid(id))
}

#[cfg(test)]
mod tests {
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
