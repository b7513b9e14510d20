//! `indelible audit`: who did what.

use std::io::Write;

use clap::Args;
use indelible_client::api::access::AuditEntry;

use super::connection::Server;
use super::errors::short;
use crate::failure::Failure;
use crate::print::{self, plain};

/// The most entries on a page.
const PAGE: u32 = 200;

/// Show who did what, the newest first
#[derive(Args)]
pub(crate) struct Audit {
    /// How many entries; 0 is all of them
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u32,
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Audit {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Failure> {
        let remote = self.server.connect()?;
        let mut left = if self.limit == 0 { u32::MAX } else { self.limit };
        let mut pages = remote.asked(remote.client.audit())?.limit(left.min(PAGE));
        while left > 0
            && let Some(page) = remote.run(pages.next())?
        {
            for entry in page.entries.iter().take(left as usize) {
                let line = if self.json { print::line(entry)? } else { line(entry) };
                print::part(line, out)?;
                left -= 1;
            }
        }
        Ok(())
    }
}

/// The time, the actor, the action, its subject and the reason.
fn line(entry: &AuditEntry) -> String {
    let AuditEntry { at, actor, action, execution, promise_id, subject, reason } = entry;
    // The part after the @ is the attempt.
    let execution = execution.as_ref().map(|key| key.split('@').next().unwrap_or(key));
    let what = promise_id.as_deref().or(execution).map(short).or(subject.clone());
    let what = what.map(|what| format!("  {}", plain(&what))).unwrap_or_default();
    let reason = if reason.is_empty() { String::new() } else { format!("  {}", plain(reason)) };
    format!("{}  {}  {}{what}{reason}\n", plain(at), plain(actor), plain(action))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_lines() {
        let id = "0123456789abcdef".repeat(4);
        let entry = AuditEntry {
            at: "2026-01-01T00:00:00Z".to_owned(),
            actor: "client:ops".to_owned(),
            action: "cancel".to_owned(),
            execution: Some(format!("{id}.2@1.1")),
            promise_id: None,
            subject: None,
            reason: "they\ncalled".to_owned(),
        };
        assert_eq!(
            line(&entry),
            "2026-01-01T00:00:00Z  client:ops  cancel  01234567.2  they\\ncalled\n"
        );
        let subject = Some("shop".to_owned());
        let entry = AuditEntry { execution: None, subject, reason: String::new(), ..entry };
        assert_eq!(line(&entry), "2026-01-01T00:00:00Z  client:ops  cancel  shop\n");
        let entry = AuditEntry { at: "\u{1b}[2J".to_owned(), ..entry };
        assert_eq!(line(&entry), "\\u{1b}[2J  client:ops  cancel  shop\n");
    }
}
