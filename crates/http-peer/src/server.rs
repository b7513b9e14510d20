//! The peer's thread: it listens, and serves all connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::connection;
use crate::ledger::Ledger;

/// How many connections can wait to be accepted: more than any benchmark opens at once.
const BACKLOG: u32 = 4096;
/// How long to wait when no connection can be accepted: for one to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A server on a thread of its own. Dropped, it has stopped, and its connections are closed.
pub(crate) struct Server {
    address: SocketAddr,
    /// Dropped, it stops the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on this port of 127.0.0.1; 0: any that is free.
    pub(crate) fn start(port: u16, ledger: Arc<Ledger>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = listen(&runtime, port)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("http-peer".to_owned()).spawn(move || {
            runtime.spawn(accept(listener, ledger));
            // An error says that the sender was dropped, which is how it stops. With the runtime
            // all connections go.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
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

fn listen(runtime: &Runtime, port: u16) -> io::Result<TcpListener> {
    let _entered = runtime.enter();
    let socket = TcpSocket::new_v4()?;
    // A port that was just left can be taken again.
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, ledger: Arc<Ledger>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection::serve(stream, ledger.clone()))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
