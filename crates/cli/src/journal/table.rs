//! An execution as a table of its events, like the examples of the specification.

use std::io::{self, Write};

use super::show::Shown;
use super::text::{count, duration, offset, plain};

/// A name is at most 255 bytes; a header line shows most of it.
const NAME_CHARS_MAX: usize = 80;
/// The longest state, `Cancelling`, and the blanks between the columns.
const BESIDE_EVENT: usize = 10 + 2 * 3;
/// The event column is never narrower, whatever the terminal.
const EVENT_CHARS_MIN: usize = 40;

/// Who it is and how it stands.
pub(super) fn write_header(shown: &Shown, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "execution  {}", shown.key())?;
    if let Some(started) = shown.started() {
        writeln!(out, "function   {}", plain(started.function_name.as_str(), NAME_CHARS_MAX))?;
        writeln!(out, "component  {:#}", started.component_digest)?;
    }
    writeln!(out, "attempts   {}", shown.key().attempts())?;
    writeln!(out, "status     {}", shown.status())?;
    writeln!(out, "length     {}", count(shown.rows.len() as u64, "event"))?;
    if let Some(first) = shown.rows.first() {
        writeln!(out, "started    {}", first.entry.timestamp())?;
        writeln!(out, "duration   {}", duration(shown.total()))?;
    }
    writeln!(out)
}

pub(super) fn write(shown: &Shown, columns: usize, out: &mut impl Write) -> io::Result<()> {
    write_header(shown, out)?;
    let total = shown.total();
    let rows = shown.rows.iter().map(|row| {
        let time = offset(shown.micros(row.entry.timestamp()), total);
        [row.entry.sequence().to_string(), time, row.description.clone(), row.state.to_owned()]
    });
    let refused = shown.refused.iter().map(|refused| {
        let time = offset(shown.micros(refused.timestamp), total);
        let state = format!("refused: {}", refused.violation.rule);
        [refused.violation.sequence.to_string(), time, refused.description.clone(), state]
    });
    let rows: Vec<[String; 4]> = rows.chain(refused).collect();

    let width = |column: usize, least: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(least)
    };
    let (seq, time) = (width(0, "seq".len()), width(1, "time".len()));
    // One very long event must not push all states out of sight: its row alone is longer.
    let room = columns.saturating_sub(seq + time + BESIDE_EVENT).max(EVENT_CHARS_MIN);
    let event = width(2, "event".len()).min(room);
    writeln!(out, "{:>seq$}  {:>time$}  {:event$}  state", "seq", "time", "event")?;
    let rule = |width: usize| "─".repeat(width);
    writeln!(out, "{}  {}  {}  {}", rule(seq), rule(time), rule(event), rule("state".len()))?;
    for [number, at, what, state] in &rows {
        writeln!(out, "{number:>seq$}  {at:>time$}  {what:event$}  {state}")?;
    }
    Ok(())
}
