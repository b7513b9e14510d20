//! Lines on a terminal that are redrawn in place, until the user presses Ctrl-C.

use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::failure::{Exit, Failure, quiet};
use crate::screen::{Screen, Tone};
use crate::text::width;

/// The time between two frames.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// The height of a terminal that does not report one.
const ROWS_DEFAULT: usize = 24;

/// What is drawn on the terminal.
#[derive(Default)]
pub(super) struct Frame {
    /// How many lines above the cursor belong to the last frame.
    drawn: usize,
}

impl Frame {
    /// Draws these lines over the last frame, cut to the terminal's height.
    pub(super) fn draw(
        &mut self,
        mut lines: Vec<String>,
        screen: Screen,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let rows = terminal_size::terminal_size_of(io::stdout());
        let rows = rows.map_or(ROWS_DEFAULT, |(_, height)| usize::from(height.0));
        fit(&mut lines, screen, rows);
        self.write(&lines, screen, out)
    }

    /// Draws these lines over the last frame, uncut: no frame follows.
    pub(super) fn end(
        &mut self,
        lines: &[String],
        screen: Screen,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        self.write(lines, screen, out)
    }

    fn write(
        &mut self,
        lines: &[String],
        screen: Screen,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        // One write: a half-drawn frame would flicker.
        let mut text = String::new();
        if self.drawn > 0 {
            text = format!("\u{1b}[{}A\r", self.drawn);
        }
        for line in lines {
            text.push_str(line);
            text.push_str("\u{1b}[K\n");
        }
        text.push_str("\u{1b}[J");
        self.drawn = lines.iter().map(|line| height(line, screen)).sum();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        quiet(written).map_err(|error| Failure::output(&error))
    }
}

/// Removes the lines that do not fit above the cursor's line, and says so.
fn fit(lines: &mut Vec<String>, screen: Screen, rows: usize) {
    let room = rows.saturating_sub(1).max(1);
    let mut taken = 0;
    let fitting = lines.iter().take_while(|line| {
        taken += height(line, screen);
        taken <= room
    });
    let fitting = fitting.count();
    if fitting == lines.len() {
        return;
    }
    let kept = fitting.saturating_sub(1);
    let more = lines.len() - kept;
    lines.truncate(kept);
    lines.push(screen.paint(Tone::Faint, &format!("… {more} more lines")));
}

/// How many rows of the terminal a line takes.
fn height(line: &str, screen: Screen) -> usize {
    width(&unpainted(line)).div_ceil(screen.columns.max(1)).max(1)
}

/// The line without colours.
fn unpainted(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('m').map_or(rest.len(), |end| end + 1);
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}

/// The screen with the terminal's present size, which may have changed.
pub(super) fn resized(screen: Screen) -> Screen {
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let columns = terminal.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0);
    match columns {
        Some(columns) => Screen { columns: Screen::new(Some(columns), None).columns, ..screen },
        None => screen,
    }
}

/// Refuses to redraw where stdout is no terminal.
pub(super) fn needs_terminal(screen: Screen) -> Result<(), Failure> {
    match screen.is_terminal {
        true => Ok(()),
        false => Err(Failure::new("--watch needs a terminal, and standard output is not one")
            .hint("leave --watch out; in a program, use --json and poll")),
    }
}

/// The user pressed Ctrl-C: the last frame stays, and no error is printed.
pub(super) fn interrupted() -> Failure {
    Failure::many(Vec::new()).exit(Exit::Interrupted)
}

/// Which of two was ready first.
pub(super) enum First<A, B> {
    One(A),
    Other(B),
}

/// Waits for the first of two; the other one is dropped.
pub(super) async fn first<A: Future, B: Future>(one: A, other: B) -> First<A::Output, B::Output> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(one) => Poll::Ready(First::One(one)),
        Poll::Pending => other.as_mut().poll(context).map(First::Other),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(columns: usize) -> Screen {
        Screen { colours: true, ..Screen::new(Some(columns), None) }
    }

    /// A frame begins where the last one began, however many of its lines wrapped.
    #[test]
    fn frames_stand_on_each_other() {
        let screen = screen(40);
        let mut frame = Frame::default();
        let mut out = Vec::new();
        let long = screen.paint(Tone::Bad, &"x".repeat(41));
        frame.end(&[long, "日".repeat(20)], screen, &mut out).unwrap();
        assert_eq!(frame.drawn, 3);
        out.clear();
        frame.end(&["b".to_owned()], screen, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\u{1b}[3A\rb\u{1b}[K\n\u{1b}[J");
        assert_eq!(frame.drawn, 1);
    }

    /// A frame higher than the terminal is cut: lines that scrolled off cannot be drawn over.
    #[test]
    fn a_frame_fits_the_terminal() {
        let lines = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        let screen = Screen { colours: false, ..screen(40) };
        let fitted = |count, rows| {
            let mut all = lines(count);
            fit(&mut all, screen, rows);
            all
        };
        assert_eq!(fitted(3, 4), ["0", "1", "2"]);
        assert_eq!(fitted(4, 4), ["0", "1", "… 2 more lines"]);
        assert_eq!(fitted(4, 0).len(), 1);
        let mut wide = vec!["a".repeat(81), "b".to_owned()];
        fit(&mut wide, screen, 4);
        assert_eq!(wide, ["… 2 more lines"]);
    }

    /// A painted line is as wide as its visible text.
    #[test]
    fn colours_take_no_room() {
        assert_eq!(unpainted("a\u{1b}[31mb\u{1b}[0mc"), "abc");
        assert_eq!(unpainted("a\u{1b}[31"), "a");
    }
}
