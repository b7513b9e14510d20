//! Whether a PostgreSQL table is as the statements need it.

use sqlx::{PgConnection, Row as _};

use super::super::error::ShapeError;
use super::super::settings::TableName;
use super::MIGRATION_FILE;

/// Every column that the statements use: its name, the types that fit, and whether it may be null.
const COLUMNS: [(&str, &[&str], Null); 13] = [
    ("namespace", TEXT, Null::Never),
    ("key_value", TEXT, Null::Never),
    ("request_hash", &["bytea"], Null::Never),
    ("status", TEXT, Null::Never),
    ("request_payload", TEXT, Null::Never),
    ("result_payload", TEXT, Null::Perhaps),
    ("error_payload", TEXT, Null::Perhaps),
    ("owner", TEXT, Null::Never),
    ("owners", &["integer", "bigint"], Null::Never),
    ("lease_until", TIME, Null::Never),
    ("created_at", TIME, Null::Never),
    ("ended_at", TIME, Null::Perhaps),
    ("expires_at", TIME, Null::Never),
];

/// `varchar` without a length is `text` by another name.
const TEXT: &[&str] = &["text", "character varying"];
const TIME: &[&str] = &["timestamp with time zone"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Null {
    Never,
    Perhaps,
}

/// What the table is: found as statements find it, by the search path.
const TABLE: &str = "
SELECT relation.oid::bigint AS oid, relation.relkind::text AS kind,
       relation.relpersistence::text AS persistence,
       pg_encoding_to_char(database.encoding)::text AS encoding
FROM pg_class AS relation, pg_database AS database
WHERE relation.oid = to_regclass($1) AND database.datname = current_database()
";

const TABLE_COLUMNS: &str = "
SELECT attribute.attname::text AS name, format_type(attribute.atttypid, attribute.atttypmod) AS type,
       attribute.attnotnull AS not_null,
       attribute.atthasdef OR attribute.attidentity <> '' OR attribute.attgenerated <> '' AS has_value,
       coalesce(collation_.collisdeterministic, true) AS deterministic
FROM pg_attribute AS attribute
LEFT JOIN pg_collation AS collation_ ON collation_.oid = attribute.attcollation
WHERE attribute.attrelid = $1::oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
ORDER BY attribute.attnum
";

/// Whether `ON CONFLICT (namespace, key_value)` finds an index.
const UNIQUE: &str = "
SELECT EXISTS (
    SELECT FROM pg_index AS index
    WHERE index.indrelid = $1::oid AND index.indisunique AND index.indisvalid AND index.indimmediate
      AND index.indpred IS NULL AND index.indexprs IS NULL AND index.indnkeyatts = 2
      AND (SELECT array_agg(attribute.attname::text ORDER BY attribute.attname)
           FROM pg_attribute AS attribute
           WHERE attribute.attrelid = index.indrelid
             AND attribute.attnum = ANY (index.indkey[0:1])) = ARRAY['key_value', 'namespace']
) AS there
";

pub(super) async fn check(
    connection: &mut PgConnection,
    table: &TableName,
) -> Result<(), ShapeError> {
    let name = table.to_string();
    let found = sqlx::query(TABLE).bind(&name).fetch_optional(&mut *connection).await?;
    let Some(found) = found else {
        return Err(ShapeError::Missing { table: name, migration: MIGRATION_FILE });
    };
    let oid: i64 = found.try_get("oid")?;
    let mut problems = Vec::new();
    match found.try_get("kind")? {
        "r" | "p" => {}
        _ => problems.push("it is not a table".to_owned()),
    }
    match found.try_get("persistence")? {
        "p" => {}
        // A crash empties an unlogged table, the end of a session a temporary one, and then every
        // key is fresh again.
        "u" => problems.push("it is unlogged: a crash of the database empties it".to_owned()),
        _ => problems.push("it is temporary".to_owned()),
    }
    match found.try_get("encoding")? {
        "UTF8" => {}
        // Text that another encoding cannot hold would abort the caller's transaction.
        other => problems.push(format!("its database is encoded in {other}, not in UTF8")),
    }
    let rows = sqlx::query(TABLE_COLUMNS).bind(oid).fetch_all(&mut *connection).await?;
    let mut columns = Vec::new();
    for row in &rows {
        columns.push(Column {
            name: row.try_get("name")?,
            type_: row.try_get("type")?,
            not_null: row.try_get("not_null")?,
            has_value: row.try_get("has_value")?,
            deterministic: row.try_get("deterministic")?,
        });
    }
    problems.extend(columns_problems(&columns));
    let unique = sqlx::query(UNIQUE).bind(oid).fetch_one(&mut *connection).await?;
    if !unique.try_get::<bool, _>("there")? {
        problems.push("it has no unique index on namespace and key_value alone".to_owned());
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ShapeError::Shape { table: name, migration: MIGRATION_FILE, problems })
    }
}

struct Column<'a> {
    name: &'a str,
    type_: &'a str,
    not_null: bool,
    has_value: bool,
    deterministic: bool,
}

fn columns_problems(columns: &[Column<'_>]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, types, null) in COLUMNS {
        let Some(column) = columns.iter().find(|column| column.name == name) else {
            problems.push(format!("the column {name} is missing"));
            continue;
        };
        if !types.contains(&column.type_) {
            problems.push(format!("the column {name} is {}, not {}", column.type_, types[0]));
        }
        if null == Null::Never && !column.not_null {
            problems.push(format!("the column {name} may be null"));
        }
        if null == Null::Perhaps && column.not_null {
            problems.push(format!("the column {name} may not be null"));
        }
        if !column.deterministic {
            problems.push(format!("the column {name} compares different texts as equal"));
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

impl From<sqlx::Error> for ShapeError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}
