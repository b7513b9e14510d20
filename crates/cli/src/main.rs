//! The binary `indelible`: reads its arguments, runs one command, reports how it ended.
//!
//! Data goes to stdout, everything else to stderr. The exit code is 0 if all is well, 2 if the
//! arguments make no sense, and otherwise one that `failure::Exit` lists.

#![expect(clippy::disallowed_methods, reason = "the binary reads its environment, once, here")]

mod bench;
mod columns;
mod compile;
mod completions;
mod demo;
mod failure;
mod guest;
mod help;
mod input;
mod journal;
mod log;
mod nearest;
mod outcome;
mod print;
mod remote;
mod resolve;
mod run;
mod screen;
mod serve;
mod signals;
mod store;
mod syntax;
mod text;
mod token;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::failure::{CommandEnd, Failure};
use crate::screen::Screen;

/// Batches are allocated by one thread and freed by another, all the time. glibc's allocator takes
/// a lock for that, and changes the protection of its memory, for which all cores have to wait.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HELP: &str = "\
Exit codes:
  0    success
  1    the command failed or was refused, or it found a problem
  2    invalid arguments
  3    the function failed or was cancelled
  4    Indeterminate: it is unknown whether the effect happened
  5    no response from the server
  6    the wait is over; the execution is still running
  130  interrupted";

/// Durable execution: what is accepted takes effect once
#[derive(Parser)]
#[command(name = "indelible", version, arg_required_else_help = true, after_help = HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    New(guest::New),
    Sdk(guest::Sdk),
    Build(guest::Build),
    Deploy(remote::deploy::Deploy),
    Call(remote::call::Call),
    Start(remote::start::Start),
    Signal(remote::signal::Signal),
    Cancel(remote::cancel::Cancel),
    Functions(remote::functions::Functions),
    Components(remote::components::Components),
    Activate(remote::activate::Activate),
    Release(remote::stuck::Release),
    Fail(remote::stuck::Fail),
    Run(run::Run),
    Serve(serve::Serve),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Token(token::Command),
    Audit(remote::audit::Audit),
    /// Look at the clock by which a server deletes, and confirm it
    #[command(subcommand)]
    Retention(remote::retention::Command),
    /// Look at a server that lets nothing go on, and let it go on
    #[command(subcommand)]
    Hold(remote::hold::Command),
    Explain(serve::explain::Explain),
    /// Remember servers, and choose between them
    #[command(subcommand)]
    Context(remote::context::Command),
    Ps(remote::views::Ps),
    Show(remote::views::Show),
    Tree(remote::views::Tree),
    Logs(remote::logs::Logs),
    /// Make vaults, list them, and delete them
    #[command(subcommand)]
    Vault(remote::vaults::Command),
    /// Commit transactions, read what is in a ledger, and prove it
    #[command(subcommand)]
    Ledger(remote::ledger::Command),
    /// Make endpoints, which messages are sent to; enable, disable and delete them
    #[command(subcommand)]
    Endpoint(remote::delivery::endpoint::Command),
    /// Send messages to endpoints, and see where they stand
    #[command(subcommand)]
    Message(remote::delivery::message::Command),
    /// Look at dead letters, and decide about them
    #[command(subcommand)]
    Dead(remote::delivery::dead::Command),
    Unresolved(resolve::Unresolved),
    Resolve(resolve::Resolve),
    Journal(journal::Arguments),
    /// Look at a data folder, and make copies of it
    #[command(subcommand)]
    Store(store::Command),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

fn main() -> ExitCode {
    if let Some(code) = compile::run_if_asked() {
        return code;
    }
    let matches = help::grouped(Arguments::command()).get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let terminal = terminal_size::terminal_size_of(io::stdout());
    let screen = Screen::new(
        terminal.map(|(width, _)| usize::from(width.0)),
        std::env::var("COLUMNS").ok().as_deref(),
    );
    let screen = screen.with_colours(
        std::env::var("NO_COLOR").ok().as_deref(),
        std::env::var("TERM").ok().as_deref(),
    );
    let mut out = BufWriter::new(io::stdout().lock());
    let well = |()| CommandEnd::Well;
    let result = match arguments.command {
        Command::Demo(command) => command.run(screen, &mut out),
        Command::New(command) => command.run(&mut out).map(well),
        Command::Sdk(command) => command.run(&mut out).map(well),
        Command::Build(command) => command.run(&mut out).map(well),
        Command::Deploy(command) => command.run(&mut out).map(well),
        Command::Call(command) => command.run(&mut out),
        Command::Start(command) => command.run(&mut out).map(well),
        Command::Signal(command) => command.run(&mut out).map(well),
        Command::Cancel(command) => command.run(&mut out).map(well),
        Command::Functions(command) => command.run(&mut out).map(well),
        Command::Components(command) => command.run(&mut out).map(well),
        Command::Activate(command) => command.run(&mut out).map(well),
        Command::Release(command) => command.run(&mut out).map(well),
        Command::Fail(command) => command.run(&mut out).map(well),
        Command::Run(command) => command.run(screen, &mut out),
        Command::Serve(command) => command.run(&mut out).map(well),
        Command::Token(command) => token::run(command, &mut out).map(well),
        Command::Audit(command) => command.run(&mut out).map(well),
        Command::Retention(command) => remote::retention::run(command, &mut out).map(well),
        Command::Hold(command) => remote::hold::run(command, &mut out).map(well),
        Command::Explain(command) => command.run(&mut out).map(well),
        Command::Context(command) => remote::context::run(command, &mut out).map(well),
        Command::Ps(command) => command.run(screen, &mut out).map(well),
        Command::Show(command) => command.run(screen, &mut out).map(well),
        Command::Tree(command) => command.run(screen, &mut out).map(well),
        Command::Logs(command) => command.run(screen, &mut out).map(well),
        Command::Vault(command) => remote::vaults::run(command, screen, &mut out).map(well),
        Command::Ledger(command) => remote::ledger::run(command, &mut out).map(well),
        Command::Endpoint(command) => {
            remote::delivery::endpoint::run(command, screen, &mut out).map(well)
        }
        Command::Message(command) => {
            remote::delivery::message::run(command, screen, &mut out).map(well)
        }
        Command::Dead(command) => remote::delivery::dead::run(command, screen, &mut out).map(well),
        Command::Unresolved(command) => command.run(&mut out).map(well),
        Command::Resolve(command) => command.run(&mut out).map(well),
        Command::Journal(command) => journal::run(command, screen, &mut out),
        Command::Store(command) => store::run(command, &mut out),
        Command::Bench(command) => bench::run(command, &mut out).map(well),
        Command::Completions(command) => command.run(Arguments::command(), &mut out).map(well),
    };
    // Stdout is flushed before stderr says what is wrong with it.
    let flushed = failure::quiet(out.flush());
    match result
        .and_then(|verdict| flushed.map(|()| verdict).map_err(|error| Failure::output(&error)))
    {
        Ok(CommandEnd::Well) => ExitCode::SUCCESS,
        Ok(CommandEnd::Wrong(failure)) | Err(failure) => {
            // If stderr is closed there is no other place to say so.
            _ = write!(io::stderr(), "{failure}");
            ExitCode::from(failure.code())
        }
    }
}
