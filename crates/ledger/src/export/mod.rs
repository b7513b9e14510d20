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
//! its proof, and the header has a hash of its own. Lines that are missing, doubled or in another order
//! do not continue the chain, and a file that was cut off has no end.
//!
//! An export that is forged from its beginning verifies. Compare the head of [`Verified`] with one that
//! was kept elsewhere.
//!
//! The format is described in `docs/formats/ledger.md`.

pub(crate) mod lines;
mod verify;

pub use lines::{FORMAT, VERSION};
pub use verify::{LineError, LineFault, Verified, Verifier};

use indelible_idempotency::RequestHash;

use crate::hashes::ChainHash;
use crate::numbers::Height;
use crate::proof::{Checkpoint, LtHash};
use crate::transaction::Record;

/// The first line: where the export begins. `state` is the state hash there, whose digest is in the
/// checkpoint.
pub fn header_line(start: &Checkpoint, state: &LtHash) -> String {
    lines::line(&lines::Header::of(start, state))
}

/// The line of a transaction.
pub fn record_line(record: &Record) -> String {
    lines::line(&lines::Record::of(record))
}

/// A line that [`record_line`] wrote, with the hash of the transaction's request, which is not in it.
/// `None` if it is no such line.
pub fn read_record(line: &[u8], hash: RequestHash) -> Option<Record> {
    serde_json::from_slice::<lines::Record>(line).ok()?.read(hash)
}

/// The last line: without it a reader cannot tell that nothing was cut off.
pub fn end_line(height: Height, head: ChainHash) -> String {
    lines::line(&lines::Last::of(height, head))
}
