//! Whether a SQLite table is as the statements need it.

use sqlx::{Row as _, SqliteConnection};

use super::super::error::ShapeError;
use super::super::settings::TableName;
use super::MIGRATION_FILE;

/// Every column that the statements use: its name, its type, and whether it may be null.
const COLUMNS: [(&str, &str, Null); 13] = [
    ("namespace", "TEXT", Null::Never),
    ("key_value", "TEXT", Null::Never),
    ("request_hash", "BLOB", Null::Never),
    ("status", "TEXT", Null::Never),
    ("request_payload", "TEXT", Null::Never),
    ("result_payload", "TEXT", Null::Perhaps),
    ("error_payload", "TEXT", Null::Perhaps),
    ("owner", "TEXT", Null::Never),
    ("owners", "INTEGER", Null::Never),
    ("lease_until", "INTEGER", Null::Never),
    ("created_at", "INTEGER", Null::Never),
    ("ended_at", "INTEGER", Null::Perhaps),
    ("expires_at", "INTEGER", Null::Never),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Null {
    Never,
    Perhaps,
}

const TABLE_COLUMNS: &str = "
SELECT name, upper(type) AS type, \"notnull\" AS not_null, dflt_value IS NOT NULL AS has_value
FROM pragma_table_info(?1, ?2)
";

/// Whether a whole unique index is on exactly the two columns, and compares them byte by byte.
const UNIQUE: &str = "
SELECT EXISTS (
    SELECT 1 FROM pragma_index_list(?1, ?2) AS list
    WHERE list.\"unique\" AND NOT list.partial
      AND (SELECT group_concat(name || ' ' || coll, ', ')
           FROM (SELECT name, coll FROM pragma_index_xinfo(list.name, ?2) WHERE key ORDER BY name))
          = 'key_value BINARY, namespace BINARY'
) AS there
";

pub(super) async fn check(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<(), ShapeError> {
    let schema = table.schema().unwrap_or("main");
    let query = sqlx::query(TABLE_COLUMNS).bind(table.table()).bind(schema);
    let rows = query.fetch_all(&mut *connection).await.map_err(failed)?;
    if rows.is_empty() {
        return Err(ShapeError::Missing { table: table.to_string(), migration: MIGRATION_FILE });
    }
    let mut columns = Vec::new();
    for row in &rows {
        let read = || -> Result<_, sqlx::Error> {
            Ok(Column {
                name: row.try_get("name")?,
                type_: row.try_get("type")?,
                not_null: row.try_get("not_null")?,
                has_value: row.try_get("has_value")?,
            })
        };
        columns.push(read().map_err(failed)?);
    }
    let mut problems = columns_problems(&columns);
    let query = sqlx::query(UNIQUE).bind(table.table()).bind(schema);
    let unique = query.fetch_one(&mut *connection).await.map_err(failed)?;
    if !unique.try_get::<bool, _>("there").map_err(failed)? {
        let problem = "it has no unique index on namespace and key_value alone, byte by byte";
        problems.push(problem.to_owned());
    }
    if problems.is_empty() {
        Ok(())
    } else {
        let table = table.to_string();
        Err(ShapeError::Shape { table, migration: MIGRATION_FILE, problems })
    }
}

struct Column<'a> {
    name: &'a str,
    type_: &'a str,
    not_null: bool,
    has_value: bool,
}

fn columns_problems(columns: &[Column<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, type_, null) in COLUMNS {
        let Some(column) = columns.iter().find(|column| column.name == name) else {
            problems.push(format!("the column {name} is missing"));
            continue;
        };
        if column.type_ != type_ {
            problems.push(format!("the column {name} is {}, not {type_}", column.type_));
        }
        if null == Null::Never && !column.not_null {
            problems.push(format!("the column {name} may be null"));
        }
        if null == Null::Perhaps && column.not_null {
            problems.push(format!("the column {name} may not be null"));
        }
    }
    for column in columns {
        let ours = COLUMNS.iter().any(|(name, ..)| *name == column.name);
        if !ours && column.not_null && !column.has_value {
            problems.push(format!(
                "the column {} requires a value, but nothing is written to it",
                column.name
            ));
        }
    }
    problems
}

fn failed(error: sqlx::Error) -> ShapeError {
    ShapeError::Database(error.into())
}
