//! The list of commands, grouped in the order in which a newcomer uses them.

use std::fmt::Write as _;

use clap::Command;

/// Commands by group. A command that is in no group is listed last.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Begin", &["demo", "new", "build", "sdk", "run", "serve"]),
    (
        "Use a server",
        &["deploy", "call", "start", "signal", "cancel", "functions", "components", "activate"],
    ),
    ("Look", &["ps", "show", "tree", "journal", "logs"]),
    ("Keep books", &["vault", "ledger"]),
    ("Send messages", &["endpoint", "message", "dead"]),
    ("Decide", &["unresolved", "resolve", "release", "fail"]),
    ("Look after a server", &["context", "token", "audit", "retention", "hold", "store", "bench"]),
    ("Help", &["explain", "completions", "help"]),
];

/// As wide as the longest name.
const NAME_WIDTH: usize = "completions".len();

/// The command line with its commands in groups.
pub(crate) fn grouped(mut command: Command) -> Command {
    // Before this call, the commands that clap adds are missing.
    command.build();
    let list = list(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}\
         {{after-help}}"
    );
    command.help_template(template)
}

fn list(command: &Command) -> String {
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:NAME_WIDTH$}  {about}\n", command.get_name())
    };
    let mut text = String::new();
    let mut rest: Vec<&Command> =
        command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    for (heading, names) in GROUPS {
        let mut lines = String::new();
        for name in names {
            let found = rest.iter().position(|command| command.get_name() == *name);
            if let Some(at) = found {
                lines.push_str(&line(rest.remove(at)));
            }
        }
        if !lines.is_empty() {
            _ = write!(text, "{heading}:\n{lines}\n");
        }
    }
    if !rest.is_empty() {
        _ = write!(text, "More:\n{}\n", rest.into_iter().map(line).collect::<String>());
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every command is in the list once, with a line that says what it does.
    #[test]
    fn every_command_has_its_place() {
        let mut command = crate::Arguments::command();
        command.build();
        let list = list(&command);
        assert!(!list.contains("More:"), "in no group:\n{list}");
        for command in command.get_subcommands() {
            let begin = format!("  {} ", command.get_name());
            let lines: Vec<_> = list.lines().filter(|line| line.starts_with(&begin)).collect();
            assert_eq!(lines.len(), 1, "{begin}");
            assert!(lines[0].len() > 20, "{lines:?}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        crate::Arguments::command().debug_assert();
    }
}
