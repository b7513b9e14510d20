//! An execution as bars over time: plain text, readable without colour.

use std::collections::HashSet;
use std::io::{self, Write};

use indelible_journal::ErrorKind;

use super::bars::{INSTANT, NOT_ENDED, bar, glyph};
use super::checked::Finding;
use super::damage::Damage;
use super::show::ExecutionView;
use super::spans::{End, Kind, Span, State, Timeline};
use super::table::{self, write_header};
use crate::screen::Screen;
use crate::text::{duration, pad, plain, rounded, width, wrap};

/// Longer names are cut, to leave space for the bars.
const NAME_WIDTH_MAX: usize = 24;
/// The least width of a bar, even if rows then exceed the terminal.
pub(crate) const BAR_CELLS_MIN: usize = 20;
/// The mark of an end that is Indeterminate.
const UNKNOWN: char = '?';
/// The mark of an end that is Cancelled.
const CANCELLED: char = '⊘';

pub(super) fn write(
    shown: &ExecutionView,
    damage: &Damage,
    columns: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let timeline = Timeline::of(shown);
    if timeline.rows.is_empty() {
        // No event was accepted, so there is at most the refused one to show.
        return table::write(
            shown,
            damage,
            Screen { is_terminal: false, columns, colours: false },
            out,
        );
    }
    write_header(shown, damage, out)?;
    let rows: Vec<[String; 4]> = timeline.rows.iter().map(labels).collect();
    let widest = |column: usize| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0);
    let [name, id, attempts, end] = [0, 1, 2, 3].map(widest);
    let left = name + 2 + id + if attempts == 0 { 0 } else { 1 + attempts };
    let cells = columns.saturating_sub(left + 2 + 2 + end).max(BAR_CELLS_MIN);

    let bars: Vec<String> =
        timeline.rows.iter().map(|row| bar(row, timeline.total_us, cells)).collect();
    writeln!(out, "{:left$}  {}", "", axis(timeline.total_us, cells))?;
    for ([what, promise, times, ended], bar) in rows.iter().zip(&bars) {
        let mut label = format!("{}  {}", pad(what, name), pad(promise, id));
        if attempts > 0 {
            label = format!("{label} {}", pad(times, attempts));
        }
        writeln!(out, "{label}  {bar}  {ended}")?;
    }
    if let Finding::Bad(refused) = shown.checked.finding(damage) {
        let rule = refused.violation.rule;
        writeln!(out, "\nrefused: {rule}  {}", refused.description)?;
    }
    let mut legend = legend(&timeline.rows, &bars);
    if timeline.rows.iter().any(Span::gave_number_back) {
        legend.push("(root.N) not used: the next call has this id".to_owned());
    }
    writeln!(out, "\n{}", wrap(&legend, columns))
}

/// The labels of a row: name, id, number of attempts if there were several, and end.
fn labels(row: &Span) -> [String; 4] {
    let id = row.promise_id.as_ref().map_or_else(String::new, |promise| {
        promise.path().iter().fold("root".to_owned(), |id, segment| format!("{id}.{segment}"))
    });
    let id = if row.gave_number_back() { format!("({id})") } else { id };
    let took = duration(row.end_us - row.start_us);
    let end = match row.end {
        End::Ok => format!("✓ {took}"),
        End::Err(kind) => format!("{} {took} {kind}", mark(kind)),
        End::Abandoned => format!("- {took} {}", abandoned(row.kind)),
        End::Open => format!("… {took}"),
    };
    [plain(&row.name, NAME_WIDTH_MAX), id, row.attempts_mark(), end]
}

/// What did not happen to a row that was abandoned.
pub(crate) fn abandoned(kind: Kind) -> &'static str {
    match kind {
        Kind::JoinSet => "not taken",
        Kind::Timer => "abandoned",
        _ => "not received",
    }
}

/// The mark of a failure.
pub(crate) fn mark(kind: ErrorKind) -> char {
    match kind {
        ErrorKind::Indeterminate => UNKNOWN,
        ErrorKind::Cancelled => CANCELLED,
        _ => '✗',
    }
}

/// Labels the axis at the quarters with rounded times, and at the end with the exact one.
pub(crate) fn axis(total: u64, cells: usize) -> String {
    if total == 0 {
        return "0s".to_owned();
    }
    let end = duration(total);
    let end_at = cells.saturating_sub(width(&end));
    let mut axis = String::new();
    for quarter in 0..4_u64 {
        let at = cells * quarter as usize / 4;
        let time = rounded((u128::from(total) * u128::from(quarter) / 4) as u64);
        // A label that would touch its neighbours is left out.
        let fits = at == 0 || width(&axis) + 1 < at;
        if fits && at + width(&time) + 2 < end_at {
            axis = format!("{axis:at$}{time}");
        }
    }
    format!("{axis:end_at$}{end}")
}

/// Explains the marks that occur in the rows and bars.
pub(crate) fn legend(rows: &[Span], bars: &[String]) -> Vec<String> {
    let painted = [
        (glyph(State::Running), "running"),
        (glyph(State::Cancelling), "cancelling"),
        (glyph(State::Waiting), "waiting"),
        (glyph(State::Scheduled), "scheduled"),
        (glyph(State::Retrying), "before a retry"),
        (glyph(State::Buffered), "signal buffered"),
        (glyph(State::Unknown), "outcome unknown"),
        (INSTANT, "an instant"),
        (NOT_ENDED, "not ended"),
    ]
    .into_iter()
    .filter(|(mark, _)| bars.iter().any(|bar| bar.contains(*mark)));
    let ended = [(UNKNOWN, "outcome unknown"), (CANCELLED, "cancelled")].into_iter().filter(
        |(wanted, _)| {
            rows.iter().any(|row| matches!(row.end, End::Err(kind) if mark(kind) == *wanted))
        },
    );
    let mut legend: Vec<String> =
        painted.chain(ended).map(|(mark, meaning)| format!("{mark} {meaning}")).collect();
    let mut seen = HashSet::new();
    legend.retain(|line| seen.insert(line.clone()));
    legend
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_fits_its_bars() {
        for (total, cells) in [(1, 20), (6_703_107, 55), (u64::MAX, 20), (999, 400)] {
            let axis = axis(total, cells);
            assert_eq!(width(&axis), cells, "{axis:?}");
            assert!(axis.starts_with("0s "), "{axis:?}");
        }
        assert_eq!(axis(0, 20), "0s");
        assert_eq!(axis(1_999_999, 40), "0s        500ms     1s            1.999s");
    }
}
