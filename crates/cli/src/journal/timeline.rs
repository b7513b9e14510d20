//! An execution as bars over time: plain text, readable without colour.

use std::io::{self, Write};

use super::show::Shown;
use super::spans::{End, Segment, Span, State, Timeline};
use super::table::write_header;
use super::text::{duration, plain};

/// Longer names are cut: the bars need the room.
const NAME_CHARS_MAX: usize = 24;
/// A bar is never narrower, whatever the terminal.
const BAR_CELLS_MIN: usize = 20;
/// An instant: something that took no time at all.
const INSTANT: char = '│';
/// In the last cell of what the journal does not see the end of.
const NOT_ENDED: char = '>';

pub(super) fn write(
    shown: &Shown,
    timeline: &Timeline,
    columns: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    write_header(shown, out)?;
    let rows: Vec<[String; 4]> = timeline.rows.iter().map(labels).collect();
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [name, id, attempts, end] = [0, 1, 2, 3].map(width);
    let left = name + 2 + id + if attempts == 0 { 0 } else { 1 + attempts };
    let cells = columns.saturating_sub(left + 2 + 2 + end).max(BAR_CELLS_MIN);

    let bars: Vec<String> =
        timeline.rows.iter().map(|row| bar(row, timeline.total_us, cells)).collect();
    writeln!(out, "{:left$}  {}", "", axis(timeline.total_us, cells))?;
    for ([what, promise, tries, ended], bar) in rows.iter().zip(&bars) {
        let mut label = format!("{what:name$}  {promise:id$}");
        if attempts > 0 {
            label = format!("{label} {tries:attempts$}");
        }
        writeln!(out, "{label}  {bar}  {ended}")?;
    }
    writeln!(out)?;
    writeln!(out, "{}", legend(&bars))
}

/// Name, id, attempts if there were several, and how it ended.
fn labels(row: &Span) -> [String; 4] {
    let id = row.promise_id.as_ref().map_or_else(String::new, |promise| {
        promise.path().iter().fold("root".to_owned(), |id, segment| format!("{id}.{segment}"))
    });
    let attempts = match row.attempts {
        Some(attempts @ 2..) => format!("×{attempts}"),
        _ => String::new(),
    };
    let took = duration(row.end_us - row.start_us);
    let end = match row.end {
        End::Ok => format!("✓ {took}"),
        End::Err(kind) => format!("✗ {took} {kind}"),
        End::Abandoned => format!("- {took} not received"),
        End::Open => format!("… {took}"),
    };
    [plain(&row.name, NAME_CHARS_MAX), id, attempts, end]
}

/// The cells that a stretch takes: at least one, never past the end.
fn cells_of(segment: &Segment, total: u64, cells: usize) -> (usize, usize) {
    let (total, wide) = (u128::from(total.max(1)), cells as u128);
    let first = u128::from(segment.start_us) * wide / total;
    let last = (u128::from(segment.end_us) * wide).div_ceil(total);
    let first = usize::try_from(first).unwrap_or(cells).min(cells - 1);
    (first, usize::try_from(last).unwrap_or(cells).clamp(first + 1, cells))
}

fn bar(row: &Span, total: u64, cells: usize) -> String {
    // A cell shows the most telling of what happens in it: work before waiting.
    let mut painted = vec![(0, ' '); cells];
    for segment in &row.segments {
        let (rank, glyph) = match (segment.state, segment.start_us == segment.end_us) {
            (State::Running, true) => (4, INSTANT),
            (_, true) => (1, INSTANT),
            (state @ State::Running, false) => (5, glyph(state)),
            (state @ (State::Cancelling | State::Retrying), false) => (3, glyph(state)),
            (state, false) => (2, glyph(state)),
        };
        let (first, last) = cells_of(segment, total, cells);
        for cell in painted[first..last].iter_mut().filter(|cell| cell.0 <= rank) {
            *cell = (rank, glyph);
        }
    }
    if row.end == End::Open
        && let Some(last) = painted.iter_mut().rfind(|cell| cell.0 > 0)
    {
        last.1 = NOT_ENDED;
    }
    painted.iter().map(|cell| cell.1).collect()
}

fn glyph(state: State) -> char {
    match state {
        State::Running => '█',
        State::Cancelling => '▒',
        State::Waiting => '─',
        State::Scheduled => '░',
        State::Retrying => '·',
        State::Buffered => '╌',
    }
}

/// The time at the quarters, and at the end.
fn axis(total: u64, cells: usize) -> String {
    if total == 0 {
        return "0s".to_owned();
    }
    let end = duration(total);
    let end_at = cells.saturating_sub(end.chars().count());
    let mut axis = String::new();
    for quarter in 0..4_u64 {
        let at = cells * quarter as usize / 4;
        let time = match quarter {
            0 => "0s".to_owned(),
            _ => duration((u128::from(total) * u128::from(quarter) / 4) as u64),
        };
        // A label that would touch its neighbours says nothing.
        let room = at == 0 || axis.chars().count() + 1 < at;
        if room && at + time.chars().count() + 2 < end_at {
            axis = format!("{axis:at$}{time}");
        }
    }
    format!("{axis:end_at$}{end}")
}

/// What the marks that can be seen mean.
fn legend(bars: &[String]) -> String {
    [
        (glyph(State::Running), "running"),
        (glyph(State::Cancelling), "cancelling"),
        (glyph(State::Waiting), "waiting"),
        (glyph(State::Scheduled), "scheduled"),
        (glyph(State::Retrying), "before a retry"),
        (glyph(State::Buffered), "signal buffered"),
        (INSTANT, "an instant"),
        (NOT_ENDED, "not ended"),
    ]
    .into_iter()
    .filter(|(mark, _)| bars.iter().any(|bar| bar.contains(*mark)))
    .map(|(mark, meaning)| format!("{mark} {meaning}"))
    .collect::<Vec<_>>()
    .join("   ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(start_us: u64, end_us: u64, total: u64) -> (usize, usize) {
        cells_of(&Segment { state: State::Running, start_us, end_us }, total, 10)
    }

    #[test]
    fn every_stretch_has_a_cell_and_none_leaves_the_bar() {
        assert_eq!(cells(0, 0, 0), (0, 1), "a journal of one event");
        assert_eq!(cells(0, 100, 100), (0, 10));
        assert_eq!(cells(100, 100, 100), (9, 10), "an instant at the very end");
        assert_eq!(cells(50, 50, 100), (5, 6));
        assert_eq!(cells(0, 1, u64::MAX), (0, 1), "a moment among ages");
        assert_eq!(cells(1, u64::MAX, u64::MAX), (0, 10));
    }

    #[test]
    fn the_axis_fits_its_bars() {
        for (total, cells) in [(1, 20), (6_703_107, 55), (u64::MAX, 20), (999, 400)] {
            let axis = axis(total, cells);
            assert_eq!(axis.chars().count(), cells, "{axis:?}");
            assert!(axis.starts_with("0s "), "{axis:?}");
        }
        assert_eq!(axis(0, 20), "0s");
    }
}
