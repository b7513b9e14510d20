//! Asks again, less and less often, until a job is done.

use indelible_sdk::prelude::*;

/// The longest wait between two questions.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Where a job stands.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Status {
    Running,
    Done,
}

/// Waits until a job is done, which takes so many seconds, and returns how often it had to ask.
#[function]
fn await_job(seconds: u64) -> Result<u32, Error> {
    let done_at = now() + Duration::from_secs(seconds);
    let mut wait = Duration::from_secs(1);
    for questions in 1.. {
        if status::call(done_at).wait()? == Status::Done {
            return Ok(questions);
        }
        sleep(wait)?;
        wait = (wait * 2).min(WAIT_MAX);
    }
    unreachable!("it asks until the job is done")
}

/// Where the job stands now.
#[function(idem, retries = 5)]
fn status(done_at: Timestamp) -> Status {
    if now() < done_at { Status::Running } else { Status::Done }
}

indelible_sdk::guest!(await_job, status);
