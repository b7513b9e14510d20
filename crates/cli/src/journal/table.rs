//! An execution as a table of its events, like the examples of the specification.

use std::io::{self, Write};

use super::checked::Finding;
use super::damage::Damage;
use super::show::ExecutionView;
use crate::screen::Screen;
use crate::text::{count, cut, duration, offset, pad, plain, width};

/// A name has at most 255 bytes; a header line shows most of it.
const NAME_WIDTH_MAX: usize = 80;
/// The event column is never narrower, whatever the terminal.
const EVENT_WIDTH_MIN: usize = 40;

/// Writes the execution's key, function and status.
pub(super) fn write_header(
    shown: &ExecutionView,
    damage: &Damage,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "execution  {}", shown.key())?;
    if let Some(started) = shown.started() {
        writeln!(out, "function   {}", plain(started.function_name.as_str(), NAME_WIDTH_MAX))?;
        writeln!(out, "component  {:#}", started.component_digest)?;
    }
    writeln!(out, "attempts   {}", shown.key().attempts())?;
    writeln!(out, "status     {}", shown.status())?;
    write!(out, "length     {}", count(shown.checked.len(), "event"))?;
    match shown.checked.finding(damage) {
        Finding::Ok => writeln!(out)?,
        Finding::Bad(refused) => writeln!(out, ", then line {} is refused", refused.line)?,
        Finding::Cut(cut) => writeln!(out, ", {cut}")?,
    }
    if let Some(first) = shown.rows.first() {
        writeln!(out, "started    {}", first.entry.timestamp())?;
        writeln!(out, "duration   {}", duration(shown.total()))?;
    }
    writeln!(out)
}

pub(super) fn write(
    shown: &ExecutionView,
    damage: &Damage,
    screen: Screen,
    out: &mut impl Write,
) -> io::Result<()> {
    write_header(shown, damage, out)?;
    let total = shown.total();
    let mut rows: Vec<[String; 4]> = shown
        .rows
        .iter()
        .map(|row| {
            let time = offset(shown.micros(row), total);
            [row.entry.sequence().to_string(), time, row.description.clone(), row.state.to_owned()]
        })
        .collect();
    if let Finding::Bad(refused) = shown.checked.finding(damage) {
        let since = shown.since_start(refused.timestamp);
        let time = since.map_or_else(|| "-".to_owned(), |micros| offset(micros, total));
        let state = format!("refused: {}", refused.violation.rule);
        rows.push([refused.sequence.to_string(), time, refused.description.clone(), state]);
    }
    if rows.is_empty() {
        return Ok(());
    }
    write_rows(&rows, screen, out)
}

/// Writes the rows. On a terminal events are cut to fit; in a pipe they are whole.
fn write_rows(rows: &[[String; 4]], screen: Screen, out: &mut impl Write) -> io::Result<()> {
    let widest = |column: usize, title: &str| {
        rows.iter().map(|row| width(&row[column])).max().unwrap_or(0).max(title.len())
    };
    let (seq, time, state) = (widest(0, "seq"), widest(1, "time"), widest(3, "state"));
    let mut event = widest(2, "event");
    if screen.is_terminal {
        let beside = seq + 2 + time + 2 + 2 + state;
        event = event.min(screen.columns.saturating_sub(beside).max(EVENT_WIDTH_MIN));
    }
    writeln!(out, "{:>seq$}  {:>time$}  {:event$}  state", "seq", "time", "event")?;
    let rule = |width: usize| "─".repeat(width);
    writeln!(out, "{}  {}  {}  {}", rule(seq), rule(time), rule(event), rule("state".len()))?;
    for [number, at, what, state] in rows {
        let what = pad(&cut(what, event), event);
        writeln!(out, "{number:>seq$}  {at:>time$}  {what}  {state}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_terminal: bool, columns: usize) -> Vec<String> {
        let row = |event: &str, state: &str| ["0", "+0.001s", event, state].map(str::to_owned);
        let rows = [row(&"日本".repeat(30), "Blocked"), row("Resumed", "Running")];
        let mut out = Vec::new();
        write_rows(&rows, Screen { is_terminal, columns, colours: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn rows_fit_a_terminal_and_line_up() {
        for columns in [70, 80, 100] {
            let rows = written(true, columns);
            assert_eq!(width(&rows[2]), width(&rows[3]), "{rows:#?}");
            assert!((columns - 1..=columns).contains(&width(&rows[2])), "{rows:#?}");
            assert!(rows[2].ends_with("…  Blocked") || rows[2].ends_with("…   Blocked"));
        }
        let narrow = written(true, 10);
        assert_eq!(width(&narrow[1]), 3 + 2 + 7 + 2 + EVENT_WIDTH_MIN + 2 + 5);
    }

    #[test]
    fn a_pipe_gets_everything_in_columns() {
        let rows = written(false, 60);
        assert!(rows[2].ends_with("日本  Blocked"), "{rows:#?}");
        assert_eq!(width(&rows[2]), width(&rows[3]));
    }
}
