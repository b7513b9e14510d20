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
/// How long to wait for another connection to close, when none can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A port of 127.0.0.1 that no other process is given, whether a server listens on it or not: a
/// socket that is bound and does not listen keeps it. While no server listens, the system refuses
/// connections.
///
/// A server that a test kills and starts again can listen on it each time, if it sets
/// `SO_REUSEADDR`. Without the bound socket, the system could give the port away while the server
/// is down. This works on Linux; other systems may not let two sockets have a port.
#[derive(Debug)]
pub struct Port {
    _bound: TcpSocket,
    address: SocketAddr,
}

impl Port {
    /// Takes this port; 0: any that is free.
    pub fn take(port: u16) -> io::Result<Self> {
        let bound = bind((Ipv4Addr::LOCALHOST, port).into())?;
        let address = bound.local_addr()?;
        Ok(Self { _bound: bound, address })
    }

    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A server on a thread of its own. Dropping it stops it and closes its connections.
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
            // An error means that the sender was dropped, which is how the server stops. Dropping
            // the runtime closes all connections.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Panics stay in their tasks: the thread itself does not panic.
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Lets the listener bind the port that [`Port`] keeps, and a port whose old connections linger.
    // It does not let two sockets listen.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, ledger: Arc<Ledger>) {
    let listening = ListenerGuard(listener);
    loop {
        match listening.0.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection::serve(stream, ledger.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A listener that stops listening when it is dropped. Closing is not enough: a process that
/// another thread is just starting has copies of all open files, and the copy would go on
/// listening.
struct ListenerGuard(TcpListener);

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        // An error means that it had stopped already.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}
