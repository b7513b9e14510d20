//! `indelible store check`: reads everything and says what is wrong.

use std::io::{self, Write};

use indelible_records::check::{self, Findings};
use serde::Serialize;

use super::text::{bytes, write_columns};
use super::{Arguments, OpenReport};
use crate::columns::Column;
use crate::failure::{CommandEnd, Failure};
use crate::print;

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    ok: bool,
    position: u64,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<&'a str>,
    tables: Vec<Table>,
    problems_count: u64,
    problems: Vec<Problem<'a>>,
}

#[derive(Serialize)]
struct Table {
    table: &'static str,
    rows: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Problem<'a> {
    table: &'static str,
    key: &'a str,
    what: &'a str,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<CommandEnd, Failure> {
    let OpenReport { store, recovered } = super::open(&arguments.folder)?;
    let findings = check::check(&store, &mut |_| {});
    let findings = findings.map_err(|error| Failure::new(error.to_string()))?;
    super::close(store)?;
    let written = if arguments.json {
        write_json(&findings, recovered.as_deref(), out)
    } else {
        write_text(&findings, recovered.as_deref(), out)
    };
    written.map_err(|error| Failure::output(&error))?;
    if findings.problems_count == 0 {
        return Ok(CommandEnd::Well);
    }
    let count = findings.problems_count;
    let failure = Failure::new(match count {
        1 => "1 problem was found".to_owned(),
        count => format!("{count} problems were found"),
    });
    Ok(CommandEnd::Wrong(failure.hint("nothing was repaired: keep a copy of the folder as it is")))
}

fn write_json(
    findings: &Findings,
    recovered: Option<&str>,
    out: &mut impl Write,
) -> io::Result<()> {
    let tables = findings.tables.iter();
    let problems = findings.problems.iter();
    let document = Document {
        v: print::VERSION,
        ok: findings.problems_count == 0,
        position: findings.position.number(),
        events: findings.events,
        recovered,
        tables: tables
            .map(|counted| Table { table: counted.table, rows: counted.rows, bytes: counted.bytes })
            .collect(),
        problems_count: findings.problems_count,
        problems: problems
            .map(|problem| Problem { table: problem.table, key: &problem.key, what: &problem.what })
            .collect(),
    };
    print::pretty(&document, out)
}

fn write_text(
    findings: &Findings,
    recovered: Option<&str>,
    out: &mut impl Write,
) -> io::Result<()> {
    if let Some(recovered) = recovered {
        writeln!(out, "recovered  {recovered}")?;
    }
    writeln!(out, "position   {}", findings.position)?;
    writeln!(out, "events     {}", findings.events)?;
    writeln!(out)?;
    let columns = [Column::left("table"), Column::right("rows"), Column::right("size")];
    let cells = findings
        .tables
        .iter()
        .map(|counted| [counted.table.to_owned(), counted.rows.to_string(), bytes(counted.bytes)]);
    write_columns(&columns, cells, out)?;
    writeln!(out)?;
    if findings.problems_count == 0 {
        return writeln!(out, "no problems found");
    }
    for problem in &findings.problems {
        writeln!(out, "{}: {}\n  key {}", problem.table, problem.what, problem.key)?;
    }
    let more = findings.problems_count - findings.problems.len() as u64;
    if more > 0 { writeln!(out, "and {more} more") } else { Ok(()) }
}
