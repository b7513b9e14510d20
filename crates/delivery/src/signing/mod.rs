//! Signatures of messages: secrets, Standard Webhooks both ways, and what other providers sign.
//!
//! Comparisons are ring's, in constant time. No secret is in a `Debug` text.

mod ed25519;
mod presets;
mod secret;
pub mod standard;

pub use ed25519::{Ed25519Key, KeyError, PublicKey};
pub use presets::{DigestEncoding, Hmac, Preset, Received, github, stripe};
pub use secret::{HmacKey, Secret, SecretError, VerifyingKey};

use indelible_journal::{Micros, Timestamp};

/// How far the time of a signature may be from ours, either way: what Standard Webhooks and Stripe
/// recommend.
pub const TOLERANCE: Micros = Micros::from_secs(5 * 60);

/// Why a message that came is not taken for its sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// A header is missing.
    #[error("the header `{0}` is missing")]
    Missing(&'static str),
    /// A header does not have its form.
    #[error("the header `{0}` is malformed")]
    Malformed(&'static str),
    /// It was signed too long ago, or in the future.
    #[error("it was signed at another time than now")]
    Stale,
    /// No signature in it is of a key of the source.
    #[error("no signature is of a key of this source")]
    Signature,
}

/// Whether a time in seconds, as a header has it, is near enough to now.
pub(crate) fn check_time(
    text: &str,
    header: &'static str,
    now: Timestamp,
    tolerance: Micros,
) -> Result<Timestamp, Rejected> {
    // One spelling: what is signed is the text, and a sign or a blank is no part of a time.
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<u64>().ok().filter(|_| digits);
    let micros = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
    let time = micros.and_then(Timestamp::from_micros).ok_or(Rejected::Malformed(header))?;
    let apart = now.saturating_since(time).max(time.saturating_since(now));
    if apart > tolerance { Err(Rejected::Stale) } else { Ok(time) }
}
