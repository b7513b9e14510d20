//! `indelible functions`: what can be called.

use std::io::Write;

use clap::Args;
use indelible_client::api::component::Function;

use super::connection::Server;
use crate::failure::Failure;
use crate::print::{self, plain};

/// List what can be called
#[derive(Args)]
pub(crate) struct Functions {
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Functions {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let all = remote.run(remote.client.functions())?.functions;
        if self.json {
            return all.iter().try_for_each(|function| print::object(function, out));
        }
        if all.is_empty() {
            print::tell(
                "nothing is deployed yet\nhint: deploy a component with `indelible deploy \
                 PATH`",
            );
        }
        print::text(&table(&all), out)
    }
}

/// A line for each function: its name, and how it differs from most.
pub(super) fn table(all: &[Function]) -> String {
    let name = |function: &Function| plain(&format!("{}/{}", function.component, function.name));
    let width = all.iter().map(|function| name(function).len()).max().unwrap_or_default();
    let line = |function: &Function| {
        let persist = if function.persist { "persist" } else { "volatile" };
        let idem = if function.idem { "  idem" } else { "" };
        format!("{:width$}  {persist}{idem}\n", name(function))
    };
    all.iter().map(line).collect()
}
