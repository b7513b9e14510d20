//! Kills the process of an act at the points of the plan, and starts it again.
#![expect(clippy::disallowed_methods, reason = "it measures how long a process was away")]

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::book::Book;
use super::event::{Event, EventSender, Program};
use super::process::Process;
use crate::failure::Failure;

/// How long a kill waits until a charge is in flight. If none is left, the process is killed
/// anyway.
const LULL_MAX: Duration = Duration::from_millis(500);

/// Kills the process at each point of the plan, and returns how often it did.
pub(super) async fn carry_out(
    program: Program,
    process: &mut Process,
    book: &Book,
    events: &EventSender,
) -> Result<u32, Failure> {
    let points = &book.plan().kill_points;
    let kills = u32::try_from(points.len()).expect("there are few");
    let mut progress = book.watch();
    for (kill, point) in (1..).zip(points) {
        tokio::select! {
            _ = progress.wait_for(|now| now.orders >= *point) => {}
            // The retry loop may have finished its work.
            ended = process.ended() => return ended.map(|()| kill - 1),
        }
        // After the timeout the process is killed without a charge in flight.
        _ = timeout(LULL_MAX, progress.wait_for(|now| now.in_flight > 0)).await;
        let (began, in_flight) = (Instant::now(), book.progress().in_flight);
        if !process.kill()? {
            return Ok(kill - 1);
        }
        _ = events.send(Event::Killed { kill, kills, in_flight });
        process.start().await?;
        _ = events.send(Event::Back { program, after: began.elapsed() });
    }
    Ok(kills)
}
