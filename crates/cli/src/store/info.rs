//! `indelible store info`: what a data folder holds.

use std::io::{self, Write};

use indelible_records::check::{self, TableCount};
use indelible_records::hold;
use indelible_store::{Store, embedded};
use serde::Serialize;

use super::text::{bytes, write_columns};
use super::{Arguments, OpenReport};
use crate::columns::Column;
use crate::failure::Failure;
use crate::print;

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    format: u32,
    engine: &'static str,
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_hold: Option<Restored>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Restored>,
    disk_bytes: u64,
    tables: Vec<Table>,
}

/// Why a server would let nothing go on, or take no key that the folder does not know.
#[derive(Serialize)]
struct Restored {
    restored_at: String,
    backup_made_at: String,
}

#[derive(Serialize)]
struct Table {
    table: &'static str,
    rows: u64,
    bytes: u64,
    disk_bytes: u64,
}

pub(super) fn run(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let OpenReport { store, recovered } = super::open(&arguments.folder)?;
    let counts = check::count(&store).map_err(|error| Failure::new(error.to_string()))?;
    let restored = hold::get(&store).map_err(|error| Failure::new(error.to_string()))?.value;
    let because = |on_hold: bool| {
        restored.filter(|restored| restored.on_hold == on_hold).map(|restored| Restored {
            restored_at: restored.at.to_string(),
            backup_made_at: restored.backup_made_at.to_string(),
        })
    };
    let disk_bytes = embedded::folder_bytes(&arguments.folder).map_err(|error| {
        Failure::new(format!("cannot measure {}: {error}", arguments.folder.display()))
    })?;
    let document = Document {
        v: print::VERSION,
        format: embedded::FORMAT_VERSION,
        engine: embedded::BACKEND_NAME,
        position: store.durable_now().number(),
        recovered: recovered.as_deref(),
        on_hold: because(true),
        closed: because(false),
        disk_bytes,
        tables: tables(&store, &counts),
    };
    super::close(store)?;
    let written =
        if arguments.json { print::pretty(&document, out) } else { write_text(&document, out) };
    written.map_err(|error| Failure::output(&error))
}

fn tables(store: &Store, counts: &[TableCount]) -> Vec<Table> {
    let disk_bytes = store.tables().iter().map(|table| store.disk_bytes(*table));
    let table = |(counted, disk_bytes): (&TableCount, u64)| Table {
        table: counted.table,
        rows: counted.rows,
        bytes: counted.bytes,
        disk_bytes,
    };
    counts.iter().zip(disk_bytes).map(table).collect()
}

fn write_text(document: &Document<'_>, out: &mut impl Write) -> io::Result<()> {
    if let Some(recovered) = document.recovered {
        writeln!(out, "recovered  {recovered}")?;
    }
    writeln!(out, "format     {}", document.format)?;
    writeln!(out, "engine     {}", document.engine)?;
    writeln!(out, "position   {}", document.position)?;
    writeln!(out, "on disk    {}", bytes(document.disk_bytes))?;
    for (word, restored) in [("on hold", &document.on_hold), ("closed", &document.closed)] {
        if let Some(Restored { restored_at, backup_made_at }) = restored {
            writeln!(
                out,
                "{word:9}  restored at {restored_at} from the backup of {backup_made_at}"
            )?;
        }
    }
    writeln!(out)?;
    let [rows, size, disk] = ["rows", "size", "on disk"].map(Column::right);
    let cells = document.tables.iter().map(|table| {
        let Table { table, rows, bytes: size, disk_bytes } = table;
        [(*table).to_owned(), rows.to_string(), bytes(*size), bytes(*disk_bytes)]
    });
    write_columns(&[Column::left("table"), rows, size, disk], cells, out)
}
