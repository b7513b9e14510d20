//! The hash of what a vault holds: one number of 1,024 lanes to which each entity adds its own.
//!
//! An entity becomes 2,048 bytes by BLAKE3's extendable output, which are read as 1,024 lanes of 16
//! bits, low byte first; lanes are added and subtracted modulo 2^16. So the order of changes does not
//! matter, a change costs the same in a vault of any size, and a mirror that begins with a snapshot
//! agrees. Finding two contents with one hash is as hard as a short vector in a lattice, which is why
//! there are so many lanes. (With 256 bits, sums of hashes can be forged.)

use std::fmt;

use crate::hashes::StateHash;
use crate::names::EntityKey;
use crate::proof::encoding;
use crate::value::EntitySummary;

/// How many lanes there are.
pub const LANES: usize = 1024;
const BYTES: usize = LANES * 2;

/// The sum of all entities' lanes; all zero when there are none.
#[derive(Clone, PartialEq, Eq)]
pub struct LtHash(Box<[u16; LANES]>);

impl Default for LtHash {
    fn default() -> Self {
        Self(Box::new([0; LANES]))
    }
}

impl fmt::Debug for LtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LtHash({})", self.digest())
    }
}

impl LtHash {
    /// An entity is there now.
    pub fn add(&mut self, key: &EntityKey, entity: &EntitySummary) {
        self.mix(&encoding::entity(key, entity), u16::wrapping_add);
    }

    /// An entity that was there is not.
    pub fn remove(&mut self, key: &EntityKey, entity: &EntitySummary) {
        self.mix(&encoding::entity(key, entity), u16::wrapping_sub);
    }

    fn mix(&mut self, element: &[u8], change: impl Fn(u16, u16) -> u16) {
        let mut bytes = [0; BYTES];
        blake3::Hasher::new().update(element).finalize_xof().fill(&mut bytes);
        for (lane, [low, high]) in self.0.iter_mut().zip(bytes.as_chunks().0) {
            *lane = change(*lane, u16::from_le_bytes([*low, *high]));
        }
    }

    /// What stands for it: the BLAKE3 hash of its bytes.
    pub fn digest(&self) -> StateHash {
        StateHash::from_bytes(blake3::hash(&self.to_bytes()).into())
    }

    /// The lanes, low byte first.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (place, lane) in bytes.as_chunks_mut().0.iter_mut().zip(self.0.iter()) {
            *place = lane.to_le_bytes();
        }
        bytes
    }

    /// From the bytes that were stored; `None` if they are not 2,048.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let mut hash = Self::default();
        for (lane, place) in hash.0.iter_mut().zip(bytes.as_chunks().0) {
            *lane = u16::from_le_bytes(*place);
        }
        Some(hash)
    }
}
