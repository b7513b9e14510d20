//! The journal of an execution, drawn as `indelible journal show --timeline` draws one.

use std::io::Write;

use indelible_journal::ExecutionId;
use indelible_store::Store;
use indelible_store::rows::{executions, journals};

use crate::failure::Failure;
use crate::journal;
use crate::screen::Screen;

/// How many rows are read at a time.
const ROWS_MAX: usize = 256;

pub(super) fn write(
    store: &Store,
    execution: &ExecutionId,
    screen: Screen,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let failed = |error: indelible_store::ReadError| {
        Failure::new(format!("cannot read its journal: {error}"))
            .hint("`indelible store check` says what is wrong")
    };
    let row = executions::latest(store, execution).map_err(failed)?.value;
    let Some(row) = row else { return Ok(()) };
    let mut records = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let page = journals::read(store, &row.key, from, ROWS_MAX).map_err(failed)?.value;
        records.extend(page.records);
        next = page.next;
    }
    journal::draw(&row.key, records, screen, out)
}
