//! API keys: made, revoked, listed, checked. All are in memory; the store has them for ever.
//!
//! A change counts when it is durable: a key that was shown is on disk, and a key is refused from
//! the moment at which its revocation can be acknowledged.

mod secret;

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use indelible_api::access::{CreatedToken, NewToken, Role, Token};
use indelible_journal::Timestamp;
use indelible_records::tokens::{self, Token as Key, is_token_name};
pub use indelible_records::tokens::{TOKEN_NAME_CHARS_MAX, TokenId, TokenIdError};
use indelible_records::truths::Truth;
use indelible_records::{audit, audit::AuditSubject};
use indelible_runtime::Actor;
use indelible_store::{Lost, Position, ReadError, Store, SubmitError};
use subtle::Choice;

pub use self::secret::KEY_PREFIX;
use self::secret::{SecretHash, random};
use super::caller::{Caller, Grant, GrantError};

/// The most API keys that there can be, unless configured otherwise: some megabytes of memory,
/// and a list that can be answered at once.
pub const TOKENS_MAX: usize = 10_000;

/// How many rows are read at once when the keys are loaded.
const PAGE_ROWS: usize = 256;

/// Why a key was not made, revoked, listed or loaded. Nothing has changed, unless the store
/// stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Its name is invalid.
    #[error("invalid name of an API key: use 1 to {TOKEN_NAME_CHARS_MAX} visible ASCII characters")]
    Name,
    /// Its roles and namespaces are invalid.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// Its time of expiry cannot be read.
    #[error(
        "invalid expires_at: use RFC 3339, such as 2027-01-01T00:00:00Z, with at most microseconds"
    )]
    ExpiresAt,
    /// Its time of expiry has passed.
    #[error("expires_at must be in the future")]
    Expired,
    /// As many as allowed exist, and none has expired or was revoked.
    #[error("there are {0} API keys, which is the limit; revoke one that is no longer needed")]
    TooMany(usize),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store refused the batch.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The store stopped before it was durable.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A key in memory, and the position of its last change.
#[derive(Debug, Clone)]
struct CachedToken {
    key: Key,
    caller: Caller,
    position: Position,
}

impl CachedToken {
    fn new(key: Key, grant: Grant, position: Position) -> Self {
        let caller = Caller::new(Actor::new(&format!("client:{}", key.name)), grant);
        Self { key, caller, position }
    }

    /// One that was read from the store.
    fn read(id: TokenId, key: Key, position: Position) -> Result<Self, ReadError> {
        let role = |word: &String| Role::ALL.into_iter().find(|role| role.as_str() == word);
        let roles: Option<Vec<_>> = key.roles.iter().map(role).collect();
        let roles = roles.ok_or_else(|| tokens::damaged(id, "unknown role"))?;
        let grant = Grant::new(&roles, &key.namespaces);
        let grant = grant.map_err(|error| tokens::damaged(id, error.to_string()))?;
        Ok(Self::new(key, grant, position))
    }
}

/// A key, as people are shown it.
fn shown(id: TokenId, key: &Key, grant: &Grant) -> Token {
    Token {
        id: id.to_string(),
        name: key.name.clone(),
        roles: grant.roles().iter().collect(),
        namespaces: grant.namespaces().names(),
        created_at: key.created_at.to_string(),
        expires_at: key.expires_at.map(|time| time.to_string()),
        revoked_at: key.revoked_at.map(|time| time.to_string()),
    }
}

/// Since when a key has been expired or revoked; `None` if it is good.
fn over_since(key: &Key, now: Timestamp) -> Option<Timestamp> {
    let expired = key.expires_at.filter(|end| *end <= now);
    key.revoked_at.into_iter().chain(expired).min()
}

/// An audit entry about something other than an execution.
pub(crate) fn audited(
    at: Timestamp,
    actor: &Actor,
    action: &str,
    subject: &dyn std::fmt::Display,
) -> audit::Entry {
    audit::Entry::new(
        at,
        random(),
        actor.as_str(),
        action,
        AuditSubject::Subject(subject.to_string()),
    )
}

