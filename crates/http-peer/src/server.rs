//! The peer's port, and its thread: it listens, and serves all connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::connection;
use crate::ledger::Ledger;

/// How many connections can wait to be accepted: more than any benchmark opens at once.
const BACKLOG: u32 = 4096;
/// How long to wait when no connection can be accepted: for one to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A port of 127.0.0.1. The system gives it to nobody else, whether somebody listens or not: a
/// socket that is bound and does not listen keeps it, and the system refuses who connects.
///
/// A server that a test kills and starts again on the same port has it all the time, if it listens
/// with `SO_REUSEADDR`: the system hands out a port again as soon as it is free. This is how Linux
/// does it; other systems may not let two sockets have a port.
#[derive(Debug)]
pub struct Port {
    _bound: TcpSocket,
    address: SocketAddr,
}

impl Port {
    /// Takes this one; 0: any that is free.
    pub fn take(port: u16) -> io::Result<Self> {
        let bound = bind((Ipv4Addr::LOCALHOST, port).into())?;
        let address = bound.local_addr()?;
        Ok(Self { _bound: bound, address })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A server on a thread of its own. Dropped, it has stopped, and its connections are closed.
pub(crate) struct Server {
    /// Dropped, it stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on this port.
    pub(crate) fn start(port: &Port, ledger: Arc<Ledger>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            bind(port.address)?.listen(BACKLOG)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("http-peer".to_owned()).spawn(move || {
            runtime.spawn(accept(listener, ledger));
            // An error says that the sender was dropped, which is how it stops. With the runtime
            // all connections go.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was in a task, which keeps it for itself.
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Lets the listener have the port that is kept, and a port that was just left be taken again.
    // It does not let two listen.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, ledger: Arc<Ledger>) {
    let listening = Listening(listener);
    loop {
        match listening.0.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection::serve(stream, ledger.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A listener that does not listen any more when it is dropped. To close it is not enough: while
/// another thread starts a program, the new process has copies of all that is open, and a copy
/// listens on.
struct Listening(TcpListener);

impl Drop for Listening {
    fn drop(&mut self) {
        // An error: it had stopped already.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}
