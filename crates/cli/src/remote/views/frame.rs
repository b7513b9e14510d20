//! Lines that are drawn over what was drawn before, on a terminal, until somebody presses Ctrl-C.

use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::failure::{Exit, Failure, quiet};
use crate::screen::{Screen, Tone};
use crate::text::width;

/// How often something is drawn again.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// The lines of a terminal that does not say how many it has.
const ROWS_DEFAULT: usize = 24;

/// What is on the terminal.
#[derive(Default)]
pub(super) struct Frame {
    /// How many lines of it are ours, above the cursor.
    drawn: usize,
}

impl Frame {
    /// Draws these lines over the last ones; at most as many as the terminal has.
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

    /// Draws these lines over the last ones, all of them: nothing follows.
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
        // All at once: a terminal that shows a half is one that flickers.
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

/// Takes away what does not fit above the line of the cursor, and says so.
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

/// How many lines of the terminal a line takes.
fn height(line: &str, screen: Screen) -> usize {
    width(&unpainted(line)).div_ceil(screen.columns.max(1)).max(1)
}

/// Without colours.
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

/// The terminal as it is now: people change its size.
pub(super) fn resized(screen: Screen) -> Screen {
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let columns = terminal.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0);
    match columns {
        Some(columns) => Screen { columns: Screen::new(Some(columns), None).columns, ..screen },
        None => screen,
    }
}

/// Whatever can be redrawn is for people.
pub(super) fn needs_terminal(screen: Screen) -> Result<(), Failure> {
    match screen.is_terminal {
        true => Ok(()),
        false => Err(Failure::new("--watch draws on a terminal, and standard output is none")
            .hint("leave --watch out; a program takes --json, and asks again")),
    }
}

/// Somebody pressed Ctrl-C: what was drawn stays, and there is nothing to say.
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

    /// A frame begins where the last one began, however often its lines wrapped.
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

    /// What is higher than the terminal is cut, since nobody could draw over it again.
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

    /// A painted line is as wide as it looks.
    #[test]
    fn colours_take_no_room() {
        assert_eq!(unpainted("a\u{1b}[31mb\u{1b}[0mc"), "abc");
        assert_eq!(unpainted("a\u{1b}[31"), "a");
    }
}
