//! Dead letters: messages that did not arrive, or of which it is unknown, and what people decide.
//!
//! An [`Entry`] never changes; it is sealed with its hash and the server's signature. What moves is
//! its [`EntryState`]:
//!
//! ```text
//!                    RETRY, REDELIVER              the last of its successors arrived
//!   PENDING_REVIEW ───────────────────▶ RETRY_QUEUED ──────────────────────────────▶ RECOVERED
//!     │    ▲  │                           │
//!     │    └──┘ GOVERNANCE_ESCALATION     │ a successor is abandoned
//!     └───────────────────────────────────┴───▶ ABANDONED
//! ```
//!
//! A [`Decision`] is bytes that a person signed. [`decide`] says whether it applies, and what then
//! changes; nothing here decides by itself (see O-33).

mod alerts;
mod chain;
mod decision;
mod entry;
mod json;
mod rules;

pub use alerts::{AlertChannel, AlertConfig, Alerts, alerts};
pub use chain::{ChainFault, DecisionRecord, verify_chain};
pub use decision::{
    Analysis, Decision, DecisionError, DecisionPayload, DecisionType, Edits, EntryReference,
    RegisteredKey,
};
pub use entry::{
    Ancestor, Entry, EntryState, IntegrityError, Original, Profile, RETENTION, SealedEntry, Signer,
    Status, entry_id,
};
pub use json::{EntryJson, FailureJson, LastErrorJson, NotificationJson, OriginalJson};
pub use rules::{
    Authority, Decided, DecisionFacts, DecisionRefusal, Proof, ReceiverStatus, Reissue,
    ReissueVerdict, Role, admit_reissue, decide,
};

/// What Ed25519 signatures are over: the domain, then the exact bytes that are stored (see C-59).
pub mod domains {
    /// Before the bytes of an envelope.
    pub const MESSAGE: &[u8] = b"indelible.message.v1";
    /// Before the bytes of a decision.
    pub const DECISION: &[u8] = b"indelible.decision.v1";
    /// Before the bytes of a dead letter.
    pub const ENTRY: &[u8] = b"indelible.entry.v1";
}
