//! One row of a timeline as a bar of characters.

use super::spans::{Segment, Span, State};

/// An instant: something that took no time at all.
pub(crate) const INSTANT: char = '│';
/// In the last cell of a row that the journal does not see the end of; the cell before it shows the
/// row's last state.
pub(crate) const NOT_ENDED: char = '>';

pub(crate) fn glyph(state: State) -> char {
    match state {
        State::Running => '█',
        State::Cancelling => '▒',
        State::Waiting => '─',
        State::Scheduled => '░',
        State::Retrying => '·',
        State::Buffered => '╌',
        State::Unknown => '?',
    }
}

/// A row as `cells` characters. A cell shows the state that held for most of it. A row that took
/// time, however little, has at least one cell; a row that took none has a mark.
pub(crate) fn bar(row: &Span, total: u64, cells: usize) -> String {
    let mut painted = vec![' '; cells];
    paint(&row.segments, total, &mut painted);
    if let Some(now) = row.now() {
        // At the end of the axis, or at its beginning if no time has passed.
        let last = if total == 0 { 1 } else { cells - 1 };
        painted[last - 1] = glyph(now);
        painted[last] = NOT_ENDED;
    } else if let (true, Some(first)) = (painted.iter().all(|c| *c == ' '), row.segments.first()) {
        let at = u128::from(first.start_us) * cells as u128 / u128::from(total.max(1));
        painted[usize::try_from(at).unwrap_or(cells).min(cells - 1)] = INSTANT;
    }
    painted.into_iter().collect()
}

/// Both axes are scaled so that nothing is rounded: time by the number of cells, cells by the
/// total time.
fn paint(segments: &[Segment], total: u64, painted: &mut [char]) {
    let (total, cells) = (u128::from(total.max(1)), painted.len());
    // The time of each state in the current cell; the latest state is last.
    let mut held: Vec<(State, u128)> = Vec::new();
    let mut at = 0;
    let mut show = |cell: usize, held: &mut Vec<(State, u128)>| {
        if let Some((state, _)) = held.iter().max_by_key(|(_, time)| *time) {
            painted[cell] = glyph(*state);
        }
        held.clear();
    };
    for segment in segments {
        let (start, end) = (u128::from(segment.start_us), u128::from(segment.end_us));
        let (start, end) = (start * cells as u128, end * cells as u128);
        let first = usize::try_from(start / total).unwrap_or(cells).min(cells);
        let last = usize::try_from(end.div_ceil(total)).unwrap_or(cells).min(cells);
        for cell in first..last {
            let (left, right) = (cell as u128 * total, (cell as u128 + 1) * total);
            let time = end.min(right).saturating_sub(start.max(left));
            if time == 0 {
                continue;
            }
            if cell != at {
                show(at, &mut held);
                at = cell;
            }
            // The later of two with the same time comes last, where `max_by_key` prefers it.
            let before = held.iter().position(|(state, _)| *state == segment.state);
            let before = before.map_or(0, |place| held.remove(place).1);
            held.push((segment.state, before + time));
        }
    }
    show(at, &mut held);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(segments: &[(State, u64, u64)], total: u64) -> String {
        let segments: Vec<Segment> = segments
            .iter()
            .map(|(state, start_us, end_us)| Segment {
                state: *state,
                start_us: *start_us,
                end_us: *end_us,
            })
            .collect();
        let mut painted = vec![' '; 10];
        paint(&segments, total, &mut painted);
        painted.into_iter().collect()
    }

    #[test]
    fn a_cell_shows_what_held_for_the_most_of_it() {
        use State::{Running, Scheduled, Waiting};
        assert_eq!(painted(&[(Running, 0, 4), (Waiting, 4, 100)], 100), "──────────");
        assert_eq!(painted(&[(Running, 0, 6), (Waiting, 6, 100)], 100), "█─────────");
        assert_eq!(painted(&[(Running, 0, 5), (Waiting, 5, 100)], 100), "──────────", "the later");
        let bursts = [(Running, 0, 3), (Waiting, 3, 7), (Running, 7, 10)];
        assert_eq!(painted(&bursts, 100), "█         ", "times of one state add up");
        let tie = [(Running, 0, 2), (Waiting, 2, 6), (Running, 6, 8), (Scheduled, 8, 10)];
        assert_eq!(painted(&tie, 100), "█         ", "and so does what comes later");
        assert_eq!(painted(&[(Running, 0, 95), (Waiting, 95, 95)], 100), "██████████");
    }

    #[test]
    fn what_took_time_has_a_cell_and_nothing_leaves_the_bar() {
        use State::{Running, Waiting};
        assert_eq!(painted(&[(Running, 0, 1)], u64::MAX), "█         ", "a moment among ages");
        assert_eq!(painted(&[(Running, 99, 100)], 100), "         █");
        assert_eq!(painted(&[(Running, u64::MAX - 1, u64::MAX)], u64::MAX), "         █");
        assert_eq!(painted(&[(Waiting, 0, u64::MAX)], u64::MAX), "──────────");
        assert_eq!(painted(&[(Running, 0, 0)], 0), "          ", "an instant is not painted here");
        assert_eq!(painted(&[(Running, 50, 50)], 100), "          ");
    }
}
