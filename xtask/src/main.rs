//! The project's own tools: `cargo xtask verify | fix | conformance | traces`.

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tools")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Which requirements have code and which a test.
    Conformance,
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Conformance => Ok(()),
    }
}
