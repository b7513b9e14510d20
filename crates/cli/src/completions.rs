//! `indelible completions`: what a shell needs to complete commands.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Failure;
use crate::print;

const HELP: &str = "\
Examples:
  indelible completions bash > ~/.local/share/bash-completion/completions/indelible
  indelible completions zsh > ~/.zfunc/_indelible        (with ~/.zfunc in fpath)
  indelible completions fish > ~/.config/fish/completions/indelible.fish";

/// Print what a shell needs to complete commands
#[derive(Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    /// Writes the script for this command line.
    pub(crate) fn run(&self, mut command: Command, out: &mut impl Write) -> Result<(), Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "indelible", &mut script);
        print::bytes(&script, out)
    }
}
