//! Where the demonstration is seen: a screen that is drawn again in place, or lines one after the
//! other.
#![expect(clippy::disallowed_methods, reason = "what is shown has the time at which it happened")]

use std::io::{self, Write};
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use super::event::{Event, Events, Who};
use super::paint::Line;
use super::plan::Plan;
use crate::screen::Screen;

/// How often the screen is drawn again, at most.
const DRAW: Duration = Duration::from_millis(100);

/// How it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Drawn again in place; else a line for each event.
    pub(super) live: bool,
    pub(super) screen: Screen,
}

/// Writes what happens.
pub(super) struct Stage<'a> {
    out: &'a mut dyn Write,
    view: View,
    began: Instant,
    board: Board,
    /// How many lines are on the screen.
    drawn: usize,
}

impl<'a> Stage<'a> {
    pub(super) fn new(out: &'a mut dyn Write, view: View, plan: &Plan) -> Self {
        Self { out, view, began: Instant::now(), board: Board::new(plan), drawn: 0 }
    }

    /// Shows what happens until it is dropped.
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

    /// What has happened and was not shown, and then the end.
    pub(super) fn finish(&mut self, events: &mut Events) {
        while let Ok(event) = events.try_recv() {
            self.take(&event);
        }
        self.draw();
    }

    /// How long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn take(&mut self, event: &Event) {
        if !self.view.live
            && let Event::Begins { who, .. } = event
        {
            self.line(&match who {
                Who::Server => self.board.title(),
                Who::RetryLoop => Line::default(),
            });
            for line in self.board.opening(*who) {
                self.line(&line);
            }
        }
        let line = self.board.take(event, self.began.elapsed());
        if let Some(line) = line.filter(|_| !self.view.live) {
            self.line(&line);
            self.flush();
        }
    }

    /// A line of its own.
    fn line(&mut self, line: &Line) {
        // Lines that are not on a screen are not cut.
        let columns = if self.view.live { self.view.screen.columns } else { usize::MAX };
        let text = line.paint(self.view.screen, columns);
        // A reader that has seen enough is no reason to stop; the end says if it cannot be written.
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
            // What was there before to the right of it.
            text.push_str("\x1b[K\n");
        }
        // And below.
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        // One write, so that nobody sees half of it.
        _ = self.out.write_all(text.as_bytes());
        self.flush();
    }

    /// The cursor to the first line that is drawn.
    fn back(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\r"),
        }
    }

    /// The end: what was drawn gives way to these lines, and they stay.
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
