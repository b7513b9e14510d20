//! `indelible functions`: what can be called.

use std::io::Write;

use clap::Args;
use indelible_client::api::component::Function;

use super::connection::Server;
use super::signature::signature;
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

/// A line for each function, with what it takes and returns and how it differs from most, and the
/// first line of its description.
pub(super) fn table(all: &[Function]) -> String {
    let signatures: Vec<String> = all.iter().map(|one| plain(&signature(one))).collect();
    let width = |text: &String| text.chars().count();
    let most = signatures.iter().map(width).filter(|width| *width <= ALIGNED_MAX).max();
    let line = |(function, signature): (&Function, &String)| {
        let persist = if function.persist { "persist" } else { "volatile" };
        let idem = if function.idem { "  idem" } else { "" };
        let description = match function.description.lines().next() {
            Some(first) => format!("    {}\n", plain(first)),
            None => String::new(),
        };
        format!(
            "{signature:most$}  {persist}{idem}\n{description}",
            most = most.unwrap_or_default()
        )
    };
    all.iter().zip(&signatures).map(line).collect()
}

/// Longer signatures stand out of the columns.
const ALIGNED_MAX: usize = 60;
