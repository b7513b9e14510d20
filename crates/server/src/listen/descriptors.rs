//! How many files and sockets the process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of the descriptors, the part that connections may take, in percent: the rest is for the store's
/// files and for effects.
const PERCENT_MAX: u64 = 75;

/// Raises the limit as far as the process may, and says how many connections fit. If the limit
/// cannot be raised, the server serves within it.
pub(super) fn connections_max(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let _ = setrlimit(Resource::Nofile, raised);
    }
    // None is no limit.
    let Some(descriptors) = getrlimit(Resource::Nofile).current else { return wanted };
    let part = (descriptors / 100).saturating_mul(PERCENT_MAX).max(1);
    wanted.min(usize::try_from(part).unwrap_or(usize::MAX))
}
