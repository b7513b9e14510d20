//! Kills a process at the points of the plan, and starts it again.
#![expect(clippy::disallowed_methods, reason = "it measures how long a process was away")]

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::book::Book;
use super::event::{Event, Tell, Who};
use super::process::Process;
use crate::failure::Failure;

/// How long to wait for a charge in flight. None may be left; then the process is killed anyway.
const LULL_MAX: Duration = Duration::from_millis(500);

/// Kills the process as planned, and returns how often.
pub(super) async fn carry_out(
    who: Who,
    process: &mut Process,
    book: &Book,
    tell: &Tell,
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
        _ = tell.send(Event::Killed { kill, kills, in_flight });
        process.start().await?;
        _ = tell.send(Event::Back { who, after: began.elapsed() });
    }
    Ok(kills)
}
