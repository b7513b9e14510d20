//! The rows of a timeline: all of them or, for a long execution, the first and the last, so that
//! memory does not grow with the number of events.

use std::collections::VecDeque;

use super::spans::Span;

/// A bar has at most a thousand cells, so more segments would not show.
const SEGMENTS_MAX: usize = 8_192;

/// How many rows are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// All rows. There are none for join sets, which the timeline of a journal does not have.
    None,
    /// The first so many rows, and the last so many.
    Ends(usize, usize),
}

/// Rows by their number, in the order in which they began.
#[derive(Clone)]
pub(super) struct KeptRows {
    bound: Bound,
    first: Vec<Span>,
    last: VecDeque<Span>,
    /// How many rows were dropped between `first` and `last`.
    between: u64,
}

impl KeptRows {
    pub(super) fn new(bound: Bound) -> Self {
        Self { bound, first: Vec::new(), last: VecDeque::new(), between: 0 }
    }

    pub(super) fn has_join_sets(&self) -> bool {
        self.bound != Bound::None
    }

    /// Adds a row; returns its number, and the row that was dropped for it.
    pub(super) fn push(&mut self, row: Span) -> (u64, Option<Span>) {
        let number = self.first.len() as u64 + self.between + self.last.len() as u64;
        match self.bound {
            Bound::Ends(first, last) if self.first.len() >= first => {
                self.last.push_back(row);
                let dropped = (self.last.len() > last).then(|| self.last.pop_front()).flatten();
                self.between += u64::from(dropped.is_some());
                (number, dropped)
            }
            _ => {
                self.first.push(row);
                (number, None)
            }
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Span> {
        match self.place(number)? {
            (true, place) => self.first.get(place),
            (false, place) => self.last.get(place),
        }
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Span> {
        let row = match self.place(number)? {
            (true, place) => self.first.get_mut(place),
            (false, place) => self.last.get_mut(place),
        }?;
        if self.bound != Bound::None && row.segments.len() > SEGMENTS_MAX {
            row.thin();
        }
        Some(row)
    }

    /// Whether the row is in `first`, and its index there or in `last`; none if it was dropped.
    fn place(&self, number: u64) -> Option<(bool, usize)> {
        let number = usize::try_from(number).ok()?;
        if number < self.first.len() {
            return Some((true, number));
        }
        let between = usize::try_from(self.between).ok()?;
        (number - self.first.len()).checked_sub(between).map(|place| (false, place))
    }

    /// Bounds the segments of the execution's own row.
    pub(super) fn thin(&self, own: &mut Span) {
        if self.bound != Bound::None && own.segments.len() > SEGMENTS_MAX {
            own.thin();
        }
    }

    /// All kept rows; with the index before which rows were dropped, and how many.
    pub(super) fn into_rows(self) -> (Vec<Span>, Option<(usize, u64)>) {
        let gap = (self.between > 0).then_some((self.first.len(), self.between));
        let mut rows = self.first;
        rows.extend(self.last);
        (rows, gap)
    }
}

#[cfg(test)]
mod tests {
    use indelible_journal::{AwaitKind, Event, WaitSet};

    use super::super::spans::Spans;
    use super::*;

    /// A long execution takes bounded memory, and its bar still spans all of it.
    #[test]
    fn an_execution_that_never_ends_is_held_in_little() {
        let id = "9c".repeat(32).parse().unwrap();
        let waiting_on = WaitSet::new(&id, []).unwrap();
        let mut spans = Spans::new("loop".to_owned(), Bound::Ends(3, 3));
        for turn in 0..50_000_u64 {
            let kind = AwaitKind::Signal { name: "go".parse().unwrap(), promise_id: id.child(0) };
            let waits = Event::ExecutionAwaiting { waiting_on: waiting_on.clone(), kind };
            spans.step(&waits, 10 * turn + 4);
            spans.step(&Event::ExecutionResumed, 10 * turn + 9);
        }
        let timeline = spans.finish(500_000);
        assert_eq!(timeline.rows.len(), 7);
        assert_eq!(timeline.between, Some((4, 49_994)));
        let own = &timeline.rows[0];
        assert!(own.segments.len() <= SEGMENTS_MAX + 2, "{}", own.segments.len());
        assert_eq!(own.segments[0].start_us, 0);
        assert!(own.segments.is_sorted_by(|a, b| a.end_us == b.start_us));
        assert_eq!(own.segments.last().unwrap().end_us, 500_000);
    }
}
