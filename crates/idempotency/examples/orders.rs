//! A shop whose orders are placed once, however often they are sent: axum and sqlx on PostgreSQL.
//!
//! `cargo run -p indelible-idempotency --example orders -- postgres://localhost/shop`

use std::io::Write as _;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use indelible_idempotency::store::{
    Operation, POSTGRES_MIGRATION, PostgresStoreFactory, Settings, ShapeError, StoreError,
};
use indelible_idempotency::{ConsumerNamespace, Reply, parse_key};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

#[derive(Serialize, Deserialize)]
struct PlaceOrder {
    item: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    number: i64,
}

/// Wired once: its name, and the types of the request and of the result.
const PLACE_ORDER: Operation<PlaceOrder, Receipt> = Operation::new("place-order");

#[derive(Clone)]
struct Shop {
    pool: PgPool,
    keys: PostgresStoreFactory,
}

async fn place_order(
    State(shop): State<Shop>,
    headers: HeaderMap,
    Json(order): Json<PlaceOrder>,
) -> Result<Response, Problem> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let raw = sent.next().map(|value| value.to_str()).transpose()?;
    if sent.next().is_some() {
        return Err(Problem(StatusCode::BAD_REQUEST, "send one Idempotency-Key".to_owned()));
    }
    let Some(key) = parse_key(shop.keys.settings().namespace(), raw)? else {
        return Err(Problem(StatusCode::BAD_REQUEST, "send an Idempotency-Key".to_owned()));
    };

    // One transaction around begin, the work and commit: all of it happens, or nothing.
    let mut tx = shop.pool.begin().await?;
    let outcome = shop.keys.with_tx(&mut tx).typed_as(PLACE_ORDER).begin(&key, &order).await?;
    let attempt = match outcome.into_attempt() {
        Ok(attempt) => attempt,
        Err(reply) => return Ok(answer(&reply)),
    };
    let number =
        sqlx::query_scalar("INSERT INTO orders (item, cents) VALUES ($1, $2) RETURNING number")
            .bind(&order.item)
            .bind(order.cents)
            .fetch_one(&mut *tx)
            .await?;
    let receipt = Receipt { number };
    shop.keys.with_tx(&mut tx).typed_as(PLACE_ORDER).commit(&attempt, &receipt).await?;
    tx.commit().await?;
    Ok(answer(&Reply::Created { result: receipt }))
}

fn answer(reply: &Reply<Receipt>) -> Response {
    let status = match reply {
        Reply::Created { .. } | Reply::PreExisting { .. } => StatusCode::CREATED,
        Reply::OperationInProgress { .. } => StatusCode::CONFLICT,
        Reply::Mismatch | Reply::Failed { .. } => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let mut response = (status, Json(reply)).into_response();
    if let Reply::OperationInProgress { retry_after_seconds: Some(seconds), .. } = reply {
        response.headers_mut().insert("retry-after", (*seconds).into());
    }
    response
}

struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            // Nothing was done: the caller sends it again, with the same key.
            StoreError::RetryTransaction(_) => {
                Self(StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned())
            }
            _ => Self(StatusCode::INTERNAL_SERVER_ERROR, "something is wrong here".to_owned()),
        }
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        match error {
            // The database says no, and would say so again.
            sqlx::Error::Database(_) => {
                Self(StatusCode::INTERNAL_SERVER_ERROR, "something is wrong here".to_owned())
            }
            // Where the answer to COMMIT is lost, it is unknown whether it holds: the key finds
            // out.
            _ => Self(StatusCode::SERVICE_UNAVAILABLE, "send it again, same key".to_owned()),
        }
    }
}

impl From<indelible_idempotency::KeyError> for Problem {
    fn from(error: indelible_idempotency::KeyError) -> Self {
        Self(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<axum::http::header::ToStrError> for Problem {
    fn from(_: axum::http::header::ToStrError) -> Self {
        Self(StatusCode::BAD_REQUEST, "the Idempotency-Key is no text".to_owned())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the database as postgres://…")?;
    let pool = PgPool::connect(&url).await?;
    // Callers repeat a request for a day at most; records are kept for a week.
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let namespace = ConsumerNamespace::new("shop")?;
    let keys = PostgresStoreFactory::new(Settings::new(namespace, 7 * DAY, DAY)?);
    // Your own migrations do this; POSTGRES_MIGRATION is the text to copy into them.
    if let Err(ShapeError::Missing { .. }) = keys.check(&mut *pool.acquire().await?).await {
        sqlx::raw_sql(POSTGRES_MIGRATION).execute(&pool).await?;
        let orders =
            "CREATE TABLE orders (number bigserial, item text NOT NULL, cents bigint NOT NULL)";
        sqlx::raw_sql(orders).execute(&pool).await?;
    }
    keys.check(&mut *pool.acquire().await?).await?;

    // Nothing else ends the replay of a record: purge now and then.
    let (purging, every) = ((pool.clone(), keys.clone()), Duration::from_secs(60));
    tokio::spawn(async move {
        let (pool, keys) = purging;
        loop {
            tokio::time::sleep(every).await;
            if let Ok(mut connection) = pool.acquire().await {
                while let Ok(1..) = keys.in_connection(&mut connection).purge_expired(1_000).await {
                }
            }
        }
    });

    let app = Router::new().route("/orders", post(place_order)).with_state(Shop { pool, keys });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    writeln!(std::io::stdout(), "http://{address}/orders")?;
    axum::serve(listener, app).await?;
    Ok(())
}
