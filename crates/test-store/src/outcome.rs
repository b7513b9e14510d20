//! An outcome on one line: what the process says, and what the store must say in the end.

use indelible_journal::Ending;

/// How an execution ended, in words without a line's end.
pub fn text(ending: &Ending) -> String {
    match ending {
        Ending::Completed(payload) => {
            format!("completed {}", String::from_utf8_lossy(&payload.bytes))
        }
        Ending::Failed(failure) => format!("failed {}", failure.message),
        Ending::Cancelled(reason) => format!("cancelled {reason}"),
    }
}
