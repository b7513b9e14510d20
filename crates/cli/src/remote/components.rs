//! `indelible components`: what is deployed, and in which versions.

use std::io::Write;

use clap::Args;
use indelible_client::api::component::Component;

use super::connection::Server;
use super::errors::short;
use super::functions::table;
use crate::failure::Failure;
use crate::print::{self, plain};
use crate::text::count;

/// List what is deployed, or the versions of a component
#[derive(Args)]
pub(crate) struct Components {
    /// One component; all of them if none is named
    name: Option<String>,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Components {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let all = match &self.name {
            Some(name) => vec![remote.run(remote.client.component(name))?],
            None => remote.run(remote.client.components())?.components,
        };
        if self.json {
            return all.iter().try_for_each(|component| print::object(component, out));
        }
        if all.is_empty() {
            print::tell(
                "nothing is deployed yet\nhint: deploy a component with `indelible deploy \
                 PATH`",
            );
        }
        match (&self.name, &all[..]) {
            (Some(_), [one]) => print::text(&versions(one), out),
            _ => print::text(&list(&all), out),
        }
    }
}

/// A line for each component.
fn list(all: &[Component]) -> String {
    let width = all.iter().map(|component| component.name.len()).max().unwrap_or_default();
    let line = |component: &Component| {
        let since = component.versions.iter().find(|version| version.digest == component.active);
        let since = since.map(|version| format!("  since {}", version.deployed_at));
        format!(
            "{:width$}  {}  {}, {}{}\n",
            plain(&component.name),
            plain(&short(&component.active)),
            count(component.functions.len() as u64, "function"),
            count(component.versions.len() as u64, "version"),
            plain(&since.unwrap_or_default()),
        )
    };
    all.iter().map(line).collect()
}

/// All versions, the newest first, and the functions of the active one.
fn versions(component: &Component) -> String {
    let mut text = String::new();
    for version in component.versions.iter().rev() {
        let active = if version.digest == component.active { "  active" } else { "" };
        let (digest, at) = (plain(&short(&version.digest)), plain(&version.deployed_at));
        let more = if version.unfinished_more { "+" } else { "" };
        let unfinished = match version.unfinished {
            None => String::new(),
            Some(count) => format!("  {count}{more} unfinished"),
        };
        text.push_str(&format!("{digest}  deployed {at}{active}{unfinished}\n"));
    }
    for line in table(&component.functions).lines() {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use indelible_client::api::component::{Function, Version};

    use super::*;

    /// The active version need not be the newest.
    #[test]
    fn versions_and_the_active_one() {
        let version = |letter: &str, deployed_at: &str| Version {
            digest: letter.repeat(64),
            deployed_at: deployed_at.to_owned(),
            unfinished: Some(if letter == "a" { 0 } else { 7 }),
            unfinished_more: letter == "b",
        };
        let function = |name: &str, persist, idem| Function {
            component: "shop".to_owned(),
            name: name.to_owned(),
            description: String::new(),
            persist,
            idem,
            input_schema: None,
            output_schema: None,
        };
        let component = Component {
            name: "shop".to_owned(),
            active: "a".repeat(64),
            versions: vec![
                version("a", "2026-01-01T00:00:00Z"),
                version("b", "2026-02-01T00:00:00Z"),
            ],
            functions: vec![function("order", true, false), function("ls", false, true)],
        };
        assert_eq!(
            versions(&component),
            "bbbbbbbb  deployed 2026-02-01T00:00:00Z  7+ unfinished\n\
             aaaaaaaa  deployed 2026-01-01T00:00:00Z  active  0 unfinished\n  \
             shop/order  persist\n  shop/ls     volatile  idem\n"
        );
        assert_eq!(
            list(&[component]),
            "shop  aaaaaaaa  2 functions, 2 versions  since 2026-01-01T00:00:00Z\n"
        );
    }

    /// Text of a server cannot move the cursor.
    #[test]
    fn what_a_server_says_is_harmless() {
        let hostile = "\u{1b}[2J\u{202e}";
        let (digest, deployed_at) = (hostile.to_owned(), hostile.to_owned());
        let version = Version { digest, deployed_at, unfinished: None, unfinished_more: false };
        let component = Component {
            name: hostile.to_owned(),
            active: hostile.to_owned(),
            versions: vec![version],
            functions: Vec::new(),
        };
        for text in [versions(&component), list(&[component])] {
            assert!(!text.trim_end().contains(crate::text::rewrites), "{text:?}");
        }
    }
}
