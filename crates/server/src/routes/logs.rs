//! What functions logged. It is read from files, on a thread for that.

use std::sync::Arc;

use indelible_api::log::Logs;
use indelible_api::{Code, Problem};

use crate::answer::Answer;
use crate::logs::Place;
use crate::request::{Asked, malformed};
use crate::state::State;

/// Lines of an execution and of what it called.
pub(super) async fn logs(state: Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let (execution, _) = state.execution(&asked).await?;
    let from = asked.query("from").map(str::parse::<Place>).transpose();
    let from = from.map_err(|_| malformed("from: not a place that `next` has named"))?;
    let Some(logs) = state.logs.clone() else {
        let next = from.unwrap_or(Place::FIRST).to_string();
        return Ok(Answer::ok(&Logs { lines: Vec::new(), next, more: false }));
    };
    let room = Arc::clone(&state.log_readers).acquire_owned().await;
    let room = room.map_err(|_| Problem::new(Code::Stopping, "the server stops"))?;
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
    state.trouble(&format!("what functions logged cannot be read: {why}"));
    Err(Problem::new(Code::Internal, "the server's log says more"))
}
