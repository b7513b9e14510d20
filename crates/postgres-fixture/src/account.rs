//! Who the server runs as: PostgreSQL refuses to run as root.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::error::Error;

/// Who the server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// Our own account.
    Own,
    /// Another account, because we are root.
    Other { uid: u32, gid: u32 },
}

impl Account {
    /// Debian's package makes the first user; every system has the second.
    pub(crate) fn find() -> Result<Self, Error> {
        if !is_root() {
            return Ok(Self::Own);
        }
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|user| Some(Self::Other { uid: id(&["-u", user])?, gid: id(&["-g", user])? }))
            .ok_or(Error::Account)
    }

    /// Lets a command run as this account. A change of user also drops the groups of root.
    pub(crate) fn applied(self, command: &mut Command) -> &mut Command {
        match self {
            Self::Own => command,
            Self::Other { uid, gid } => command.uid(uid).gid(gid),
        }
    }
}

/// Whether we are root.
pub(crate) fn is_root() -> bool {
    id(&["-u"]) == Some(0)
}

/// A number from the program `id`, which looks in every source of users that the machine has; std
/// has no such lookup.
fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For root the server runs as another account, without root's groups.
    #[test]
    fn the_server_is_not_roots() {
        let account = Account::find().unwrap();
        assert_eq!(account == Account::Own, !is_root());
        let mut command = Command::new("id");
        let output = account.applied(command.arg("-u")).output().unwrap();
        assert_ne!(String::from_utf8(output.stdout).unwrap().trim(), "0");
        if let Account::Other { gid, .. } = account {
            let mut command = Command::new("id");
            let output = account.applied(command.arg("-G")).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), gid.to_string());
        }
    }

    /// A user that does not exist has no number.
    #[test]
    fn a_user_is_there_or_not() {
        assert!(id(&["-u", "nobody"]).is_some());
        assert_eq!(id(&["-u", "no-such-user-anywhere"]), None);
    }
}
