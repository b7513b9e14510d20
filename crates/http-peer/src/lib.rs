//! An HTTP peer for tests and benchmarks: it counts what truly arrived, and misbehaves when asked.
//!
//! ```
//! use std::io::{Read as _, Write as _};
//! use indelible_http_peer::Peer;
//!
//! let peer = Peer::start();
//! let mut client = std::net::TcpStream::connect(peer.address()).unwrap();
//! client.write_all(b"POST /do/drop-after HTTP/1.1\r\nIdempotency-Key: k\r\n\r\n").unwrap();
//! // No answer, and yet it had its effect.
//! assert_eq!(client.read(&mut [0]).unwrap(), 0);
//! assert_eq!(peer.processed("k"), 1);
//! ```
//!
//! It is a listener on 127.0.0.1 that speaks HTTP/1.1 with connections that stay open. It writes
//! its answers itself, since no HTTP library can be made to misbehave.
//!
//! - [`Peer`]: in this process, on a thread of its own; the caller needs no runtime.
//! - [`Remote`]: in another process, which lives on when this one is killed. The example `peer` is
//!   such a program; one of your own is [`Peer::start_on`], a line with [`Peer::address`] on its
//!   output, and waiting for whatever should end it.
//! - [`Arrival`]: a request that arrived. It arrives with the last byte of its body: a request that
//!   its client did not finish has not arrived.
//!
//! **Arrived and processed.** A request is *processed* when it had its effect, which is what the
//! peer counts. Some behaviours end before that, some after. Requests count by their
//! `Idempotency-Key`, those without by their path with its query.
//!
//! # Behaviours
//!
//! The path says what happens: `/do/<behaviour>`. Any of them may end with `/processed` or
//! `/unprocessed`, which says whether there is an effect; otherwise it is as in the table. The usual
//! answer is 200 with `{"count":<n>,"key":<key>}`: the key was processed `n` times.
//!
//! | `/do/…` | what happens | effect |
//! |---|---|---|
//! | `answer` | the usual answer | yes |
//! | `answer-late/<ms>` | the usual answer, so long after the effect | yes |
//! | `process-late/<ms>` | the effect comes so long after the request, then the usual answer | yes |
//! | `close-idle` | the usual answer, then the connection is closed without notice | yes |
//! | `echo` | 200 with the arrival: `headers` as pairs, `body`, … | yes |
//! | `drop-before` | the connection is closed | no |
//! | `drop-after` | the same after the effect | yes |
//! | `reset` | the connection is reset (RST) | yes |
//! | `half` | the head and half of the body, then the connection is closed | yes |
//! | `half-chunked` | the same with a body in chunks: closed in the middle of one | yes |
//! | `hang` | nothing, until the client goes | yes |
//! | `bad` | what is not HTTP, then the connection is closed | yes |
//! | `status/<code>` | this status, 200 to 599 | if 2xx |
//! | `retry-after/<seconds>[/<code>]` | `Retry-After` with a number; 503 if no code is given | no |
//! | `retry-date/<seconds>[/<code>]` | the same with a date, so far from now; may be negative | no |
//! | `redirect/<code>/<path>` | `Location: /<path>`, or a URL with its `://` written `%3A%2F%2F` | no, always |
//! | `huge/<bytes>` | 200 with a body of this many `x` | yes |
//! | `slow/<bytes>/<ms>` | the same, a byte at a time, each after so long | yes |
//! | `lookup/<key>` | 200 with `{"processed":<n>}` for that key | no, always |
//! | `seq/<b1>,<b2>,…` | `b1` for the first arrival of the key, and so on; the last is repeated | |
//! | `keyed[/<behaviour>]` | the effect comes once for each key; a repeated request gets the count that the first got | |
//! | `forget[/<n>][/<behaviour>]` | `keyed`, but each key is forgotten after `n` arrivals (1); the next one is the first again | |
//!
//! `keyed` and `forget` stand before a behaviour, which is `answer` if there is none, also within
//! `seq`, or before all of `seq`: `keyed/seq/drop-after,half,answer` is a service with idempotency
//! keys on a bad line. A key of any characters is written with `%xx`.
//!
//! Other paths are 404, and an unknown behaviour is 400; both count as arrivals. Bytes that are not
//! a request are refused, and do not count.
//!
//! **Refusing.** [`Peer::down`] keeps the port bound without listening: connections are refused,
//! and no other process can get the port. [`Peer::up`] listens again. What the peer knows stays.
//! [`Port`] is such a port without a peer, for a server that a test kills and starts again.
//!
//! # In another process
//!
//! `/control/…` is for the test, not for the client under test: no arrivals, never held.
//!
//! | | |
//! |---|---|
//! | `GET /control/log` | all arrivals, a line of JSON each; bytes that are not UTF-8 are `{"base64":…}` |
//! | `GET /control/count/<key>` | `{"arrivals":<n>,"processed":<n>}` |
//! | `GET /control/fast` | `{"count":<n>}`: requests to `/fast` |
//! | `GET /control/wait/arrivals/<n>/<key>`, `…/processed/<n>/<key>`, `…/held/<n>` | answers when the count is reached |
//! | `POST /control/hold/before-processing`, `…/before-answering` | [`Peer::hold`] |
//! | `POST /control/release` | [`Peer::release`] |
//!
//! # For benchmarks
//!
//! `/fast` answers 200 with a fixed body, whatever the method. It is not in the log, only counted,
//! and is never held. Requests that come together are answered together, with one write.

mod act;
mod arrival;
mod behaviour;
mod connection;
mod control;
mod hold;
mod ledger;
mod peer;
mod remote;
mod reply;
mod request;
mod server;
mod text;
mod wire;

pub use arrival::Arrival;
pub use hold::Hold;
pub use peer::Peer;
pub use remote::Remote;
pub use server::Port;
