//! A shop with fifty orders. The path of each order's charge says what the payment service does with
//! it; the engine knows nothing of that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use indelible_http_peer::{Arrival, Hold, Peer};
use indelible_journal::Timestamp;
use serde_json::{Value, json};

use crate::remote::kit::User;
use crate::serve_crash::kit::{House, execution, text, until};

/// How often the server is killed.
pub const KILLS: usize = 3;

/// What the payment service asks for, and no list, page or file may have.
pub const SECRET: &str = "sk_live_4f9c2b7e";

/// How long a charge may take whose answer comes late or never: long enough for its request to arrive
/// on a machine that has much else to do.
const LATE_MS: u64 = 5_000;

/// One kind of order.
pub struct Kind {
    pub function: &'static str,
    /// What the payment service does with the charge.
    pub does: &'static str,
    /// What the request is beside that.
    more: &'static [(&'static str, bool)],
}

impl Kind {
    const fn new(function: &'static str, does: &'static str) -> Self {
        Self { function, does, more: &[] }
    }

    const fn held(function: &'static str, does: &'static str) -> Self {
        Self { function, does, more: &[("hold", true)] }
    }

    const fn idem(function: &'static str, does: &'static str) -> Self {
        Self { function, does, more: &[("idem", true)] }
    }

    fn says(&self, what: &str) -> bool {
        self.more.iter().any(|(name, is)| *name == what && *is)
    }

    pub fn is_idem(&self) -> bool {
        self.says("idem")
    }

    /// Whether the service leaves the first request without an answer.
    pub fn is_cut(&self) -> bool {
        !self.does.starts_with("answer")
    }

    fn hangs(&self) -> bool {
        self.does.split(['/', ',']).any(|step| step == "hang")
    }
}

/// The orders of one life of the server.
static ROUND: [Kind; 15] = [
    Kind::new("sends", "answer"),
    Kind::new("sends", "answer-late/20"),
    Kind::new("sends_by_call", "answer-late/50"),
    Kind::held("sends", "answer-late/100"),
    Kind::idem("sends", "seq/drop-after,answer"),
    // In flight when the server is killed; sent again, and answered.
    Kind::idem("sends", "seq/hang,answer"),
    Kind::new("sends", "drop-after"),
    Kind::new("sends_by_call", "drop-before"),
    Kind::held("sends", "seq/half,answer"),
    Kind::held("sends_by_call", "seq/drop-before,answer"),
    Kind::new("sends_and_traps", "reset"),
    // In flight when the server is killed.
    Kind::new("sends", "hang"),
    Kind::new("sends_by_call", "hang"),
    Kind::held("sends", "seq/hang,answer"),
    // A call that is in memory alone, lost with its process.
    Kind::new("calls_volatile", "hang"),
];

/// The last orders: an answer that comes too late for each of two, a request in doubt whose order is
/// cancelled, one in flight whose order is cancelled, and one that could not be sent at first.
static LATE: Kind = Kind::new("sends", "answer");
static LATE_HELD: Kind = Kind::held("sends", "answer");
static CANCELLED_HELD: Kind = Kind::held("sends", "drop-after");
static CANCELLED: Kind = Kind::new("sends", "hang");
static REFUSED: Kind = Kind::held("sends", "seq/drop-after,answer");

/// How many orders there are in all.
const ORDERS: usize = 50;

/// An order that the server has accepted.
pub struct Order {
    pub number: usize,
    pub kind: &'static Kind,
    pub namespace: &'static str,
    pub url: String,
    pub input: String,
    pub execution: String,
    pub operation: String,
}

impl Order {
    pub fn key(&self) -> String {
        format!("order-{}", self.number)
    }

    pub fn body(&self) -> String {
        body(self.number)
    }

    /// What came of it, for as long as its name is remembered.
    pub fn outcome(&self, shop: &Shop) -> Value {
        let path = format!(
            "/v1/operations/{}/outcome?namespace={}&wait=60",
            self.operation, self.namespace
        );
        let answer = shop.house.place.ask("GET", &path, &[], "");
        assert!([200, 424].contains(&answer.status), "{}: {}", self.key(), text(&answer));
        answer.json()
    }

    /// Whether the function was told the answer of the payment service.
    pub fn is_told(&self, shop: &Shop) -> bool {
        self.outcome(shop)["result"]["status"] == 200
    }
}

/// Whose order it is.
const fn namespace(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "default" } else { "eu" }
}

fn body(number: usize) -> String {
    json!({ "order": number, "cents": 500 }).to_string()
}

pub struct Shop {
    pub house: House,
    pub service: Peer,
    /// Refuses connections until it is up.
    refusing: Peer,
    config: PathBuf,
    pub began: u64,
    pub orders: Vec<Order>,
    /// When the server was killed: just before, and after.
    pub kills: Vec<(u64, u64)>,
}

