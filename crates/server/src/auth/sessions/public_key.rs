//! The public key in a PEM file, of the one kind that is expected: what is inside a
//! `SubjectPublicKeyInfo`. A key of another kind, or a private one, is refused when the server
//! starts, and not with every token.

use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// The kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    P256,
    Ed25519,
    Rsa,
}

impl Kind {
    /// The DER of the algorithm's identifier, without the sequence around it.
    const fn algorithm(self) -> &'static [u8] {
        match self {
            // id-ecPublicKey (1.2.840.10045.2.1), prime256v1 (1.2.840.10045.3.1.7)
            Self::P256 => {
                b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"
            }
            // id-Ed25519 (1.3.101.112)
            Self::Ed25519 => b"\x06\x03\x2b\x65\x70",
            // rsaEncryption (1.2.840.113549.1.1.1), NULL
            Self::Rsa => b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00",
        }
    }

    fn fits(self, key: &[u8]) -> bool {
        match self {
            // An uncompressed point.
            Self::P256 => key.len() == 65 && key[0] == 4,
            Self::Ed25519 => key.len() == 32,
            Self::Rsa => modulus_bytes(key).is_some_and(|bytes| RSA_BYTES.contains(&bytes)),
        }
    }
}

/// Moduli of 2048 to 8192 bits: those that ring verifies with.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// The key in a PEM text, as ring takes it. None: there is none of this kind.
pub(super) fn read(kind: Kind, pem: &str) -> Option<Vec<u8>> {
    let info = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).ok()?;
    let (info, rest) = take(SEQUENCE, &info)?;
    let (algorithm, bits) = take(SEQUENCE, info)?;
    let (bits, more) = take(BIT_STRING, bits)?;
    // The first byte of a bit string says how many bits of the last are not used.
    let key = bits.strip_prefix(&[0])?;
    let whole = rest.is_empty() && more.is_empty();
    (whole && algorithm == kind.algorithm() && kind.fits(key)).then(|| key.to_vec())
}

/// How long the modulus of an `RSAPublicKey` is.
fn modulus_bytes(key: &[u8]) -> Option<usize> {
    let (numbers, _) = take(SEQUENCE, key)?;
    let (modulus, _) = take(INTEGER, numbers)?;
    // One zero stands before a number whose first bit is set.
    Some(modulus.strip_prefix(&[0]).unwrap_or(modulus).len())
}

/// The content of the DER element that comes first, which must have this tag, and what is behind.
fn take(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&found, der) = der.split_first()?;
    let (&first, der) = der.split_first()?;
    let (length, der) = match first {
        0..=0x7f => (usize::from(first), der),
        // The length itself takes one or two bytes: no key has more than 64 KiB.
        0x81 | 0x82 => {
            let (length, der) = der.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), der)
        }
        _ => return None,
    };
    if found != tag {
        return None;
    }
    der.split_at_checked(length)
}
