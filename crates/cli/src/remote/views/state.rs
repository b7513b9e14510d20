//! How executions stand: the words, and the colours that go with them.

use indelible_client::api::execution::State;

use crate::screen::Tone;

/// Every state, in the order of a life.
const STATES: [State; 7] = [
    State::Running,
    State::Blocked,
    State::Cancelling,
    State::Held,
    State::Completed,
    State::Failed,
    State::Cancelled,
];

/// Its word, as the API has it.
pub(super) const fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Blocked => "blocked",
        State::Cancelling => "cancelling",
        State::Held => "held",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
    }
}

pub(super) const fn tone(state: State) -> Tone {
    match state {
        State::Running | State::Blocked => Tone::Busy,
        State::Cancelling | State::Held => Tone::Warn,
        State::Completed => Tone::Good,
        State::Failed => Tone::Bad,
        State::Cancelled => Tone::Faint,
    }
}

/// For clap: a state by its word.
pub(super) fn state(text: &str) -> Result<State, String> {
    let found = STATES.into_iter().find(|state| word(*state) == text);
    found.ok_or_else(|| format!("a state is one of {}", STATES.map(word).join(", ")))
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
