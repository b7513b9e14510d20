//! The specification of operations, read slowly: a list of everything that happened to one
//! operation, and answers that are found by reading the list from its beginning. It keeps no state
//! and shares no code with the crate; above each question stands what the text says.

use indelible_journal::{Durability, Idempotency, RetryClass};

/// Something that happened. The numbers of runs count from 1; requests and outcomes are letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A request attempt arrived. `new_enough`: if there is no record of its id, it can be a new
    /// one.
    Attempt { asks_for: char, new_enough: bool },
    /// The handler of a run returned.
    Returned { run: u64, outcome: char },
    /// A run was lost with the process.
    Lost { run: u64 },
    /// What a run had returned was found on disk.
    Found { run: u64, outcome: char },
    /// A caller asked to cancel.
    CancelAsked,
    /// A caller went away.
    CallerGone { others_wait: bool },
    /// A person said that it has this outcome: what happened, or that nothing did.
    PersonSaid { outcome: char },
    /// A person said: run it again.
    PersonRunsAgain,
}

/// What the text says about the operation after all that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    /// No attempt has been admitted.
    Absent,
    /// This run is the owner.
    Live(u64),
    /// Given up.
    Released,
    /// This is the outcome.
    Sealed(char),
    /// There is no proof of what happened.
    Indeterminate,
}

/// What an attempt meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meets {
    Start,
    Attach,
    Replay(char),
    RunAgain,
    Conflict,
    NotNewEnough,
    Indeterminate,
}

/// Everything that happened to one operation of a method of this class.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) class: RetryClass,
    pub(crate) happened: Vec<Happened>,
}

impl Story {
    pub(crate) fn new(class: RetryClass) -> Self {
        Self { class, happened: Vec::new() }
    }

    fn volatile(&self) -> bool {
        self.class.durability == Durability::Volatile
    }

    fn idem(&self) -> bool {
        self.class.idempotency == Idempotency::Idem
    }

    /// "No record of this id: a new attempt is admitted." The first attempt that could be new is
    /// the one that was admitted; an id that is recognized as expired is rejected instead.
    fn admitted(&self) -> Option<usize> {
        self.happened
            .iter()
            .position(|thing| matches!(thing, Happened::Attempt { new_enough: true, .. }))
    }

    /// "The same id with a different method or arguments is a conflict": what the id stands for is
    /// what the admitted attempt asked for.
    fn stands_for(&self) -> Option<char> {
        match self.happened[self.admitted()?] {
            Happened::Attempt { asks_for, .. } => Some(asks_for),
            _ => None,
        }
    }

    /// The first place after `place` where something is so.
    fn first_after(&self, place: usize, is_so: impl Fn(Happened) -> bool) -> Option<usize> {
        (place + 1..self.happened.len()).find(|place| is_so(self.happened[*place]))
    }

    /// Where each run began, in order: the admission; and every later place where the text permits
    /// a re-execution.
    pub(crate) fn beginnings(&self) -> Vec<usize> {
        let mut beginnings: Vec<usize> = self.admitted().into_iter().collect();
        while let Some(began) = beginnings.last().copied() {
            match self.began_again(began, beginnings.len() as u64) {
                Some(place) => beginnings.push(place),
                None => break,
            }
        }
        beginnings
    }

    /// Where the run that began here stopped being the owner: "handler returns", "crash before a
    /// recoverable outcome", "release or cancel (volatile only)", whichever transition wins first.
    fn stopped(&self, began: usize, run: u64) -> Option<usize> {
        self.first_after(began, |thing| match thing {
            // "Returning from the handler seals." What is found on disk after a crash was returned.
            // "Crash or lost state before a recoverable outcome."
            Happened::Returned { run: of, .. }
            | Happened::Found { run: of, .. }
            | Happened::Lost { run: of } => of == run,
            // "An explicit cancellation MAY release a volatile operation"; "for a persist method it
            // does not authorize release". This runtime uses the permission.
            Happened::CancelAsked => self.volatile(),
            // "Disconnect or dropped interest MAY release a volatile operation", used when no
            // caller is left: "a duplicate attaches and observes the same eventual resolution".
            Happened::CallerGone { others_wait } => self.volatile() && !others_wait,
            // "At most one live owner": no attempt and no person starts another, or ends this one.
            Happened::Attempt { .. } | Happened::PersonSaid { .. } | Happened::PersonRunsAgain => {
                false
            }
        })
    }

