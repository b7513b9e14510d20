//! Kills a process at the points that the plan has, and starts it again.
#![expect(clippy::disallowed_methods, reason = "it measures how long a process was away")]

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::book::Book;
use super::event::{Event, Tell, Who};
use super::process::Process;
use crate::failure::Failure;

/// How long is waited for a charge in flight. None may come any more: then it is killed all the same.
const LULL_MAX: Duration = Duration::from_millis(500);

/// Kills as planned; returns how often.
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
            // The retry loop may have done all it had to do.
            ended = process.ended() => return ended.map(|()| kill - 1),
        }
        // Nobody is interested if it does not come.
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
