//! A payment service as many are: whatever arrives at `POST /charges` charges the card, whether its
//! `Idempotency-Key` is known or not. It can be asked by key, `GET /charges/{key}`, what it did. Its
//! network is bad, as the plan says.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::book::Book;
use super::event::Said;
use super::plan::{Fault, Number};

/// The largest request that makes sense.
const BODY_BYTES_MAX: usize = 16 << 10;

/// How long to wait when no connection can be accepted: for one to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A payment service on a thread of its own. Dropped, it has stopped.
#[derive(Debug)]
pub(super) struct Payments {
    pub(super) address: SocketAddr,
    pub(super) book: Arc<Book>,
    /// Dropped, it stops the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// What is asked for.
#[derive(Deserialize)]
struct Charge {
    order: String,
}

/// With this the connection breaks without an answer.
fn dropped() -> io::Error {
    io::Error::other("the connection is dropped on purpose")
}

type Answer = Response<Full<Bytes>>;

impl Payments {
    /// Starts on a free port of this machine.
    pub(super) fn start(book: Book) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let book = Arc::new(book);
        let (stop, stopped) = oneshot::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        let served = Arc::clone(&book);
        let thread = std::thread::Builder::new().name("payments".to_owned()).spawn(move || {
            // A runtime is made and dropped outside of any other.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (runtime, said) = match runtime {
                Ok(runtime) => (Some(runtime), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Whoever started it waits for this.
            _ = begun.send(said);
            if let Some(runtime) = runtime {
                runtime.block_on(serve_until(listener, served, stopped));
            }
        })?;
        begins.recv().map_err(io::Error::other)??;
        Ok(Self { address, book, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Payments {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was in a task, which keeps it for itself.
            _ = thread.join();
        }
    }
}

/// Serves until the sender is dropped. With the runtime all connections go.
async fn serve_until(
    listener: std::net::TcpListener,
    book: Arc<Book>,
    stopped: oneshot::Receiver<Infallible>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&book)))),
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = accepting => {}
    }
}

async fn connection(stream: TcpStream, book: Arc<Book>) {
    _ = stream.set_nodelay(true);
    let service = service_fn(move |request| serve(request, Arc::clone(&book)));
    // An error is one of the connection, or a connection that is dropped on purpose.
    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn serve(request: Request<Incoming>, book: Arc<Book>) -> io::Result<Answer> {
    let path = request.uri().path();
    if request.method() == Method::GET
        && let Some(key) = path.strip_prefix("/charges/")
    {
        return Ok(asked(&book, key));
    }
    if request.method() != Method::POST || path != "/charges" {
        return Ok(answer(StatusCode::NOT_FOUND, "{}"));
    }
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default().to_owned();
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|_| dropped())?.to_bytes();
    let charge = serde_json::from_slice::<Charge>(&body).ok();
    let Some(order) = charge.and_then(|charge| charge.order.parse().ok()) else {
        return Ok(answer(StatusCode::BAD_REQUEST, "{}"));
    };
    // What has arrived is carried out, whether somebody still waits for the answer or not.
    tokio::spawn(charge_card(book, key, order)).await.map_err(|_| dropped())?
}

async fn charge_card(book: Arc<Book>, key: String, order: Number) -> io::Result<Answer> {
    let arrived = book.arrived(&key, order);
    let (before, after) = book.plan().latency(order, arrived.arrival);
    sleep(before).await;
    let receipt = match arrived.fault {
        Fault::LostBefore => None,
        Fault::None | Fault::LostAfter | Fault::Unknowable => Some(book.charge(&key, order)),
    };
    sleep(after).await;
    book.over(&key, order, arrived.fault);
    match (arrived.fault, receipt) {
        (Fault::None, Some(receipt)) => Ok(answer(StatusCode::CREATED, &receipt)),
        _ => Err(dropped()),
    }
}

fn asked(book: &Book, key: &str) -> Answer {
    match book.ask(key) {
        (Said::Charged, receipt) => answer(StatusCode::OK, receipt.as_deref().unwrap_or_default()),
        (Said::NotCharged, _) => answer(StatusCode::NOT_FOUND, "{}"),
        (Said::Working, _) => answer(StatusCode::ACCEPTED, "{}"),
        (Said::CannotSay, _) => answer(StatusCode::SERVICE_UNAVAILABLE, "{}"),
    }
}

fn answer(status: StatusCode, body: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *answer.status_mut() = status;
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::demo::plan::Plan;

    /// What is answered: the status and the body. None: the connection is closed without a word.
    fn ask(payments: &Payments, head: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = std::net::TcpStream::connect(payments.address).unwrap();
        let length = body.len();
        let head = format!("{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        let head = format!("{head}idempotency-key: k\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1)?.parse().unwrap();
        Some((status, answer.split_once("\r\n\r\n").unwrap().1.to_owned()))
    }

    fn payments(plan: &Plan) -> Payments {
        let tell = tokio::sync::mpsc::unbounded_channel().0;
        Payments::start(Book::new(plan.clone(), tell)).unwrap()
    }

    /// Over a real connection, each fault is what it says: charged or not, answered or not, and what
    /// the service says when it is asked.
    #[test]
    fn faults_over_the_wire() {
        let plan = Plan::new(5, 30, 0);
        for (fault, answered, asked, charges) in [
            (Fault::None, Some(201), 200, 1),
            (Fault::LostBefore, None, 404, 0),
            (Fault::LostAfter, None, 200, 1),
            (Fault::Unknowable, None, 503, 1),
        ] {
            let payments = payments(&plan);
            let order = plan.numbers().find(|number| plan.fault(*number, 1) == fault).unwrap();
            let body = format!(r#"{{"order":"{order}","cents":5}}"#);
            let before = ask(&payments, "GET /charges/k", "");
            assert_eq!(before.map(|(status, _)| status), Some(404), "{fault:?}");
            let sent = ask(&payments, "POST /charges", &body);
            assert_eq!(sent.map(|(status, _)| status), answered, "{fault:?}");
            let found = ask(&payments, "GET /charges/k", "").unwrap();
            assert_eq!(found.0, asked, "{fault:?}");
            assert_eq!(payments.book.count().charges, charges, "{fault:?}");
            // The second one goes well, and charges the card once more.
            let again = ask(&payments, "POST /charges", &body).unwrap();
            assert_eq!(again, (201, format!(r#"{{"charge":"{order}/{}"}}"#, charges + 1)));
            assert_eq!(payments.book.count().charges, charges + 1, "{fault:?}");
        }
    }

    /// What is none of its business is refused, and charges nothing.
    #[test]
    fn other_requests() {
        let payments = payments(&Plan::new(5, 3, 0));
        for (head, body, status) in [
            ("POST /charges", "{}", 400),
            ("POST /charges", r#"{"order":"tea"}"#, 400),
            ("GET /", "", 404),
            ("DELETE /charges/k", "", 404),
        ] {
            assert_eq!(ask(&payments, head, body), Some((status, "{}".to_owned())), "{head}");
        }
        assert_eq!(payments.book.count().charges, 0);
    }
}