/// The time in microseconds, as the server has it.
pub fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

pub fn micros(text: &Value) -> u64 {
    text.as_str().unwrap().parse::<Timestamp>().unwrap().as_micros()
}

impl Shop {
    pub fn open() -> Self {
        let (service, refusing) = (Peer::start(), Peer::start());
        refusing.down();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("indelible.toml");
        std::fs::write(folder.path().join("payments.key"), SECRET).unwrap();
        let lines = format!(
            "[components.behaviours]\nhosts = [\"{}\", \"{}\"]\nnetworks = [\"loopback\"]\n\
             plain_http = true\nsecrets = [\"PAYMENTS_KEY\"]\n\
             [secrets]\nPAYMENTS_KEY = \"file:payments.key\"\n",
            service.address(),
            refusing.address()
        );
        std::fs::write(&config, lines).unwrap();
        let arguments = ["--config".to_owned(), config.to_str().unwrap().to_owned()];
        let house = House::with(&arguments, folder);
        house.deploy("behaviours");
        let (orders, kills) = (Vec::with_capacity(ORDERS), Vec::new());
        Self { house, service, refusing, config, began: now(), orders, kills }
    }

    /// A person with a terminal, and no namespace of their own.
    pub fn user(&self) -> User {
        User::at(&format!("http://{}", self.house.place.now().1))
    }

    /// Customers order all at once, and repeat what got no answer. The server is killed when those
    /// requests have arrived that are not answered, and the first order has its answer.
    pub fn take_orders_and_die(&mut self, round: usize) {
        let first = round * ROUND.len();
        let accepted: Vec<_> = ROUND
            .iter()
            .enumerate()
            .map(|(at, kind)| self.place_order(first + at, kind, &self.service, &[]))
            .collect();
        let hanging: Vec<usize> =
            (0..ROUND.len()).filter(|at| ROUND[*at].hangs()).map(|at| first + at).collect();
        self.service.wait_for(|log| {
            hanging.iter().all(|number| log.iter().any(|arrival| order_of(arrival) == *number))
        });
        let first = format!("/v1/executions?key=order-{first}&namespace={}", namespace(first));
        until("the first order is paid", || {
            let rows = self.house.place.rows(&first, "executions");
            rows.iter().any(|row| row["state"] == "completed").then_some(())
        });
        let before = now();
        self.house.kill();
        self.kills.push((before, now()));
        self.house.start();
        self.orders.extend(accepted.into_iter().map(|order| order.join().unwrap()));
    }

    /// Nothing is killed any more: answers come too late, orders are cancelled, and a service is not
    /// there at first.
    pub fn lose_answers(&mut self) {
        self.service.hold(Hold::BeforeAnswering);
        let late = [("timeout_ms", json!(LATE_MS))];
        let first = self.orders.len();
        let placed = [
            self.place_order(first, &LATE, &self.service, &late),
            self.place_order(first + 1, &LATE_HELD, &self.service, &late),
            self.place_order(first + 2, &CANCELLED_HELD, &self.service, &[]),
            self.place_order(first + 3, &CANCELLED, &self.service, &late),
            self.place_order(first + 4, &REFUSED, &self.refusing, &[("unbounded", json!(true))]),
        ];
        self.orders.extend(placed.into_iter().map(|order| order.join().unwrap()));
        assert_eq!(self.orders.len(), ORDERS);
        let [late, late_held, cancelled_held, cancelled, refused] = &self.orders[first..] else {
            unreachable!()
        };
        let place = &self.house.place;
        let open = |order: &Order, state: &str| {
            let all = place.rows("/v1/unresolved?limit=50", "unresolved");
            all.into_iter().find(|one| {
                root(one) == order.execution && one["state"] == state && one["settled"].is_null()
            })
        };

        until("a request could not be sent", || {
            let journal = place.journal(&refused.execution);
            journal.iter().any(|event| event["event"] == "InvokeRetrying").then_some(())
        });
        self.refusing.up().unwrap();

        let user = self.user();
        self.service.wait_for(|log| {
            [late, late_held, cancelled]
                .iter()
                .all(|order| log.iter().any(|arrival| order_of(arrival) == order.number))
        });
        let stop = |order: &Order, why: &str| {
            user.run(&["cancel", &order.execution, "--yes", "--reason", why])
        };
        let said = stop(cancelled, "the customer went away");
        assert_eq!(said.code, 0, "{}", said.stderr);

        // The answers that are held come when their charges were given up.
        until("its answer is late", || open(late, "ended"));
        until("its answer is late", || open(late_held, "held"));
        self.service.release();
        for order in [late, late_held] {
            let settled = until("a late answer settles it", || {
                let all = place.rows("/v1/unresolved?limit=50&all=true", "unresolved");
                all.into_iter()
                    .find(|one| root(one) == order.execution && !one["settled"].is_null())
            });
            let settled = &settled["settled"];
            assert_eq!(
                (&settled["finding"], &settled["actor"]),
                (&json!("happened"), &json!("peer"))
            );
        }
        until("it is held", || open(cancelled_held, "held"));
        let said = stop(cancelled_held, "the customer called");
        assert!(
            said.stderr.starts_with("it is unknown whether 1 of its requests happened: they end"),
            "{}",
            said.stderr
        );
        until("the question outlives the cancel", || open(cancelled_held, "ended"));
        until("the question outlives the cancel", || open(cancelled, "ended"));
        until("it is held", || open(refused, "held"));
        self.come_to_rest();
    }

