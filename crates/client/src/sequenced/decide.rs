//! What a client does next: the state of its file and an answer go in, the next step comes out. Pure.

use super::state::FileState;

/// What the server said of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// All of it is committed, now or before.
    Applied,
    /// The first so many of its transactions are committed, and the next one is refused.
    Refused { applied: u32 },
    /// Numbers before its first are missing.
    Gap { restored: bool },
    /// Its attempt is not above this one, which was refused.
    Stale { refused: u32 },
    /// One of its numbers belongs to another request.
    NumberTaken,
    /// The stream has no further numbers.
    Exhausted,
    /// The client id belongs to another caller.
    ForeignClient,
    /// The scope is another one than the request pins.
    OtherIncarnation,
    /// The bytes make no sense to the server, whenever they come.
    Malformed,
    /// The server did not judge it: a role is missing, the vault is gone.
    Unjudged,
}

/// What is known of earlier copies of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// None that could have arrived without an answer.
    Answered,
    /// One may have arrived, or still be on its way.
    Unknown,
}

/// What the server says of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamFacts {
    pub(crate) incarnation: Option<String>,
    pub(crate) restores: u64,
    pub(crate) last: u64,
    /// `None`: there is no further attempt.
    pub(crate) next_attempt: Option<u32>,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request is over, and its numbers are used up. The file may keep it: sent again, it gets
    /// the same answer.
    Applied(FileState),
    /// The request is over. This is stored before the caller is told: a client that is started again
    /// must not send what its caller was told has failed.
    Refused(FileState),
    /// This is stored, and then its request is sent.
    Send(FileState),
    /// The state of the stream is asked for; [`after_state`] goes on.
    AskState(Asking),
    /// Nothing is sent, and the file stays as it is.
    Stop(Stop),
}

/// Why the state of the stream is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Numbers are missing.
    Gap,
    /// The server refuses the bytes, and earlier copies of them may have met another version of it.
    Malformed,
}

/// Why a client does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Restored,
    OtherIncarnation,
    ForeignClient,
    NumberTaken,
    Exhausted,
    AttemptsExhausted,
    /// The server did not judge the request, and earlier copies of it may have arrived.
    Unsettled,
    /// What the server says cannot be.
    Nonsense,
}

/// The next step after an answer to the request of `state`.
pub(crate) fn after_answer(state: &FileState, told: Told, copies: Copies) -> Step {
    let Some(request) = &state.request else {
        return Step::Stop(Stop::Nonsense);
    };
    match told {
        // impl Q-9, Q-11: the next request has the next number.
        Told::Applied => {
            Step::Applied(FileState { committed: request.last(), request: None, ..state.clone() })
        }
        Told::Refused { applied } if applied < request.count => {
            Step::Refused(refused(state, applied))
        }
        // impl C-48: what the stream has lost is for a person to find.
        Told::Gap { restored: true } => Step::Stop(Stop::Restored),
        Told::Gap { restored: false } => Step::AskState(Asking::Gap),
        // Neither this attempt nor an earlier one can become new any more, so the same request may
        // go out under the next one (see C-42).
        Told::Stale { refused } if refused >= state.attempt => match refused.checked_add(1) {
            Some(attempt) => resent(state, request.first, attempt),
            None => Step::Stop(Stop::AttemptsExhausted),
        },
        Told::Refused { .. } | Told::Stale { .. } => Step::Stop(Stop::Nonsense),
        Told::NumberTaken => Step::Stop(Stop::NumberTaken),
        Told::Exhausted => Step::Stop(Stop::Exhausted),
        Told::ForeignClient => Step::Stop(Stop::ForeignClient),
        Told::OtherIncarnation => Step::Stop(Stop::OtherIncarnation),
        Told::Malformed | Told::Unjudged if copies == Copies::Answered => {
            Step::Refused(refused(state, 0))
        }
        Told::Malformed => Step::AskState(Asking::Malformed),
        Told::Unjudged => Step::Stop(Stop::Unsettled),
    }
}

/// The next step after the state of the stream, which was asked for because of a refusal.
pub(crate) fn after_state(state: &FileState, asked: Asking, facts: &StreamFacts) -> Step {
    let Some(request) = &state.request else {
        return Step::Stop(Stop::Nonsense);
    };
    if let Err(stop) = check(state, facts) {
        return Step::Stop(stop);
    }
    let state = FileState { restores: facts.restores, ..state.clone() };
    match asked {
        // The bytes are not committed, and wherever a copy of them arrives it is refused too.
        Asking::Malformed if facts.last < request.first => Step::Refused(refused(&state, 0)),
        Asking::Malformed => Step::Stop(Stop::Unsettled),
        // impl Q-10, C-8: the request goes on behind the last number that the stream has, whatever
        // this client believed.
        Asking::Gap => {
            let Some(attempt) = facts.next_attempt.map(|attempt| attempt.max(state.attempt)) else {
                return Step::Stop(Stop::AttemptsExhausted);
            };
            let first = facts.last.checked_add(1).filter(|first| {
                first.checked_add(u64::from(request.count).saturating_sub(1)).is_some()
            });
            match first {
                // A request that is not beyond the next number is no gap any more: another copy of
                // it, or another writer, was there meanwhile. The server judges it again.
                Some(first) => resent(&state, first.max(1).min(request.first), attempt),
                None => Step::Stop(Stop::Exhausted),
            }
        }
    }
}

