//! Bounds that a guest can run into. Those that a guest can notice during replay are constants and
//! not options: a changed option would make a replay take another path (D6).

use indelible_execution::guest;
pub use indelible_execution::guest::PROMISES_AWAITED_MAX;

use super::state::Halt;

/// How many bytes one `random` gives at most. Part of the contract.
pub const RANDOM_BYTES_MAX: u32 = 65_536;

/// How long the message of a failure is at most, in bytes; longer ones are cut. It is journaled.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// How long a logged message, the name of a field or its value is at most, in bytes; longer ones
/// are cut.
pub const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// How many fields a logged line has at most; the rest is left out.
pub const LOG_FIELDS_MAX: usize = 64;

/// How many frames of a guest's stack a failure names.
pub(super) const BACKTRACE_FRAMES_MAX: usize = 8;

/// How long the name of a frame is at most, in bytes.
pub(super) const FRAME_NAME_BYTES_MAX: usize = 160;

/// Cuts a text at a character boundary, and shows that it was cut.
pub(super) fn cut(mut text: String, bytes_max: usize) -> String {
    const MARK: &str = "…";
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(MARK.len())));
        text.push_str(MARK);
    }
    text
}

/// Refuses a name that is too long to be journaled.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Halt> {
    let bytes_max = indelible_journal::names::NAME_BYTES_MAX;
    if name.len() <= bytes_max {
        return Ok(());
    }
    Err(Halt::Trap(format!(
        "the name of a {what} has {} bytes; at most {bytes_max} are allowed",
        name.len()
    )))
}

/// Refuses an await of too many promises.
pub(super) fn check_promises(promises: &[u32]) -> Result<(), Halt> {
    guest::check_promises(promises).map_err(Halt::Trap)
}
