//! Which port a server listens on.
#![expect(clippy::disallowed_methods, reason = "the range of ports is in a file of the kernel's")]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// The address that servers listen on.
pub(crate) const HOST: &str = "127.0.0.1";

/// Lower ports are those of well-known services.
const PORT_MIN: u16 = 10_000;
/// With fewer ports than this to choose from, the kernel chooses.
const PORTS_MIN: u16 = 2_000;

/// A port that is free now. Each attempt gives another, and so does each folder: its name is
/// random, so two servers rarely come to the same, and then one of them tries again.
///
/// The port is not one of those that the kernel gives to outgoing connections. Such a port could be
/// taken while its server is down; and a client that tries to reach the server meanwhile could be
/// given that very port as its own, and be connected to itself.
pub(crate) fn free(folder: &Path, attempt: u32) -> std::io::Result<u16> {
    let ephemeral = ephemeral_min();
    if ephemeral < PORT_MIN + PORTS_MIN {
        return Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port());
    }
    (0..)
        .map(|step: u32| {
            let mut hasher = DefaultHasher::new();
            (folder, attempt, step).hash(&mut hasher);
            let offset = hasher.finish() % u64::from(ephemeral - PORT_MIN);
            PORT_MIN + u16::try_from(offset).expect("it is less than a u16")
        })
        .take(PORTS_MIN.into())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| std::io::Error::other("no port is free"))
}

/// The first port that the kernel gives to outgoing connections.
fn ephemeral_min() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        // The default of most systems.
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port that is taken is not given; other attempts and folders get others.
    ///
    /// A child that another test has forked and that has not called exec yet still has the listener
    /// that `free` tried the port with, so the first port may be taken for a moment.
    #[test]
    fn a_port_is_free_and_differs() {
        let folder = Path::new("/tmp/some-folder");
        let (attempt, listener) = (0..1_000)
            .find_map(|attempt| {
                let port = free(folder, attempt).unwrap();
                Some((attempt, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?))
            })
            .expect("one of a thousand ports can be listened on");
        let taken = listener.local_addr().unwrap().port();
        assert_ne!(free(folder, attempt).unwrap(), taken);
        assert_ne!(free(folder, 1).unwrap(), free(Path::new("/tmp/another"), 1).unwrap());
    }
}
