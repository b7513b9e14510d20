//! The demo's own server: its port, which it keeps over restarts, and its configuration.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

use super::customers::COMPONENT;
use super::place::DemoFolder;
use super::process::Process;
use crate::failure::Failure;

/// How many ports are tried: another process may take one between the check and the start.
const PORTS_MAX: u32 = 5;

/// The file that gets the server's log.
pub(super) const LOG: &str = "server.log";

/// The folder of the server's data.
pub(super) const DATA: &str = "data";

/// A server that listens.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) url: String,
    _port: Port,
}

/// A port of this machine.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    /// Bound, but not listening: while the server is down, the system gives the port to no other
    /// process, and refuses connections. None where the system would then not let the server
    /// listen.
    _kept: Option<TcpSocket>,
}

impl Port {
    fn take() -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Self { address, _kept: cfg!(target_os = "linux").then_some(socket) })
    }
}

impl Server {
    /// Starts a server whose components may reach the payment service, and nothing else.
    pub(super) async fn start(place: &DemoFolder, payments: SocketAddr) -> Result<Self, Failure> {
        let config = format!(
            "# The shop may reach the payment service of the demo, on this machine.\n\
             [components.{COMPONENT}]\n\
             hosts = [\"{payments}\"]\n\
             networks = [\"loopback\"]\n\
             plain_http = true\n"
        );
        let config = place.write("indelible.toml", &config)?;
        let mut tries = 1;
        loop {
            let port = Port::take().map_err(|error| {
                Failure::new(format!("there is no free port on 127.0.0.1: {error}")).hint(
                    "the demo needs two free ports on this machine, for its server and its payment \
                     service",
                )
            })?;
            let listen = port.address.to_string();
            let mut arguments = ["serve", "--listen", &listen, "--data"].map(Into::into).to_vec();
            arguments.extend([place.join(DATA).into_os_string(), "--config".into()]);
            arguments.push(config.clone().into_os_string());
            let mut process = Process::new(arguments, place.join(LOG));
            match process.start().await {
                Ok(_) => return Ok(Self { process, url: format!("http://{listen}"), _port: port }),
                Err(_) if tries < PORTS_MAX && process.log_says("in use") => tries += 1,
                Err(failure) => return Err(failure),
            }
        }
    }
}
