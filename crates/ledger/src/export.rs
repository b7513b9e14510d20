//! A vault's log as JSON Lines: a header, a line for each transaction with its proof, an end. It is
//! verified line by line, without a server and without what the vault holds.
//!
//! # What a line must hold
//!
//! The chain stands for the transactions and for the state hashes. To compute a state hash again, the
//! verifier needs what each changed entity was before; so a line says it: version, expiry, and amount
//! or hash of the value. What the entity is afterwards follows from the operations. A line cannot lie
//! about the entities before it: other ones give another state hash. So the verifier holds the lanes
//! of the state hash and nothing of the vault.
//!
//! What is not proved: that a condition held of an entity that the transaction did not change, and what
//! `get` answered.
//!
//! # What is found
//!
//! Any other byte anywhere, in the line where it is. A line is read, written again, and compared: what
//! is read in the same way although it was changed is found there. Everything that a line says is in
//! its proof; the header and the end have hashes of their own. Lines that are missing, doubled or in
//! another order do not continue the chain, and a file that was cut off has no end.
//!
//! An export that is forged from its beginning verifies. Compare the [`Verified`] head with one that
//! was kept elsewhere.

use crate::hashes::{ChainHash, StateHash};
use crate::numbers::Height;
use crate::proof::{Checkpoint, LtHash};
use crate::transaction::Record;

/// The first line: where the export begins.
pub fn header_line(_start: &Checkpoint, _state: &LtHash) -> String {
    String::new()
}

/// The line of a transaction.
pub fn record_line(_record: &Record) -> String {
    String::new()
}

/// The last line.
pub fn end_line(_height: Height, _head: ChainHash) -> String {
    String::new()
}

/// Reads an export line by line.
#[derive(Debug)]
pub struct Verifier {}

/// An export that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Where it begins.
    pub start: Checkpoint,
    /// How many transactions it has.
    pub transactions: u64,
    /// The height at its end.
    pub height: Height,
    /// The head of the chain at its end.
    pub head: ChainHash,
    /// The hash of the state at its end.
    pub state_hash: StateHash,
}