    /// Where the outcome of the operation was decided while this run was the last, and what it is.
    fn sealed_in(&self, began: usize, run: u64) -> Option<(usize, char)> {
        let stopped = self.stopped(began, run)?;
        match self.happened[stopped] {
            Happened::Returned { outcome, .. } | Happened::Found { outcome, .. } => {
                Some((stopped, outcome))
            }
            // "Indeterminate: recover a sealed outcome from durable state"; or a person says.
            Happened::Lost { .. } => {
                let place = self.first_after(stopped, |thing| match thing {
                    Happened::Found { run: of, .. } => of == run,
                    Happened::PersonSaid { .. } => true,
                    _ => false,
                })?;
                match self.happened[place] {
                    Happened::Found { outcome, .. } | Happened::PersonSaid { outcome } => {
                        Some((place, outcome))
                    }
                    _ => None,
                }
            }
            // Released: "cancellation races with sealing; what wins first is what retries observe".
            _ => None,
        }
    }

    /// Where the next run began after the one that began here.
    fn began_again(&self, began: usize, run: u64) -> Option<usize> {
        let stopped = self.stopped(began, run)?;
        let lost = matches!(self.happened[stopped], Happened::Lost { .. });
        let returned =
            matches!(self.happened[stopped], Happened::Returned { .. } | Happened::Found { .. });
        // "A sealed failure MUST be replayed", never attempted a second time.
        if returned {
            return None;
        }
        let again = self.first_after(stopped, |thing| match thing {
            // "Released, or Indeterminate, and idem: the retry MAY re-execute under the same id";
            // "not idem: MUST NOT". The same operation: what the id stands for.
            Happened::Attempt { asks_for, .. } => {
                self.idem() && Some(asks_for) == self.stands_for()
            }
            // "MUST NOT re-execute unless some stronger proof outside": a person, for what was
            // lost. A released operation is not a person's to decide.
            Happened::PersonRunsAgain => lost,
            _ => false,
        })?;
        // "Sealed is absorbing": an outcome that was decided before leaves nothing to run.
        match self.sealed_in(began, run) {
            Some((sealed, _)) if sealed < again => None,
            _ => Some(again),
        }
    }

    /// How the operation stands after everything.
    pub(crate) fn stands(&self) -> Stands {
        let beginnings = self.beginnings();
        let run = beginnings.len() as u64;
        let Some(began) = beginnings.last().copied() else { return Stands::Absent };
        if let Some((_, outcome)) = self.sealed_in(began, run) {
            return Stands::Sealed(outcome);
        }
        match self.stopped(began, run).map(|place| self.happened[place]) {
            None => Stands::Live(run),
            // "It cannot prove whether the operation reached a terminal outcome."
            Some(Happened::Lost { .. }) => Stands::Indeterminate,
            Some(_) => Stands::Released,
        }
    }

    /// What an attempt meets that arrives now.
    pub(crate) fn meets(&self, asks_for: char, new_enough: bool) -> Meets {
        // "A different method or different arguments: MUST reject as a conflict."
        if self.stands_for().is_some_and(|known| known != asks_for) {
            return Meets::Conflict;
        }
        match self.stands() {
            // "If it can be recognized as expired, reject rather than treat as Absent."
            Stands::Absent if !new_enough => Meets::NotNewEnough,
            // "Absent: admit and start."
            Stands::Absent => Meets::Start,
            // "A duplicate while Live MUST attach."
            Stands::Live(_) => Meets::Attach,
            // "Sealed: MUST replay."
            Stands::Sealed(outcome) => Meets::Replay(outcome),
            // "Released or Indeterminate: idem MAY re-execute, non-idem fails closed."
            Stands::Released | Stands::Indeterminate if self.idem() => Meets::RunAgain,
            Stands::Released | Stands::Indeterminate => Meets::Indeterminate,
        }
    }
}
