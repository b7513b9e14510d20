//! The cryptography of session tokens: ring's, behind the traits of `jsonwebtoken`. It verifies
//! the four algorithms that can be configured. It signs nothing: tokens are made elsewhere.

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtSigner, JwtVerifier};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: signer,
    verifier_factory: verifier,
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes ring the provider of this process. A provider that other code installed before stays: any
/// provider can tell whether a signature is good.
pub(super) fn install() {
    _ = PROVIDER.install_default();
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let bytes = key.as_bytes();
    let public = |verification| Box::new(Public::new(*algorithm, verification, bytes));
    // Both must fit: a key of another family would be misread, for instance an issuer's public key
    // as an HMAC secret, which an attacker knows.
    match (algorithm, key.family()) {
        (Algorithm::HS256, AlgorithmFamily::Hmac) => {
            Ok(Box::new(Hs256(hmac::Key::new(hmac::HMAC_SHA256, bytes))))
        }
        (Algorithm::ES256, AlgorithmFamily::Ec) => Ok(public(&ECDSA_P256_SHA256_FIXED)),
        (Algorithm::EdDSA, AlgorithmFamily::Ed) => Ok(public(&ED25519)),
        (Algorithm::RS256, AlgorithmFamily::Rsa) => Ok(public(&RSA_PKCS1_2048_8192_SHA256)),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Hs256(hmac::Key);

impl Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        // In constant time.
        hmac::verify(&self.0, message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct Public {
    algorithm: Algorithm,
    key: UnparsedPublicKey<Vec<u8>>,
}

impl Public {
    fn new(
        algorithm: Algorithm,
        verification: &'static dyn VerificationAlgorithm,
        key: &[u8],
    ) -> Self {
        Self { algorithm, key: UnparsedPublicKey::new(verification, key.to_vec()) }
    }
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        self.key.verify(message, signature).map_err(|_| Error::new())
    }
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
