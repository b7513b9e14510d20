//! Session tokens: signed JSON Web Tokens, for people. An identity provider makes them with its
//! key; the server is configured with how to verify them.

mod public_key;
mod ring;

use std::fmt;

use indelible_api::access::Role;
use indelible_journal::Timestamp;
use indelible_runtime::Actor;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::{Deserialize, Deserializer};

use self::public_key::Kind;
use super::caller::{Caller, Grant, is_name};

/// The longest session token, in bytes: more is not looked at.
pub const SESSION_TOKEN_BYTES_MAX: usize = 8 << 10;

/// The longest `sub`, in characters.
pub const SUBJECT_CHARS_MAX: usize = 128;

/// The shortest secret of HS256, in bytes: as long as the hash. A shorter secret could be guessed
/// from one token, offline.
pub const SECRET_BYTES_MIN: usize = 32;

/// How far the issuer's clock may be from ours, in seconds.
pub const LEEWAY_SECONDS: u64 = 30;

/// The last second of the year 9999, the last one that has a date in RFC 3339. An `exp` past it is no
/// date: most often it counts milliseconds, and such a token would end in fifty thousand years.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// What the header may call the token (`typ`): a JSON Web Token (RFC 7519), or one for access
/// (RFC 9068). Others are signed for something else, such as a logout, and must not pass
/// as a credential (RFC 8725, section 3.11).
const TYPES: [&str; 2] = ["JWT", "at+jwt"];

/// How session tokens are signed. The configuration decides; the header of a token does not.
pub enum SessionAlgorithm {
    /// HMAC with SHA-256, by a secret of at least [`SECRET_BYTES_MIN`] bytes.
    Hs256(Vec<u8>),
    /// ECDSA on P-256, by a public key in PEM.
    Es256(String),
    /// Ed25519, by a public key in PEM.
    EdDsa(String),
    /// RSA PKCS #1 v1.5 with SHA-256, by a public key in PEM, of 2048 to 8192 bits.
    Rs256(String),
}

impl SessionAlgorithm {
    /// The name that a token's header must have.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hs256(_) => "HS256",
            Self::Es256(_) => "ES256",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }
}

/// The name alone.
impl fmt::Debug for SessionAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(…)", self.name())
    }
}

/// Why session tokens cannot be verified with this configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionKeysError {
    /// The secret is too short.
    #[error("the HS256 secret has {0} bytes; at least {SECRET_BYTES_MIN} are needed")]
    ShortSecret(usize),
    /// The PEM has no public key for the algorithm.
    #[error("the PEM text has no public key for {0}")]
    PublicKey(&'static str),
    /// An audience is required.
    #[error("the audience of session tokens is empty")]
    NoAudience,
    /// An issuer was given, and is empty.
    #[error("the issuer of session tokens is empty")]
    NoIssuer,
}

/// How session tokens are verified.
pub struct SessionKeys {
    algorithm: Algorithm,
    key: DecodingKey,
    validation: Validation,
}

/// The algorithm alone.
impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// The claims that are read. All others are ignored.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    /// Seconds since 1970; RFC 7519 allows fractions.
    exp: f64,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<f64>,
    /// A single string (RFC 7519, section 4.1.1), also when no issuer is required. The library
    /// compares it too, but would accept a list that contains the issuer.
    #[serde(default, deserialize_with = "present")]
    #[expect(dead_code, reason = "it is read so that what is no text is refused")]
    iss: Option<String>,
    roles: Vec<Role>,
    namespaces: Vec<String>,
}

/// A claim that may be missing, but not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl SessionKeys {
    /// Accepts tokens that are signed with this algorithm for this audience, and by this issuer if
    /// one is given.
    pub fn new(
        algorithm: &SessionAlgorithm,
        audience: &str,
        issuer: Option<&str>,
    ) -> Result<Self, SessionKeysError> {
        ring::install();
        if audience.is_empty() {
            return Err(SessionKeysError::NoAudience);
        }
        if issuer == Some("") {
            return Err(SessionKeysError::NoIssuer);
        }
        let read = |kind, pem| {
            public_key::read(kind, pem).ok_or(SessionKeysError::PublicKey(algorithm.name()))
        };
        let (algorithm, key) = match algorithm {
            SessionAlgorithm::Hs256(secret) if secret.len() < SECRET_BYTES_MIN => {
                return Err(SessionKeysError::ShortSecret(secret.len()));
            }
            SessionAlgorithm::Hs256(secret) => (Algorithm::HS256, DecodingKey::from_secret(secret)),
            SessionAlgorithm::Es256(pem) => {
                (Algorithm::ES256, DecodingKey::from_ec_der(&read(Kind::P256, pem)?))
            }
            SessionAlgorithm::EdDsa(pem) => {
                (Algorithm::EdDSA, DecodingKey::from_ed_der(&read(Kind::Ed25519, pem)?))
            }
            SessionAlgorithm::Rs256(pem) => {
                (Algorithm::RS256, DecodingKey::from_rsa_der(&read(Kind::Rsa, pem)?))
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        validation.set_audience(&[audience]);
        if let Some(issuer) = issuer {
            validation.required_spec_claims.insert("iss".to_owned());
            validation.set_issuer(&[issuer]);
        }
        // The library would look at the system's clock; times are compared below, with the time
        // that comes in.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        Ok(Self { algorithm, key, validation })
    }

    /// The caller that a presented token stands for. Every defect gives the same `None`, so that
    /// guessing tokens reveals nothing.
    pub fn check(&self, presented: &str, now: Timestamp) -> Option<Caller> {
        if presented.len() > SESSION_TOKEN_BYTES_MAX {
            return None;
        }
        let token = jsonwebtoken::decode::<Claims>(presented, &self.key, &self.validation).ok()?;
        // A token's critical extensions must be understood, and we understand none.
        if token.header.crit.is_some() || !token.header.typ.is_none_or(|typ| is_ours(&typ)) {
            return None;
        }
        let claims = token.claims;
        if !is_now(&claims, now) || !is_name(&claims.sub, SUBJECT_CHARS_MAX) {
            return None;
        }
        let grant = Grant::new(&claims.roles, &claims.namespaces).ok()?;
        Some(Caller::new(Actor::new(&format!("user:{}", claims.sub)), grant))
    }
}

/// Whether a `typ` is one of [`TYPES`], a media type whose first part may be left out (RFC 7515,
/// section 4.1.9).
fn is_ours(typ: &str) -> bool {
    const PREFIX: &str = "application/";
    let rest = match typ.split_at_checked(PREFIX.len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case(PREFIX) => rest,
        _ => typ,
    };
    TYPES.iter().any(|own| own.eq_ignore_ascii_case(rest))
}

/// Whether a token is valid now, give or take [`LEEWAY_SECONDS`].
fn is_now(claims: &Claims, now: Timestamp) -> bool {
    // Exact to the microsecond for some 280 years.
    let now = now.as_micros() as f64 / 1e6;
    let leeway = LEEWAY_SECONDS as f64;
    let ends = claims.exp <= SECONDS_MAX;
    ends && now < claims.exp + leeway && claims.nbf.is_none_or(|begin| begin <= now + leeway)
}
