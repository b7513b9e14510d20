//! A terminal of a test's own: one end for the test, and the other for what runs at it.
//!
//! No process inherits an end unasked (`CLOEXEC`). Tests run side by side, and a terminal ends when
//! no process has its other end open: one that another test starts just then would keep it open.

use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

const FLAGS: OpenptFlags = OpenptFlags::RDWR.union(OpenptFlags::NOCTTY).union(OpenptFlags::CLOEXEC);

/// The test's end.
pub(crate) fn open() -> OwnedFd {
    let master = openpt(FLAGS).unwrap();
    unlockpt(&master).unwrap();
    master
}

/// The other end, for a process that is started with it.
pub(crate) fn peer(master: &OwnedFd) -> OwnedFd {
    ioctl_tiocgptpeer(master, FLAGS).unwrap()
}
