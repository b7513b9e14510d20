//! What functions logged. It is read from files, on a thread for that.

use std::sync::Arc;

use indelible_api::log::Logs;
use indelible_api::{Code, Problem};
use tracing::error;

use crate::answer::Answer;
use crate::logs::LogPosition;
use crate::request::{ApiRequest, malformed};
use crate::state::State;

/// Lines of an execution and of what it called.
pub(super) async fn logs(state: Arc<State>, asked: ApiRequest) -> Result<Answer, Problem> {
    let (execution, _) = state.execution(&asked).await?;
    let from = asked.query("from").map(str::parse::<LogPosition>).transpose();
    let from = from.map_err(|_| malformed("from must be a value that `next` returned"))?;
    let Some(logs) = state.logs.clone() else {
        let next = from.unwrap_or(LogPosition::FIRST).to_string();
        return Ok(Answer::ok(&Logs { lines: Vec::new(), next, more: false }));
    };
    let room = Arc::clone(&state.log_readers).acquire_owned().await;
    let room = room.map_err(|_| Problem::new(Code::Stopping, "the server is stopping"))?;
    let lines_max = asked.limit();
    let read = tokio::task::spawn_blocking(move || {
        let _room = room;
        logs.read(&execution, from, lines_max)
    });
    let why = match read.await {
        Ok(Ok(page)) => return Ok(Answer::ok(&page)),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    error!(error = why, "function logs cannot be read");
    Err(Problem::new(Code::Internal, "an internal error occurred; see the server's log"))
}
