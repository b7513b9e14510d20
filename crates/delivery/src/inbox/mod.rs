//! The inbox: messages that arrive, and what of them is remembered.
//!
//! 1. [`Source::arrive`] checks the size, verifies the signature and finds the id. What fails there
//!    leaves no row, so that a forged id cannot block the true message (see O-19).
//! 2. The caller looks up (source, id), and [`judge`] says what the message meets.
//! 3. A fresh one is processed; its [`InboxRow`] and its effect are one commit (see C-53). Until that is
//!    durable its duplicates wait in memory, and nothing is answered.

mod row;
mod source;
mod window;

pub use row::{Arrival, InboxRow, Known, Reception, Verdict, judge};
pub use source::{
    HmacSettings, IdPlace, PresetSettings, Source, SourceRefusal, SourceSettings, Target,
    TargetSettings,
};
pub use window::{Deduplication, EvictionPolicy, PurgeHorizon, WindowError, window_floor};
