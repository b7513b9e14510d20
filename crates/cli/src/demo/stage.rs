//! Where the demo is shown: a screen that is redrawn in place, or lines one after the other.
#![expect(clippy::disallowed_methods, reason = "what is shown has the time at which it happened")]

use std::io::{self, Write};
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use super::event::{Event, Events, Program};
use super::paint::Line;
use super::plan::Plan;
use crate::screen::Screen;

/// The shortest time between two frames.
const DRAW: Duration = Duration::from_millis(100);

/// How the demo is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Redraw in place; otherwise print a line for each event.
    pub(super) live: bool,
    pub(super) screen: Screen,
}

/// Shows events.
pub(super) struct Stage<'a> {
    out: &'a mut dyn Write,
    view: View,
    began: Instant,
    board: Board,
    /// How many lines of the last frame are on the screen.
    drawn: usize,
}

impl<'a> Stage<'a> {
    pub(super) fn new(out: &'a mut dyn Write, view: View, plan: &Plan) -> Self {
        Self { out, view, began: Instant::now(), board: Board::new(plan), drawn: 0 }
    }

    /// Shows events until the future is dropped.
    pub(super) async fn pump(&mut self, events: &mut Events) {
        let mut draw = interval(DRAW);
        draw.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.take(&event),
                    None => return,
                },
                _ = draw.tick() => self.draw(),
            }
        }
    }

    /// Shows the events that are left, and then the end.
    pub(super) fn finish(&mut self, events: &mut Events) {
        while let Ok(event) = events.try_recv() {
            self.take(&event);
        }
        self.draw();
    }

    /// The time since the demo began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn take(&mut self, event: &Event) {
        if !self.view.live
            && let Event::Begins { program, .. } = event
        {
            self.line(&match program {
                Program::Server => self.board.title(),
                Program::RetryLoop => Line::default(),
            });
            for line in self.board.opening(*program) {
                self.line(&line);
            }
        }
        let line = self.board.take(event, self.began.elapsed());
        if let Some(line) = line.filter(|_| !self.view.live) {
            self.line(&line);
            self.flush();
        }
    }

    /// Prints a line.
    fn line(&mut self, line: &Line) {
        // Lines are cut only on a screen.
        let columns = if self.view.live { self.view.screen.columns } else { usize::MAX };
        let text = line.paint(self.view.screen, columns);
        // If the reader has gone, the demo goes on; `close` reports an error.
        _ = writeln!(self.out, "{text}");
    }

    fn draw(&mut self) {
        if !self.view.live {
            return;
        }
        let screen = self.view.screen;
        let lines = self.board.lines(self.began.elapsed(), screen.columns);
        let mut text = self.back();
        for line in &lines {
            text.push_str(&line.paint(screen, screen.columns));
            // Erases the rest of the old line.
            text.push_str("\x1b[K\n");
        }
        // Erases the old lines below.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        // One write, so that no half frame is shown.
        _ = self.out.write_all(text.as_bytes());
        self.flush();
    }

    /// Moves the cursor to the first line of the frame.
    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }

    /// Replaces the frame by these lines, which stay.
    pub(super) fn close(mut self, lines: &[Line]) -> io::Result<()> {
        let begin = if self.view.live { format!("{}\x1b[J", self.back()) } else { "\n".to_owned() };
        self.out.write_all(begin.as_bytes())?;
        self.drawn = 0;
        for line in lines {
            writeln!(self.out, "{}", line.paint(self.view.screen, usize::MAX))?;
        }
        self.out.flush()
    }

    fn flush(&mut self) {
        _ = self.out.flush();
    }
}