    /// Stops the server, and starts one that deletes what has completed: the questions stay.
    pub fn forget_what_completed(&mut self) {
        self.house.terminate();
        assert_eq!(self.house.ended(), Some(0));
        let lines = std::fs::read_to_string(&self.config).unwrap();
        let keep = "[retention]\ncompleted = \"1s\"\n";
        std::fs::write(&self.config, format!("{keep}{lines}")).unwrap();
        self.house.start();
        self.come_to_rest();
        until("what has completed is deleted", || {
            let path = "/v1/executions?limit=50&namespace=*&state=completed";
            self.house.place.rows(path, "executions").is_empty().then_some(())
        });
    }

    /// Waits until every order is over or waits for a person.
    fn come_to_rest(&self) {
        let place = &self.house.place;
        until("every order is over, or waits for a person", || {
            let path = "/v1/unresolved?limit=50&state=held";
            let held = place.rows(path, "unresolved");
            let path = "/v1/executions?limit=50&namespace=*&state=running,blocked,cancelling,stuck";
            let live = place.rows(path, "executions");
            let waits = |live: &Value| held.iter().any(|held| root(held) == root(live));
            live.iter().all(waits).then_some(())
        });
    }

    /// Has a customer order, and ask again until there is an answer.
    fn place_order(
        &self,
        number: usize,
        kind: &'static Kind,
        service: &Peer,
        more: &[(&str, Value)],
    ) -> thread::JoinHandle<Order> {
        let namespace = namespace(number);
        let url = service.url(&format!("/do/keyed/{}?order={number}", kind.does));
        let mut spec = json!({
            "method": "POST",
            "url": url,
            "headers": [["x-order", number.to_string()], ["content-type", "application/json"]],
            "secrets": [["authorization", "PAYMENTS_KEY"]],
            "body": body(number),
            "backoff_ms": 20,
        });
        let declared = kind.more.iter().map(|(name, is)| (*name, json!(is)));
        for (name, value) in declared.chain(more.iter().cloned()) {
            spec[name] = value;
        }
        let input = match kind.function {
            "calls_volatile" => json!(["glance", spec]).to_string(),
            _ => spec.to_string(),
        };
        let path = format!(
            "/v1/start/behaviours/{}?namespace={namespace}&label=order={number}&label=shop=online",
            kind.function
        );
        let place = Arc::clone(&self.house.place);
        thread::spawn(move || {
            let key = format!("order-{number}");
            let answer = place.post(&path, ("idempotency-key", &key), &input);
            assert_eq!(answer.status, 202, "{}", text(&answer));
            let operation = answer.json()["operation_id"].as_str().unwrap().to_owned();
            let execution = execution(&answer);
            Order { number, kind, namespace, url, input, execution, operation }
        })
    }

    /// What both services have received.
    pub fn arrivals(&self) -> Vec<Arrival> {
        [self.service.log(), self.refusing.log()].concat()
    }

    /// How often each order was charged.
    pub fn charges(&self) -> BTreeMap<usize, usize> {
        let mut charges = BTreeMap::new();
        for arrival in self.arrivals().iter().filter(|arrival| arrival.processed) {
            *charges.entry(order_of(arrival)).or_default() += 1;
        }
        charges
    }

    pub fn gauge(&self, name: &str) -> u64 {
        let metrics = text(&self.house.get("/metrics"));
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(&format!("indelible_{name} ")));
        line.unwrap().parse().unwrap()
    }
}

/// The order that a request charges.
pub fn order_of(arrival: &Arrival) -> usize {
    arrival.path.rsplit_once("?order=").unwrap().1.parse().unwrap()
}

/// The root of the tree of something in a list.
pub fn root(listed: &Value) -> &str {
    listed["execution_id"].as_str().unwrap().split('.').next().unwrap()
}
