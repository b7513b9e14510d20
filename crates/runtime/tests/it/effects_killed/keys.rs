//! The keys by which a peer knows an effect.

use indelible_idempotency::{ConsumerNamespace, KeyMinter};
use indelible_journal::PromiseId;

/// What every attempt at an effect sends as its `Idempotency-Key` (I-2): minted from its promise.
pub(crate) fn of(promise: &PromiseId) -> String {
    let minter = KeyMinter::new(ConsumerNamespace::new("indelible").unwrap());
    minter.mint([promise.to_string().as_str()]).unwrap().value().to_owned()
}
