//! The project's own tools: `cargo xtask verify | fix | bindings | conformance | demo-component |
//! guests | instructions | messages | one-build | package | setup | sim | torture | traces`.

mod conformance;
mod executables;
mod guests;
mod instructions;
mod messages;
mod one_build;
mod package;
mod setup;
mod sim;
mod test_run;
mod tidy;
mod torture;
mod traces;
mod verify;

use std::io::{self, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use conformance::Report;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tools")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that is checked before a change lands; first of all, `setup`.
    Verify,
    /// Mends format and lints.
    Fix {
        /// Also rewrite the expected transcripts of scenario tests.
        #[arg(long)]
        scenarios: bool,
    },
    /// Which requirements have code and which a test.
    Conformance {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Regenerates the SDK's bindings from `crates/sdk/wit`.
    Bindings,
    /// Rebuilds the component that `indelible demo` brings along: `crates/cli/demo/shop.wasm`.
    DemoComponent,
    /// Builds the guests of `examples` and `guests` into `target/guests`.
    Guests,
    /// Counts the instructions of an append at several lengths, with callgrind.
    Instructions,
    /// Prints every text that users of the product may read.
    Messages,
    /// Whether the binary alone has the same dependencies as everything together.
    OneBuild,
    /// Installs the binary from a clean clone, and runs the demo elsewhere.
    Package,
    /// Installs what tests need and do not install themselves.
    Setup,
    /// Simulates the engine: one seed decides everything that happens to it.
    Sim(sim::Sim),
    /// Checks the house rules that no other tool knows.
    Tidy,
    /// Runs the store's tests of crashes, power loss, failing disks and damage at length.
    Torture(torture::Torture),
    /// Replays traces of the journal's formal model.
    Traces {
        /// JSON Lines, a trace a line.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Fail unless every trace comes to this.
        #[arg(long)]
        expect: Option<traces::Expect>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A reader that has seen enough (`| head`) need not be told.
            let closed = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if closed != Some(io::ErrorKind::BrokenPipe) {
                _ = writeln!(stderr(), "error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(command: Command) -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    match command {
        Command::Verify => verify::verify(root, &mut stdout().lock(), &mut stderr().lock()),
        Command::Fix { scenarios } => verify::fix(root, scenarios),
        Command::Conformance { json } => {
            let write = if json { Report::write_json } else { Report::write_table };
            conformance::run(root, write, &mut stdout().lock(), &mut stderr().lock())
        }
        Command::Bindings => guests::bindings(root),
        Command::DemoComponent => guests::demo_component(root, &mut stdout().lock()),
        Command::Guests => guests::build(&mut stdout().lock()),
        Command::Instructions => instructions::run(root, &mut stdout().lock()),
        Command::Messages => messages::run(root, &mut stdout().lock()),
        Command::OneBuild => one_build::run(root, &mut stderr().lock()),
        Command::Package => package::run(root, &mut stderr().lock()),
        Command::Setup => setup::run(root, &mut stderr().lock()),
        Command::Sim(sim) => sim::run(root, &sim),
        Command::Tidy => tidy::run(root, &mut stderr().lock()),
        Command::Torture(torture) => torture::run(root, &torture),
        Command::Traces { files, expect } => traces::check(&files, expect, &mut stdout().lock()),
    }
}
