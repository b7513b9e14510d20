//! A payment service like many: each request to `POST /charges` charges the card, whether its
//! `Idempotency-Key` is known or not. `GET /charges/{key}` says what it did. Its network fails as
//! the plan says.

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
use super::event::ServiceAnswer;
use super::plan::{Fault, Number};

/// Larger requests are refused.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The pause after a failed accept, until another connection is closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A payment service on a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Payments {
    pub(super) address: SocketAddr,
    pub(super) book: Arc<Book>,
    /// Dropping the sender stops the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

/// The body of a request to charge.
#[derive(Deserialize)]
struct Charge {
    order: String,
}

/// This error breaks the connection without an answer.
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
            // The runtime is made and dropped on this thread, outside of any other runtime.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (runtime, said) = match runtime {
                Ok(runtime) => (Some(runtime), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // `start` waits for this message.
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
            // A panic happens within a task, and does not end the thread.
            _ = thread.join();
        }
    }
}

/// Serves until the sender is dropped. All connections end with the runtime.
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
    // An error is one of the network, or a connection that is dropped on purpose.
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
        return Ok(http_answer(StatusCode::NOT_FOUND, "{}"));
    }
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default().to_owned();
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|_| dropped())?.to_bytes();
    let charge = serde_json::from_slice::<Charge>(&body).ok();
    let Some(order) = charge.and_then(|charge| charge.order.parse().ok()) else {
        return Ok(http_answer(StatusCode::BAD_REQUEST, "{}"));
    };
    // An arrived request is carried out even if its client has gone: the task is not cancelled.
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
        (Fault::None, Some(receipt)) => Ok(http_answer(StatusCode::CREATED, &receipt)),
        _ => Err(dropped()),
    }
}

fn asked(book: &Book, key: &str) -> Answer {
    match book.ask(key) {
        (ServiceAnswer::Charged, receipt) => {
            http_answer(StatusCode::OK, receipt.as_deref().unwrap_or_default())
        }
        (ServiceAnswer::NotCharged, _) => http_answer(StatusCode::NOT_FOUND, "{}"),
        (ServiceAnswer::Working, _) => http_answer(StatusCode::ACCEPTED, "{}"),
        (ServiceAnswer::CannotSay, _) => http_answer(StatusCode::SERVICE_UNAVAILABLE, "{}"),
    }
}

fn http_answer(status: StatusCode, body: &str) -> Answer {
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

    /// The status and body of the answer. None: the connection is closed without one.
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
        let events = tokio::sync::mpsc::unbounded_channel().0;
        Payments::start(Book::new(plan.clone(), events)).unwrap()
    }

    /// Over a real connection, each fault does what it says: whether the card is charged, whether
    /// there is an answer, and what the service says afterwards.
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
            // The second request succeeds, and charges the card once more.
            let again = ask(&payments, "POST /charges", &body).unwrap();
            assert_eq!(again, (201, format!(r#"{{"charge":"{order}/{}"}}"#, charges + 1)));
            assert_eq!(payments.book.count().charges, charges + 1, "{fault:?}");
        }
    }

    /// Other requests are refused, and charge nothing.
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
