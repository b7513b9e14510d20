//! API keys, roles, and the record of who did what.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a credential may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Start and call functions, and look at executions.
    Call,
    /// Look at executions, signal, cancel, resolve, release. Make, read and delete vaults, make and
    /// delete endpoints.
    Operate,
    /// Read vaults.
    Read,
    /// Read vaults and write to them.
    Write,
    /// Send messages, and look at them.
    Send,
    /// Look at messages, and decide about dead letters.
    Decide,
    /// Deploy components.
    Deploy,
    /// Make and revoke API keys, read the audit record, and all the rest.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Call,
        Self::Operate,
        Self::Read,
        Self::Write,
        Self::Send,
        Self::Decide,
        Self::Deploy,
        Self::Admin,
    ];

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Operate => "operate",
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
            Self::Decide => "decide",
            Self::Deploy => "deploy",
            Self::Admin => "admin",
        }
    }
}

/// An API key to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What it is for, in words for people. Audit records name its actor `client:NAME`.
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[!-~]+$"))]
    pub name: String,
    /// What it may do.
    #[schemars(length(min = 1))]
    pub roles: Vec<Role>,
    /// In which namespaces; `*` is all of them.
    #[schemars(length(min = 1, max = 64), inner(regex(pattern = r"^([a-z0-9_-]{1,64}|\*)$")))]
    pub namespaces: Vec<String>,
    /// When it ends, RFC 3339; never, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
}

/// An API key that was made. Its secret is shown this once, and by `Debug` not at all.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// What is known of it.
    pub token: Token,
    /// What is sent as `Authorization: Bearer …`.
    pub secret: String,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub roles: Vec<Role>,
    /// In which namespaces; `*` is all of them.
    pub namespaces: Vec<String>,
    /// When it was made.
    pub created_at: String,
    /// When it ends; never, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// All API keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// The oldest first.
    pub tokens: Vec<Token>,
}

/// Who a credential stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhoAmI {
    /// `user:…`, `client:…` or `system:…`.
    pub actor: String,
    /// What it may do.
    pub roles: Vec<Role>,
    /// In which namespaces; `*` is all of them.
    pub namespaces: Vec<String>,
}

/// An entry of the audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When.
    pub at: String,
    /// Who.
    pub actor: String,
    /// What: `start`, `signal`, `cancel`, `resolve …`, `release`, `deploy` and so on.
    pub action: String,
    /// To which execution, and which attempt at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<String>,
    /// To which of its promises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_id: Option<String>,
    /// To what else: a component, an API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Why.
    pub reason: String,
}

/// A page of the audit record, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditPage {
    /// The page.
    pub entries: Vec<AuditEntry>,
    /// Where to go on: `cursor` of the next request. None: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