/// Whether the server's stream is the one that the file goes with (impl C-47, C-48).
pub(crate) fn check(state: &FileState, facts: &StreamFacts) -> Result<(), Stop> {
    let pinned = state.incarnation.as_ref();
    if pinned.is_some_and(|pinned| facts.incarnation.as_ref() != Some(pinned)) {
        return Err(Stop::OtherIncarnation);
    }
    if facts.restores > state.restores && facts.last < state.committed {
        return Err(Stop::Restored);
    }
    Ok(())
}

/// The request is refused behind its first so many transactions. The attempt rises after every
/// refusal (impl C-42): late copies are told apart by it.
fn refused(state: &FileState, applied: u32) -> FileState {
    let first = state.request.as_ref().map(|request| request.first);
    let committed = match (first, applied) {
        (Some(first), 1..) => first + u64::from(applied) - 1,
        _ => state.committed,
    };
    // A client that has no further attempt is told so by the server, which keeps the last one.
    let attempt = state.attempt.saturating_add(1);
    FileState { committed, attempt, request: None, ..state.clone() }
}

/// The same operations under these numbers.
fn resent(state: &FileState, first: u64, attempt: u32) -> Step {
    let request = state.request.as_ref().and_then(|request| request.renumbered(first, attempt));
    match request {
        Some(request) => {
            let committed = state.committed.min(first - 1);
            Step::Send(FileState { committed, attempt, request: Some(request), ..state.clone() })
        }
        None => Step::Stop(Stop::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::{Door, KeptRequest, StreamName};
    use super::*;

    fn single(first: u64, attempt: u32) -> KeptRequest {
        let body = format!(
            r#"{{"client_id":"c","sequence":{first},"attempt":{attempt},"operations":[]}}"#
        );
        KeptRequest { door: Door::Transactions, first, count: 1, body }
    }

    fn run(first: u64, attempt: u32) -> KeptRequest {
        let second = first + 1;
        let body = format!(
            r#"{{"client_id":"c","attempt":{attempt},"transactions":[{{"sequence":{first},"operations":[]}},{{"sequence":{second},"operations":[]}}]}}"#
        );
        KeptRequest { door: Door::Runs, first, count: 2, body }
    }

    fn state(attempt: u32, request: Option<KeptRequest>) -> FileState {
        let committed = request.as_ref().map_or(0, |request| request.first - 1);
        FileState {
            stream: StreamName {
                server: "s".to_owned(),
                namespace: None,
                vault: None,
                client: "c".to_owned(),
            },
            incarnation: Some("i".to_owned()),
            restores: 1,
            committed,
            attempt,
            request,
        }
    }

    fn facts(last: u64, next_attempt: u32) -> StreamFacts {
        let incarnation = Some("i".to_owned());
        StreamFacts { incarnation, restores: 1, last, next_attempt: Some(next_attempt) }
    }

    fn idle(committed: u64, attempt: u32) -> FileState {
        FileState { committed, ..state(attempt, None) }
    }

    const ANSWERED: Copies = Copies::Answered;

    /// Q-9, Q-11, C-42: after a success the number rises by one (of a run by as many as it has) and
    /// the attempt stays; after a refusal the attempt rises, and the number is that of what was not
    /// applied.
    #[test]
    fn numbers_and_attempts() {
        let sent = state(3, Some(single(7, 3)));
        assert_eq!(after_answer(&sent, Told::Applied, ANSWERED), Step::Applied(idle(7, 3)));
        let refused = Told::Refused { applied: 0 };
        assert_eq!(after_answer(&sent, refused, Copies::Unknown), Step::Refused(idle(6, 4)));
        let sent = state(3, Some(run(7, 3)));
        assert_eq!(after_answer(&sent, Told::Applied, ANSWERED), Step::Applied(idle(8, 3)));
        let refused = Told::Refused { applied: 1 };
        assert_eq!(after_answer(&sent, refused, ANSWERED), Step::Refused(idle(7, 4)));
        let all = Told::Refused { applied: 2 };
        assert_eq!(after_answer(&sent, all, ANSWERED), Step::Stop(Stop::Nonsense));
    }

    /// Q-10, C-42: a gap leads to the state of the stream, and the same operations go out behind its
    /// last number, under an attempt that no refusal has reached.
    #[test]
    fn a_gap_is_closed() {
        let sent = state(3, Some(single(7, 3)));
        let gap = Told::Gap { restored: false };
        assert_eq!(after_answer(&sent, gap, ANSWERED), Step::AskState(Asking::Gap));
        let next = FileState { committed: 4, ..state(4, Some(single(5, 4))) };
        assert_eq!(after_state(&sent, Asking::Gap, &facts(4, 4)), Step::Send(next));
        // The attempt never falls.
        let next = FileState { committed: 0, ..state(3, Some(single(1, 3))) };
        assert_eq!(after_state(&sent, Asking::Gap, &facts(0, 1)), Step::Send(next));
        // A number that is there by now is asked for again as it is, and not moved up.
        let same = state(4, Some(single(7, 4)));
        assert_eq!(after_state(&sent, Asking::Gap, &facts(9, 4)), Step::Send(same));
        let sent = state(3, Some(run(7, 3)));
        let next = FileState { committed: 4, ..state(4, Some(run(5, 4))) };
        assert_eq!(after_state(&sent, Asking::Gap, &facts(4, 4)), Step::Send(next));
        let none = StreamFacts { next_attempt: None, ..facts(4, 1) };
        let end = Step::Stop(Stop::AttemptsExhausted);
        assert_eq!(after_state(&sent, Asking::Gap, &none), end);
    }

    /// C-42: what was overtaken by a refusal goes out under the next attempt.
    #[test]
    fn a_stale_attempt() {
        let sent = state(3, Some(single(7, 3)));
        let stale = |refused| after_answer(&sent, Told::Stale { refused }, ANSWERED);
        assert_eq!(stale(5), Step::Send(state(6, Some(single(7, 6)))));
        assert_eq!(stale(u32::MAX), Step::Stop(Stop::AttemptsExhausted));
        assert_eq!(stale(2), Step::Stop(Stop::Nonsense));
    }

    /// C-48: a stream that a restore has put behind the file stops the client, whether the answer
    /// says so or its count of restores has risen. One that a restore has not touched does not.
    #[test]
    fn a_restored_stream() {
        let sent = state(3, Some(single(7, 3)));
        let stop = Step::Stop(Stop::Restored);
        assert_eq!(after_answer(&sent, Told::Gap { restored: true }, ANSWERED), stop);
        let restored = |last| StreamFacts { restores: 2, ..facts(last, 4) };
        assert_eq!(after_state(&sent, Asking::Gap, &restored(4)), stop);
        assert_eq!(check(&sent, &restored(5)), Err(Stop::Restored));
        assert_eq!(check(&sent, &restored(6)), Ok(()));
        assert_eq!(check(&sent, &facts(5, 4)), Ok(()));
    }

    /// C-47: the number goes to no other incarnation; one that is not known yet is learned.
    #[test]
    fn another_incarnation() {
        let sent = state(3, Some(single(7, 3)));
        let stop = Stop::OtherIncarnation;
        assert_eq!(after_answer(&sent, Told::OtherIncarnation, ANSWERED), Step::Stop(stop));
        for incarnation in [None, Some("j".to_owned())] {
            let other = StreamFacts { incarnation, ..facts(7, 4) };
            assert_eq!(check(&sent, &other), Err(stop));
        }
        let fresh = FileState { incarnation: None, ..sent };
        assert_eq!(check(&fresh, &facts(6, 1)), Ok(()));
    }

    /// A refusal that says nothing of the number ends the request only if no copy of it can have
    /// been applied.
    #[test]
    fn refusals_of_the_door() {
        let sent = state(3, Some(single(7, 3)));
        for told in [Told::Malformed, Told::Unjudged] {
            assert_eq!(after_answer(&sent, told, ANSWERED), Step::Refused(idle(6, 4)));
        }
        let unknown = |told| after_answer(&sent, told, Copies::Unknown);
        assert_eq!(unknown(Told::Unjudged), Step::Stop(Stop::Unsettled));
        assert_eq!(unknown(Told::Malformed), Step::AskState(Asking::Malformed));
        let after = |last| after_state(&sent, Asking::Malformed, &facts(last, 1));
        assert_eq!(after(6), Step::Refused(idle(6, 4)));
        assert_eq!(after(7), Step::Stop(Stop::Unsettled));
    }

    /// What is not the server's to say of this request stops the client, and changes nothing.
    #[test]
    fn dead_ends() {
        let sent = state(3, Some(single(u64::MAX, 3)));
        for (told, stop) in [
            (Told::NumberTaken, Stop::NumberTaken),
            (Told::Exhausted, Stop::Exhausted),
            (Told::ForeignClient, Stop::ForeignClient),
        ] {
            assert_eq!(after_answer(&sent, told, Copies::Unknown), Step::Stop(stop));
        }
        assert_eq!(after_answer(&idle(6, 1), Told::Applied, ANSWERED), Step::Stop(Stop::Nonsense));
        let full = after_state(&sent, Asking::Gap, &facts(u64::MAX, 4));
        assert_eq!(full, Step::Stop(Stop::Exhausted));
    }
}
