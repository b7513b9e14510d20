//! `indelible bench deliver`: messages that are accepted, and delivered to an endpoint on this machine,
//! which answers at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use indelible_delivery::signing::{Secret, standard};
use indelible_delivery::{ContentType, EndpointSettings, Topic};
use indelible_http_client::{Client, Config, Grant, Network};
use indelible_http_peer::Peer;
use indelible_journal::Namespace;
use indelible_ledger::OriginId;
use indelible_runtime::delivery::{DELIVERY_GRANT, NewMessage};
use indelible_runtime::{Engine, World};

use super::calls::Load;
use super::drive::{Producer, drive_for};
use super::house::{self, Measure, Site};
use super::report::{Measurement, figures, latency, round};
use super::{raw, unable};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Sends messages to one endpoint, each under its own key; the next one of a sender follows when the last
one is durable. The peer answers at once and runs in this process, on the same cores. `per s` counts
what was delivered, up to the last one; the latencies are those of acceptance.

First messages are signed with a shared secret (v1), then with an Ed25519 key (v1a); beside the second
stands how many signatures one core makes in a second.

Examples:
  indelible bench deliver
  indelible bench deliver --in-flight 1 --json";

/// The body of each message.
const BODY: &str = r#"{"order":7,"customer":"c-1041","total":"129.90","currency":"EUR"}"#;

/// The longest that the last deliveries may take.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct DeliverArguments {
    #[command(flatten)]
    load: Load,
}

/// Sends one message after the other.
struct Caller {
    engine: Arc<Engine>,
    namespace: Namespace,
    caller: usize,
    sent: u64,
}

impl Producer for Caller {
    type Input = NewMessage;

    fn prepare(&mut self) -> NewMessage {
        self.sent += 1;
        let key = format!("{}-{}", self.caller, self.sent);
        NewMessage {
            namespace: self.namespace.clone(),
            key: OriginId::new(&key).expect("it is a key"),
            topic: Topic::new("bench.sent").expect("it is a topic"),
            lane: None,
            content_type: ContentType::new("application/json").expect("it is a type"),
            body: Bytes::from_static(BODY.as_bytes()),
        }
    }

    async fn commit(&mut self, message: NewMessage) -> Result<(), Failure> {
        let sent = self.engine.send_message(message).await;
        sent.map(drop).map_err(|error| unable("send a message", &error))
    }
}

/// What one signature comes to.
struct Delivered {
    per_s: f64,
    accepted_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    count: u64,
    fsyncs: u64,
    cpu_s: f64,
}

impl Measure for DeliverArguments {
    fn measure(&self, site: &Site<'_>) -> Result<Measurement, Failure> {
        let Load { in_flight, seconds } = self.load;
        let peer = Peer::start_on(0).map_err(|error| unable("start a peer", &error))?;
        let grant = Grant {
            any_host: true,
            networks: Network::loopback().to_vec(),
            plain_http: true,
            ..Grant::default()
        };
        let grants = [(DELIVERY_GRANT, grant)].into_iter().collect();
        let client = Client::start(Config { grants, ..Config::default() });
        let client = client.map_err(|error| unable("start a client", &error))?;
        let world = World { http: Arc::new(client), ..site.world()? };
        let engine = Arc::new(house::open(site.place.path(), world)?);
        let run = |namespace: &str, secret: Secret| -> Result<Delivered, Failure> {
            let namespace = Namespace::new(namespace).expect("it is a name");
            let url = peer.url("/fast");
            let settings = format!(
                r#"{{"name":"peer","url":"{url}","in_flight_max":256,"secrets":["{}"]}}"#,
                secret.reveal()
            );
            let settings: EndpointSettings = serde_json::from_str(&settings).expect("it is JSON");
            let endpoint = settings.read().expect("the settings are valid");
            let put = site.runtime.block_on(engine.put_endpoint(&namespace, endpoint, None));
            put.map_err(|error| unable("make an endpoint", &error))?;
            let callers = (0..in_flight as usize).map(|caller| Caller {
                engine: Arc::clone(&engine),
                namespace: namespace.clone(),
                caller,
                sent: 0,
            });
            let before = peer.fast();
            let syncs = engine.readings().store.groups;
            let length = Duration::from_secs(seconds.into());
            let driven = drive_for(site.runtime, callers.collect(), length)?;
            let count = driven.latencies.count();
            let all_are_there = || peer.fast() - before >= count;
            let rest = house::until("the last deliveries", PATIENCE, all_are_there)?;
            let fsyncs = engine.readings().store.groups - syncs;
            let [p50_us, p99_us] = driven.latencies.micros([500, 990]);
            Ok(Delivered {
                per_s: round(count as f64 / (driven.seconds + rest.as_secs_f64()), 1),
                accepted_per_s: round(driven.per_s(), 1),
                p50_us,
                p99_us,
                count,
                fsyncs,
                cpu_s: driven.cpu_s(),
            })
        };
        let both = || {
            let shared = run("v1", Secret::hmac(&[7; 32]))?;
            Ok((shared, run("v1a", Secret::ed25519([7; 32]))?))
        };
        let ((shared, public), raw_sync_us) = raw::beside(site.runtime, site.place, both)?;
        let signed_per_s = signatures_per_s();
        let Delivered { per_s, accepted_per_s, p50_us, p99_us, count, fsyncs, cpu_s } = shared;
        let v1a_per_s = public.per_s;
        let text = format!(
            "deliver: {per_s:.0} per s with v1, {in_flight} senders; {accepted_per_s:.0} accepted per s, \
             {} each, p99 {} (a sync of the disk alone: {}), {:.3} syncs a message, \
             {cpu_s:.2} s of cpu\n\
             deliver: {v1a_per_s:.0} per s with v1a; one core signs {signed_per_s:.0} per s",
            latency(p50_us),
            latency(p99_us),
            latency(raw_sync_us),
            fsyncs as f64 / count.max(1) as f64,
        );
        let figures = figures! {
            in_flight, count, per_s, accepted_per_s, p50_us, p99_us, fsyncs, cpu_s, raw_sync_us,
            v1a_per_s, signed_per_s
        };
        Ok(Measurement::new("deliver", figures, text))
    }
}

/// How many Ed25519 signatures of such a message one core makes in a second.
fn signatures_per_s() -> f64 {
    const COUNT: u32 = 5_000;
    let secret = Secret::ed25519([7; 32]);
    let begin = house::moment();
    for number in 0..COUNT {
        let timestamp = number.to_string();
        std::hint::black_box(standard::sign([&secret], "msg_1", &timestamp, BODY.as_bytes()));
    }
    let micros = house::moment() - begin;
    round(f64::from(COUNT) * 1e6 / micros.max(1) as f64, 1)
}
