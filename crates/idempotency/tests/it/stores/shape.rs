//! The check of the table at start (I-20): everything that is wrong, named.

use indelible_idempotency::store::ShapeError;

use crate::stores::support::{postgres, settings, sqlite};

/// I-20, I-27: what the shipped migrations make passes, under the names of the specification.
#[tokio::test]
async fn the_shipped_migrations_pass() {
    on_each!(|world| {
        world.factory.check(&mut world.pool.acquire().await.unwrap()).await.unwrap();
    });
}

/// I-20: no table, and which file makes one.
#[tokio::test]
async fn a_missing_table_is_named() {
    on_each!(|world| {
        let elsewhere = world.with(settings().table("keys").unwrap());
        let checked = elsewhere.check(&mut world.pool.acquire().await.unwrap()).await;
        let why = checked.unwrap_err();
        assert!(matches!(why, ShapeError::Missing { .. }));
        let text = why.to_string();
        assert!(text.contains("\"keys\"") && text.contains(".sql"), "{text}");
    });
}

/// I-20: each difference that would matter is found, and named.
#[tokio::test]
async fn postgres_differences_are_named() {
    for (change, problem) in [
        ("DROP COLUMN owner", "the column owner is missing"),
        ("ALTER COLUMN status TYPE varchar(20)", "status is character varying(20), not text"),
        ("ALTER COLUMN expires_at TYPE timestamp", "expires_at is timestamp without time zone"),
        ("ALTER COLUMN owners DROP NOT NULL", "the column owners may be null"),
        ("ALTER COLUMN ended_at SET NOT NULL", "the column ended_at may not be null"),
        ("DROP CONSTRAINT idempotency_record_pkey", "no unique index"),
        ("DROP CONSTRAINT idempotency_record_pkey, ADD PRIMARY KEY (key_value)", "no unique index"),
        (
            "DROP CONSTRAINT idempotency_record_pkey, ADD UNIQUE (namespace, key_value) DEFERRABLE",
            "no unique index",
        ),
        ("ADD COLUMN tenant text NOT NULL", "the column tenant requires a value"),
        ("SET UNLOGGED", "it is unlogged"),
    ] {
        let world = postgres().await;
        let sql = format!("ALTER TABLE idempotency_record {change}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&world.pool).await.unwrap();
        let checked = world.factory.check(&mut world.pool.acquire().await.unwrap()).await;
        let why = checked.unwrap_err().to_string();
        assert!(why.contains(problem), "{change}: {why}");
    }
    // What does not matter is not complained about.
    let world = postgres().await;
    world.sql("ALTER TABLE idempotency_record ADD COLUMN tenant text NOT NULL DEFAULT ''").await;
    world.sql("ALTER TABLE idempotency_record ALTER COLUMN status TYPE varchar").await;
    world.factory.check(&mut world.pool.acquire().await.unwrap()).await.unwrap();
    // All at once.
    world.sql("ALTER TABLE idempotency_record DROP COLUMN owner, DROP COLUMN owners").await;
    let checked = world.factory.check(&mut world.pool.acquire().await.unwrap()).await;
    let Err(ShapeError::Shape { problems, .. }) = checked else { panic!("{checked:?}") };
    assert_eq!(problems.len(), 2);
    // No table at all.
    world.sql("DROP TABLE idempotency_record").await;
    world.sql("CREATE VIEW idempotency_record AS SELECT 1 AS one").await;
    let checked = world.factory.check(&mut world.pool.acquire().await.unwrap()).await;
    assert!(checked.unwrap_err().to_string().contains("it is not a table"));
}

/// I-20: a table that PostgreSQL partitions works as a whole one does.
#[tokio::test]
async fn a_partitioned_table() {
    let world = postgres().await;
    let migration = indelible_idempotency::store::POSTGRES_MIGRATION;
    let migration = migration.replace("\n);", "\n) PARTITION BY HASH (key_value);");
    world.sql("DROP TABLE idempotency_record").await;
    let sql = format!(
        "{migration}
         CREATE TABLE one PARTITION OF idempotency_record FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE two PARTITION OF idempotency_record FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&world.pool).await.unwrap();
    world.factory.check(&mut world.pool.acquire().await.unwrap()).await.unwrap();
    let mut tx = world.begin().await;
    let mut store = world.factory.with_tx(&mut tx);
    for number in 0..20 {
        let attempt = crate::stores::support::fresh(&mut store, &format!("k{number}"), "1").await;
        store.commit(&attempt, &crate::stores::support::json("1")).await.unwrap();
    }
    tx.commit().await.unwrap();
    world.sql(crate::stores::purge::EXPIRE).await;
    let kept = "UPDATE idempotency_record SET expires_at = now() + interval '1 hour' \
                WHERE key_value = 'k7'";
    world.sql(kept).await;
    let mut tx = world.begin().await;
    assert_eq!(world.factory.with_tx(&mut tx).purge_expired(100).await.unwrap(), 19);
    tx.commit().await.unwrap();
    let left = world.sql("DELETE FROM idempotency_record WHERE key_value = 'k7'").await;
    assert_eq!(left, 1, "a purge takes what has expired, in whichever partition");
}

/// I-20: each difference that would matter is found in SQLite too.
#[tokio::test]
async fn sqlite_differences_are_named() {
    for (from, to, problem) in [
        ("    owner           TEXT NOT NULL,\n", "", "the column owner is missing"),
        ("owner           TEXT NOT NULL", "owner           TEXT", "owner may be null"),
        ("expires_at      INTEGER", "expires_at      TEXT", "expires_at is TEXT, not INTEGER"),
        ("    PRIMARY KEY (namespace, key_value),\n", "", "no unique index"),
        (
            "key_value       TEXT NOT NULL",
            "key_value       TEXT COLLATE NOCASE NOT NULL",
            "no unique index",
        ),
        ("    owner  ", "    tenant TEXT NOT NULL,\n    owner  ", "tenant requires a value"),
    ] {
        let world = sqlite().await;
        world.sql("DROP TABLE idempotency_record").await;
        let migration = indelible_idempotency::store::SQLITE_MIGRATION;
        assert!(migration.contains(from), "{from}");
        let sql = migration.replacen(from, to, 1);
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&world.pool).await.unwrap();
        let checked = world.factory.check(&mut world.pool.acquire().await.unwrap()).await;
        let why = checked.unwrap_err().to_string();
        assert!(why.contains(problem), "{problem}: {why}");
    }
}
