//! What an operation id is bound to: one method, and one set of arguments (V-9).

use std::fmt;

use indelible_journal::Payload;
use sha2::{Digest as _, Sha256};

/// SHA-256 over a method and its arguments as they came, byte for byte (C-6). All requests of one
/// operation have the same binding.
///
/// ```text
/// SHA-256( bytes of the method's name (8, big-endian) ‖ the name ‖ codec (1) ‖ the arguments )
/// ```
///
/// It is stored with the operation: this recipe does not change. The component's version is not
/// part of it, so that a request repeated after a new deployment is still the same request (C-31).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding([u8; 32]);

impl Binding {
    /// The binding of a request.
    pub fn of(method: &str, arguments: &Payload) -> Self {
        let mut hash = Sha256::new();
        // The length keeps the name and what follows it apart.
        hash.update((method.len() as u64).to_be_bytes());
        hash.update(method.as_bytes());
        hash.update([arguments.codec.number()]);
        hash.update(&arguments.bytes);
        Self(hash.finalize().into())
    }

    /// A binding that was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to be stored.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// In hexadecimal.
impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use indelible_journal::Codec;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(method: &str, codec: Codec, arguments: &[u8]) -> Binding {
        Binding::of(method, &Payload::new(codec, arguments.to_vec()))
    }

    /// C-6: known answers, computed by something else. They are stored, and must stay.
    #[test]
    fn the_recipe_stays() {
        let hex = |binding: Binding| format!("{binding:?}");
        assert_eq!(hex(of("shop/order", Codec::JSON, br#"{"item":7}"#)), KNOWN[0]);
        assert_eq!(hex(of("", Codec::RAW, b"")), KNOWN[1]);
        assert_eq!(hex(of("größe", Codec::CBOR, &[0, 255, 1])), KNOWN[2]);
    }

    const KNOWN: [&str; 3] = [
        "c55c88d23484d234cad348e902801b26fb32be872eb7486315e92d1a902d1867",
        "3e7077fd2f66d689e0cee6a7cf5b37bf2dca7c979af356d0a31cbc5c85605c7d",
        "03d4704d335201725dcb8b7c6de266f7b664b59587d67007ae8b56aaf1b2e2fa",
    ];

    /// V-9, C-6: another method, codec or argument is another binding; so is the same text with
    /// its parts divided elsewhere.
    #[test]
    fn requests_differ() {
        let one = of("a/b", Codec::JSON, b"1");
        assert_eq!(one, of("a/b", Codec::JSON, b"1"));
        assert_ne!(one, of("a/c", Codec::JSON, b"1"));
        assert_ne!(one, of("a/b", Codec::JSON, b"2"));
        assert_ne!(one, of("a/b1", Codec::JSON, b""));
        assert_ne!(one, of("a/b", Codec::RAW, b"1"));
        // The codec's number is a byte that a name and arguments could have, too.
        assert_ne!(of("a", Codec::JSON, b"\x01b"), of("a\u{1}", Codec::JSON, b"b"));
        // Raw bytes are compared, not what they mean.
        assert_ne!(of("a", Codec::JSON, b"{\"a\":1}"), of("a", Codec::JSON, b"{ \"a\": 1 }"));
    }

    proptest! {
        /// V-9, C-6: two requests have one binding only if they are the same, and it survives
        /// storage.
        #[test]
        fn a_binding_is_of_one_request(
            a in ("[ab/]{0,3}", 0u8..3, vec(0u8..3, 0..4)),
            b in ("[ab/]{0,3}", 0u8..3, vec(0u8..3, 0..4)),
        ) {
            let binding = |(method, codec, bytes): &(String, u8, Vec<u8>)| {
                of(method, Codec::from_number(*codec), bytes)
            };
            prop_assert_eq!(binding(&a) == binding(&b), a == b);
            prop_assert_eq!(Binding::from_bytes(*binding(&a).as_bytes()), binding(&a));
        }
    }
}
