//! `indelible activate`: makes an earlier version of a component the one that new calls use.

use std::io::Write;

use clap::Args;

use super::connection::Server;
use super::deploy::if_breaking;
use super::errors::short;
use crate::failure::Failure;
use crate::print::{self, plain};

const HELP: &str = "\
VERSION is the beginning of a digest that `indelible components COMPONENT` shows. New calls use it;
what was begun goes on with the version that it began with. A version that lacks or incompatibly
changes a function that is in use is refused unless --force is given.

Example:
  indelible activate shop 1f0c9a2b";

/// Make an earlier version of a component the one that new calls use
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Activate {
    /// The component
    component: String,
    /// The beginning of the version's digest
    version: String,
    /// Go on although functions that are in use would break
    #[arg(long)]
    force: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Activate {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let known = remote.run(remote.client.component(&self.component))?.versions;
        let beginning = self.version.to_ascii_lowercase();
        let mut meant: Vec<String> = known.into_iter().map(|version| version.digest).collect();
        meant.retain(|digest| !beginning.is_empty() && digest.starts_with(&beginning));
        let [digest] = &meant[..] else { return Err(self.unclear(&meant)) };
        let activated =
            remote.run(remote.client.activate(&self.component, digest, if_breaking(self.force)))?;
        if self.json {
            return print::object(&activated, out);
        }
        let (name, digest) = (plain(&activated.name), plain(&short(&activated.digest)));
        print::text(&format!("{name}  version {digest}  active\n"), out)
    }

    fn unclear(&self, meant: &[String]) -> Failure {
        let (name, version) = (&self.component, &self.version);
        let failure = match meant.is_empty() {
            true => Failure::new(format!("{name} has no version {version:?}")),
            false => Failure::new(format!("several versions of {name} begin with {version:?}"))
                .list(meant.to_vec()),
        };
        failure
            .hint(format!("`indelible components {name}` shows its versions; nothing was changed"))
    }
}
