//! Expiry: only a purge ends the replay of a row.

use indelible_idempotency::Outcome;
use indelible_idempotency::store::{PURGE_ROWS_MAX, Settings};

use crate::stores::support::{DAY, fresh, json, key, request};

/// Everything expired an hour ago, and what has ended did so two days ago.
pub(crate) const EXPIRE: &str = "UPDATE idempotency_record \
    SET expires_at = now() - interval '1 hour', created_at = now() - 49 * interval '1 hour', \
        ended_at = CASE WHEN status <> 'in_progress' THEN now() - 48 * interval '1 hour' END";

/// I-19, C-3, I-24: expired rows replay until they are purged, in batches; rows in progress and
/// those of other namespaces stay.
#[tokio::test]
async fn only_a_purge_ends_replay() {
    on_each!(|world| {
        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        for number in 0..5 {
            let attempt = fresh(&mut store, &format!("k{number}"), "1").await;
            store.commit(&attempt, &json("1")).await.unwrap();
        }
        _ = fresh(&mut store, "in progress", "1").await;
        let other = indelible_idempotency::ConsumerNamespace::new("other").unwrap();
        let theirs = indelible_idempotency::parse_key(&other, Some("k")).unwrap().unwrap();
        let others = world.with(Settings::new(other, DAY, DAY).unwrap());
        let mut store = others.with_tx(&mut tx);
        let Outcome::FreshAttempt(attempt) = store.begin(&theirs, &request("1")).await.unwrap()
        else {
            panic!("it is new");
        };
        store.commit(&attempt, &json("1")).await.unwrap();
        // Nothing has expired yet.
        assert_eq!(world.factory.with_tx(&mut tx).purge_expired(100).await.unwrap(), 0);
        tx.commit().await.unwrap();
        world.sql(EXPIRE).await;

        let mut tx = world.begin().await;
        let mut store = world.factory.with_tx(&mut tx);
        let again = store.begin(&key("k0"), &request("1")).await.unwrap();
        assert_eq!(again, Outcome::PriorResult(json("1")), "expired, and not purged");
        assert_eq!(store.purge_expired(0).await.unwrap(), 0);
        assert_eq!(store.purge_expired(3).await.unwrap(), 3);
        assert_eq!(store.purge_expired(u32::MAX).await.unwrap(), 2);
        assert_eq!(store.purge_expired(3).await.unwrap(), 0);
        _ = fresh(&mut store, "k0", "2").await;
        let kept = store.begin(&key("in progress"), &request("1")).await.unwrap();
        assert!(matches!(kept, Outcome::InFlight(_)), "{kept:?}");
        let mut store = others.with_tx(&mut tx);
        let kept = store.begin(&theirs, &request("1")).await.unwrap();
        assert_eq!(kept, Outcome::PriorResult(json("1")));
    });
}

/// A purge is bounded, whatever is asked.
#[tokio::test]
async fn a_purge_is_bounded() {
    on_each!(|world| {
        let fill = "INSERT INTO idempotency_record \
            (namespace, key_value, request_hash, status, request_payload, result_payload, owner, \
             owners, lease_until, created_at, expires_at) \
            WITH RECURSIVE numbers (number) AS \
            (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 10001) \
            SELECT 'orders', CAST(number AS text), {hash}, 'committed', '1', '1', 'o', 1, \
                   now(), now() - 48 * interval '1 hour', now() - interval '1 hour' FROM numbers";
        // The only word that the two databases spell differently.
        let fill = match std::any::type_name_of_val(&world).contains("Postgres") {
            true => fill.replace("{hash}", "decode(repeat('00', 32), 'hex')"),
            false => fill.replace("{hash}", "zeroblob(32)"),
        };
        assert_eq!(world.sql(fill.leak()).await, 10_001);
        let mut connection = world.pool.acquire().await.unwrap();
        let mut store = world.factory.in_connection(&mut connection);
        assert_eq!(store.purge_expired(u32::MAX).await.unwrap(), u64::from(PURGE_ROWS_MAX));
        assert_eq!(store.purge_expired(u32::MAX).await.unwrap(), 1);
    });
}
