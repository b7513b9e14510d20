//! The binary `indelible`: reads its arguments, runs one command, says how it went.
//!
//! Data goes to stdout, everything else to stderr. It exits with 0 if all is well, 1 if not, 2 if
//! the arguments make no sense.

#![expect(clippy::disallowed_methods, reason = "the binary reads its environment, once, here")]

mod bench;
mod failure;
mod guest;
mod journal;
mod resolve;
mod run;
mod screen;
mod serve;
mod store;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Verdict};
use crate::screen::Screen;

/// Batches are made by one thread and freed by another, all the time: glibc's allocator locks for
/// that, and changes the protection of its memory, for which all cores have to wait.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable execution: what is accepted takes effect once.
#[derive(Parser)]
#[command(name = "indelible", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    New(guest::New),
    Build(guest::Build),
    Run(run::Run),
    Serve(serve::Serve),
    /// Make and revoke API keys of a server that is not running
    #[command(subcommand)]
    Token(serve::token::Command),
    Explain(serve::explain::Explain),
    Unresolved(resolve::Unresolved),
    Resolve(resolve::Resolve),
    /// Read and check journals
    #[command(subcommand)]
    Journal(journal::Command),
    /// Look at a data folder
    #[command(subcommand)]
    Store(store::Command),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let screen = Screen::new(
        terminal.map(|(width, _)| usize::from(width.0)),
        std::env::var("COLUMNS").ok().as_deref(),
    );
    let mut out = BufWriter::new(io::stdout().lock());
    let result = match arguments.command {
        Command::New(command) => command.run(&mut out),
        Command::Build(command) => command.run(&mut out),
        Command::Run(command) => command.run(screen, &mut out),
        Command::Serve(command) => command.run(&mut out),
        Command::Token(command) => serve::token::run(command, &mut out),
        Command::Explain(command) => command.run(&mut out),
        Command::Unresolved(command) => command.run(&mut out),
        Command::Resolve(command) => command.run(&mut out),
        Command::Journal(command) => journal::run(command, screen, &mut out),
        Command::Store(command) => store::run(command, &mut out),
        Command::Bench(command) => bench::run(command, &mut out),
    };
    // What was shown comes before what is wrong with it.
    let flushed = failure::quiet(out.flush());
    match result
        .and_then(|verdict| flushed.map(|()| verdict).map_err(|error| Failure::output(&error)))
    {
        Ok(Verdict::Well) => ExitCode::SUCCESS,
        Ok(Verdict::Wrong(failure)) | Err(failure) => {
            // Nobody is left to tell if stderr is closed too.
            _ = write!(io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}
