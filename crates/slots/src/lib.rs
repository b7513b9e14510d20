//! Slots (D13): every id that has an owner belongs to one of 4,096 slots. An idempotency key, its
//! operation, the tree that it starts and the outcome are in one slot, so that they have one owner,
//! and each of their ids alone leads to it.
//!
//! | what | its slot |
//! |---|---|
//! | a tree of executions | the first 12 bits of its root hash, which are those of its operation |
//! | an operation | [`of_operation`] |
//! | an idempotency key | [`of_key`]: the operation that it leads to is minted with that slot |
//! | a vault | [`of_vault`]; the ids of its incarnations end with it |
//! | the whole server: components, API keys, settings | [`Slot::SERVER`] |
//!
//! Slots are in ids for ever; a table says which node owns which slots.

mod set;

use std::fmt;
use std::str::FromStr;

pub use set::SlotSet;
use uuid::{Uuid, Variant};
use xxhash_rust::xxh3::Xxh3;

/// The namespace of the questions that the engine asks reconcilers. The engine makes their
/// operation ids, which end with their slot.
pub const RECONCILE_NAMESPACE: &str = "indelible.reconcile";

/// The part of a cluster that an id belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// How many slots there are.
    pub const COUNT: u16 = 1 << Self::BITS;

    /// The slot of everything that belongs to the whole server.
    pub const SERVER: Self = Self(0);

    const BITS: u32 = 12;

    /// The slot with this number, if there is one.
    pub const fn new(number: u16) -> Option<Self> {
        if number < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The slot that a hash begins with. Missing bytes count as zero, so that every input has a
    /// slot.
    pub fn at_start_of(hash: &[u8]) -> Self {
        let byte = |at: usize| u16::from(hash.get(at).copied().unwrap_or(0));
        Self(byte(0) << 4 | byte(1) >> 4)
    }

    /// Writes this slot over the first 12 bits of a hash or an id.
    pub fn stamp<const BYTES: usize>(self, hash: &mut [u8; BYTES]) {
        let [high, low] = (self.0 << 4).to_be_bytes();
        hash[0] = high;
        hash[1] = low | hash[1] & 0x0f;
    }

    /// Writes this slot over the last three digits of a UUID.
    pub const fn stamp_uuid(self, uuid: Uuid) -> Uuid {
        Uuid::from_u128(uuid.as_u128() & !0xfff | self.0 as u128)
    }
}

/// Three hexadecimal digits.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03x}", self.0)
    }
}

/// The text is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSlot;

impl FromStr for Slot {
    type Err = NoSlot;

    fn from_str(text: &str) -> Result<Self, NoSlot> {
        let digits = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 3 || !digits {
            return Err(NoSlot);
        }
        u16::from_str_radix(text, 16).map(Self).map_err(|_| NoSlot)
    }
}

/// The slot of an operation (C-77): the last three digits of a UUID of version 4, 7 or 8 in any
/// spelling, and of an id that the engine made for a reconciler; for any other text a hash of
/// namespace and text.
pub fn of_operation(namespace: &str, id: &str) -> Slot {
    if let Ok(uuid) = Uuid::try_parse(id)
        && uuid.get_variant() == Variant::RFC4122
        && matches!(uuid.get_version_num(), 4 | 7 | 8)
    {
        return Slot((uuid.as_u128() & 0xfff) as u16);
    }
    if namespace == RECONCILE_NAMESPACE
        && let Some(digits) = id.len().checked_sub(3).and_then(|at| id.get(at..))
        && let Ok(slot) = digits.parse()
    {
        return slot;
    }
    of_name(OPERATION_SEED, namespace, id)
}

/// The slot of an idempotency key: a hash of namespace and key.
pub fn of_key(namespace: &str, key: &str) -> Slot {
    of_name(KEY_SEED, namespace, key)
}

/// The slot of a vault: a hash of namespace and name (D13). The ledger of a namespace itself is the
/// vault without a name.
pub fn of_vault(namespace: &str, vault: &str) -> Slot {
    of_name(VAULT_SEED, namespace, vault)
}