/// All keys, as they were read or changed last.
#[derive(Debug, Default)]
struct TokenCache {
    version: u64,
    keys: BTreeMap<TokenId, CachedToken>,
}

/// All API keys of a store.
pub struct Tokens {
    store: Store,
    tokens_max: usize,
    known: RwLock<TokenCache>,
    /// Serialises changes: each reads the cache, then changes it.
    changing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("count", &self.read().keys.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Loads the keys of a store; at most [`TOKENS_MAX`] can be made. Reads on this thread.
    pub fn open(store: Store) -> Result<Self, TokenError> {
        Self::open_bounded(store, TOKENS_MAX)
    }

    /// The same with another bound on how many can be made.
    pub fn open_bounded(store: Store, tokens_max: usize) -> Result<Self, TokenError> {
        let changing = tokio::sync::Mutex::default();
        let tokens = Self { store, tokens_max, known: RwLock::default(), changing };
        *tokens.write() = tokens.load()?;
        Ok(tokens)
    }

    /// Reads the keys again, if another process has changed them (D13). Whether one has. Reads on
    /// this thread.
    pub fn refresh(&self) -> Result<bool, TokenError> {
        let version = self.read().version;
        if Truth::Tokens.version(&self.store)? <= version {
            return Ok(false);
        }
        let loaded = self.load()?;
        let mut known = self.write();
        if loaded.version > known.version {
            *known = loaded;
        }
        Ok(true)
    }

    fn load(&self) -> Result<TokenCache, TokenError> {
        let snapshot = self.store.snapshot()?;
        let version = Truth::Tokens.version(&snapshot)?;
        let mut keys = BTreeMap::new();
        let mut last = None;
        loop {
            let page = tokens::next(&snapshot, last, PAGE_ROWS)?;
            let Some((id, _)) = page.value.last() else { break };
            last = Some(*id);
            for (id, key) in page.value {
                let held = self.store.damage().noted(CachedToken::read(id, key, page.position))?;
                keys.insert(id, held);
            }
        }
        Ok(TokenCache { version, keys })
    }

    fn read(&self) -> RwLockReadGuard<'_, TokenCache> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TokenCache> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a key, durable when this returns (C-38: with its audit entry). Its secret is in the
    /// returned value and nowhere else, so a key whose answer is lost can never be used.
    pub async fn create(
        &self,
        new: &NewToken,
        now: Timestamp,
        actor: &Actor,
    ) -> Result<CreatedToken, TokenError> {
        if !is_token_name(&new.name) {
            return Err(TokenError::Name);
        }
        let grant = Grant::new(&new.roles, &new.namespaces)?;
        let expires_at = new.expires_at.as_deref().map(str::parse).transpose();
        let expires_at = expires_at.map_err(|_| TokenError::ExpiresAt)?;
        if expires_at.is_some_and(|end: Timestamp| end <= now) {
            return Err(TokenError::Expired);
        }
        let id = TokenId::from_bytes(random());
        let (secret, hash) = secret::mint(id);
        let key = Key {
            name: new.name.clone(),
            secret_sha256: hash.0,
            roles: grant.roles().iter().map(|role| role.as_str().to_owned()).collect(),
            namespaces: grant.namespaces().names(),
            created_at: now,
            expires_at,
            revoked_at: None,
        };
        let token = shown(id, &key, &grant);

        let position = {
            let _one = self.changing.lock().await;
            let entry = audited(now, actor, "token create", &id);
            loop {
                let gone = self.room(now)?;
                let put = self.put(id, &key, &grant, gone, &entry).await?;
                if let Some(position) = put {
                    break position;
                }
            }
        };
        self.store.durable(position).await?;
        Ok(CreatedToken { token, secret })
    }

    /// Makes or changes a key, on condition that the cache is as new as the store. `None`: another
    /// process had changed the keys; the cache is reloaded, and the caller decides again.
    async fn put(
        &self,
        id: TokenId,
        key: &Key,
        grant: &Grant,
        gone: Option<TokenId>,
        entry: &audit::Entry,
    ) -> Result<Option<Position>, TokenError> {
        let version = self.read().version;
        // Between the acceptance of the commit and the change of the cache there is no `await`: a
        // caller that drops this future cannot leave the cache behind the store.
        match tokens::put(&self.store, version, (id, key), gone, entry).await {
            Ok(position) => {
                let mut known = self.write();
                known.version = version + 1;
                if let Some(gone) = gone {
                    known.keys.remove(&gone);
                }
                known.keys.insert(id, CachedToken::new(key.clone(), grant.clone(), position));
                Ok(Some(position))
            }
            Err(error) if Truth::Tokens.is_behind(&error) && self.refresh()? => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The key to delete to make room for one more: the one that has been over for longest. Without
    /// this, clients that renew their keys would one day be refused.
    fn room(&self, now: Timestamp) -> Result<Option<TokenId>, TokenError> {
        let keys = &self.read().keys;
        if keys.len() < self.tokens_max {
            return Ok(None);
        }
        let over = keys.iter().filter_map(|(id, held)| Some((over_since(&held.key, now)?, *id)));
        over.min().map(|(_, id)| Some(id)).ok_or(TokenError::TooMany(keys.len()))
    }

    /// Revokes a key: when this returns, it is durable and the key works no longer. Revoking it
    /// again changes nothing. None: there is no such key.
    pub async fn revoke(
        &self,
        id: TokenId,
        now: Timestamp,
        actor: &Actor,
    ) -> Result<Option<Token>, TokenError> {
        let (token, position) = {
            let _one = self.changing.lock().await;
            loop {
                let held = self.read().keys.get(&id).cloned();
                let Some(CachedToken { mut key, caller, position }) = held else {
                    if self.refresh()? {
                        continue;
                    }
                    return Ok(None);
                };
                let mut position = Some(position);
                if key.revoked_at.is_none() {
                    key.revoked_at = Some(now);
                    let entry = audited(now, actor, "token revoke", &id);
                    position = self.put(id, &key, caller.grant(), None, &entry).await?;
                }
                if let Some(position) = position {
                    break (shown(id, &key, caller.grant()), position);
                }
            }
        };
        // Also for a revocation by an earlier request: it may not be on disk yet (D2).
        self.store.durable(position).await?;
        Ok(Some(token))
    }

    /// All keys, the oldest first, as they are on disk.
    pub async fn list(&self) -> Result<Vec<Token>, TokenError> {
        let (tokens, position) = {
            let keys = &self.read().keys;
            let mut all: Vec<_> = keys.iter().collect();
            all.sort_by_key(|(id, held)| (held.key.created_at, **id));
            let shown =
                |(id, held): &(&TokenId, &CachedToken)| shown(**id, &held.key, held.caller.grant());
            let tokens = all.iter().map(shown).collect();
            // A key that was deleted to make room went at the position of the key that replaced it.
            (tokens, keys.values().map(|held| held.position).max())
        };
        if let Some(position) = position {
            self.store.durable(position).await?;
        }
        Ok(tokens)
    }

    /// The caller that a presented key stands for. Unknown, wrong, revoked and expired keys take
    /// one path to one answer: one hash, one comparison.
    pub fn check(&self, presented: &str, now: Timestamp) -> Option<Caller> {
        let (id, hash) = secret::parse(presented)?;
        let known = self.read();
        let held = known.keys.get(&id);
        let kept = held.map_or(SecretHash::UNMATCHABLE, |held| SecretHash(held.key.secret_sha256));
        let good = held.is_some_and(|held| self.is_good(held, now));
        let passes = kept.matches(&hash) & Choice::from(u8::from(good));
        held.filter(|_| bool::from(passes)).map(|held| held.caller.clone())
    }

    fn is_good(&self, held: &CachedToken, now: Timestamp) -> bool {
        let expired = held.key.expires_at.is_some_and(|end| end <= now);
        // A revocation counts when it is durable: a refusal shows it, and a crash must not take
        // back what was shown (D2).
        let revoked = held.key.revoked_at.is_some() && held.position <= self.store.durable_now();
        !expired && !revoked
    }
}
