//! `indelible deploy`: hands a component to a server.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;

use clap::Args;
use indelible_client::IfBreaking;
use indelible_runtime::ComponentName;

use super::connection::Server;
use super::errors::short;
use crate::failure::Failure;
use crate::guest::{Built, component};
use crate::print::{self, plain};

const HELP: &str = "\
PATH is a component, or the folder of a project, which is built first. New calls use the new
version; executions that have begun continue with the version that they began with. A version
that lacks or incompatibly changes a function that is in use is refused unless --force is given;
`indelible activate` goes back to an earlier version.

Examples:
  indelible deploy my-shop
  indelible deploy target/wasm32-unknown-unknown/release/my_shop.wasm --name shop";

/// Build a project and hand it to the server
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Deploy {
    /// A component, or a folder with a project of durable functions
    path: PathBuf,
    /// What to call it; the name of its file, if not given
    #[arg(long)]
    name: Option<String>,
    /// Go on although functions that are in use would break
    #[arg(long)]
    force: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Deploy {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        if let Some(name) = &self.name {
            check(name)?;
        }
        // Connect first: a build takes a minute, and is useless if no server answers.
        let remote = self.server.connect()?;
        let Built { name, bytes } = component(&self.path)?;
        let name = self.name.clone().unwrap_or(name);
        check(&name)?;
        // Upload and compilation may take a while, so a person is told; a program is not.
        if io::stderr().is_terminal() {
            let (kib, server) = (bytes.len().div_ceil(1024), &remote.at);
            print::tell(&format!("sending {name} ({kib} KiB) to {server}, which compiles it"));
        }
        let if_breaking = if_breaking(self.force);
        let deployed = remote.run(remote.client.deploy_with(&name, bytes, if_breaking))?;
        if self.json {
            return print::object(&deployed, out);
        }
        let known = if deployed.known { "known before, and active" } else { "new, and active" };
        let (name, digest) = (plain(&deployed.name), plain(&short(&deployed.digest)));
        print::text(&format!("{name}  version {digest}  {known}\n"), out)?;
        for function in &deployed.functions {
            let name = plain(&format!("{}/{}", function.component, function.name));
            print::text(&format!("  {name}\n"), out)?;
        }
        if let Some(function) = deployed.functions.first() {
            let (component, name) = (&function.component, &function.name);
            print::tell(&format!("hint: `indelible call {component}/{name} INPUT` calls it"));
        }
        Ok(())
    }
}

pub(super) fn if_breaking(force: bool) -> IfBreaking {
    if force { IfBreaking::Proceed } else { IfBreaking::Refuse }
}

fn check(name: &str) -> Result<(), Failure> {
    ComponentName::new(name).map(drop).map_err(|error| {
        Failure::new(format!("cannot deploy as {name:?}: {error}"))
            .hint("choose another name with --name; nothing was deployed")
    })
}