/// The seeds keep the hashes of operation ids, of keys and of vaults apart: an id that is spelled
/// like a key is not drawn to the key's slot.
const OPERATION_SEED: u64 = 1;
const KEY_SEED: u64 = 2;
const VAULT_SEED: u64 = 3;

/// The first 12 bits of XXH3-64 over the namespace with its length (2 bytes, high byte first) and
/// the name. The hash only spreads names: an attacker who aims at one slot reaches it with any hash
/// of 12 bits.
fn of_name(seed: u64, namespace: &str, name: &str) -> Slot {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(&(namespace.len() as u16).to_be_bytes());
    hash.update(namespace.as_bytes());
    hash.update(name.as_bytes());
    Slot((hash.digest() >> (u64::BITS - Slot::BITS)) as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    /// C-77: the last three digits are the slot of a UUID of version 4, 7 or 8, in every spelling,
    /// and of an id that the engine made for a reconciler; and of no other text.
    #[test]
    fn ids_lead_to_their_slot() {
        for text in [
            "0198c0de-0000-7000-8000-000000000abc",
            "0198C0DE-0000-7000-8000-000000000ABC",
            "0198c0de-0000-4000-8000-000000000abc",
            "0198c0de-0000-8000-8000-000000000abc",
            "0198c0de000070008000000000000abc",
            "urn:uuid:0198c0de-0000-7000-8000-000000000abc",
        ] {
            assert_eq!(of_operation("shop", text), slot(0xabc), "{text}");
        }
        let question = "3.1.1.0123456789abcdef.abc";
        assert_eq!(of_operation(RECONCILE_NAMESPACE, question), slot(0xabc));
        // These are hashed: the values must never change.
        let hashed = [
            of_operation("shop", question),
            of_operation("shop", "order-1"),
            of_operation("shop", "0198c0de-0000-1000-8000-000000000abc"),
            of_key("shop", "order-1"),
            of_key("shop2", "order-1"),
        ];
        assert_eq!(hashed.map(Slot::get), [0x0a2, 0x74b, 0x72e, 0x93c, 0x747]);
        for text in ["", "abc", "1.é", "ABC", "+ab"] {
            of_operation(RECONCILE_NAMESPACE, text);
        }
    }

    /// Names spread over all slots.
    #[test]
    fn names_spread() {
        let mut counts = vec![0_u32; usize::from(Slot::COUNT)];
        for number in 0..81_920 {
            counts[usize::from(of_key("shop", &format!("order-{number}")).get())] += 1;
        }
        assert!(counts.iter().all(|count| (1..60).contains(count)));
    }

    proptest! {
        /// C-77: a slot is read back from where it was written, and nothing else changes.
        #[test]
        fn slots_read_back(number in 0..Slot::COUNT, mut hash: [u8; 32], uuid: u128) {
            let written = slot(number);
            let before = hash;
            written.stamp(&mut hash);
            prop_assert_eq!(Slot::at_start_of(&hash), written);
            prop_assert_eq!(&hash[2..], &before[2..]);
            prop_assert_eq!(hash[1] & 0x0f, before[1] & 0x0f);
            let stamped = written.stamp_uuid(Uuid::from_u128(uuid)).as_u128();
            prop_assert_eq!((stamped >> 12, stamped & 0xfff), (uuid >> 12, u128::from(number)));
            prop_assert_eq!(written.to_string().parse(), Ok(written));
        }
    }

    /// Texts that are no slot are refused, and so is a number past the last slot.
    #[test]
    fn no_slots() {
        for text in ["", "ab", "abcd", "xyz", "ABC", "+1a"] {
            assert_eq!(text.parse::<Slot>(), Err(NoSlot), "{text}");
        }
        assert_eq!(Slot::new(4096), None);
        assert_eq!(Slot::at_start_of(&[0xff]), slot(0xff0));
    }
}
