//! The states of executions in words, and their colours.

use indelible_client::api::execution::State;

use crate::screen::Tone;

/// Every state, in the order of an execution's life.
const STATES: [State; 8] = [
    State::Running,
    State::Blocked,
    State::Cancelling,
    State::Stuck,
    State::Completed,
    State::Failed,
    State::Cancelled,
    State::Indeterminate,
];

/// The state's word in the API.
pub(super) const fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Blocked => "blocked",
        State::Cancelling => "cancelling",
        State::Stuck => "stuck",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::Indeterminate => "indeterminate",
    }
}

pub(super) const fn tone(state: State) -> Tone {
    match state {
        State::Running | State::Blocked => Tone::Busy,
        State::Cancelling | State::Stuck | State::Indeterminate => Tone::Warn,
        State::Completed => Tone::Good,
        State::Failed => Tone::Bad,
        State::Cancelled => Tone::Faint,
    }
}

/// For clap: a state by its word.
pub(super) fn state(text: &str) -> Result<State, String> {
    let found = STATES.into_iter().find(|state| word(*state) == text);
    found.ok_or_else(|| format!("unknown state: use one of {}", STATES.map(word).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are those of the API.
    #[test]
    fn words_are_those_of_the_api() {
        for known in STATES {
            assert_eq!(serde_json::to_value(known).unwrap(), word(known));
            assert_eq!(state(word(known)), Ok(known));
        }
        assert!(state("Running").is_err() && state("").is_err());
    }
}
