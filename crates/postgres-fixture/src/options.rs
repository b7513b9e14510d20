//! What a server is started with.

use std::fmt::Write as _;
use std::path::Path;

/// What a server is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether commits wait for the disk. Off by default: tests do not cut the power, and most
    /// commit often. A benchmark of commits turns it on.
    pub fsync: bool,
    /// `max_connections`: by default for as many tests as a large machine runs at once.
    pub connections_max: u32,
    /// Settings of `postgresql.conf`, name and value. They come last, so they win.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: false, connections_max: 500, settings: Vec::new() }
    }
}

impl Options {
    /// The lines to add to `postgresql.conf`. The last line for a setting is the one that counts.
    pub(crate) fn configuration(self, socket_dir: &Path) -> String {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let own = [
            ("listen_addresses", crate::port::HOST.to_owned()),
            ("unix_socket_directories", socket_dir.display().to_string()),
            ("max_connections", self.connections_max.to_string()),
            // Many servers may run at once, on a machine that has other things to do.
            ("shared_buffers", "16MB".to_owned()),
            // Each new database writes some 7 MB of log. The default lets 1 GB of it pile up, for
            // each server.
            ("max_wal_size", "128MB".to_owned()),
            ("log_min_messages", "warning".to_owned()),
            // The same on every machine.
            ("timezone", "UTC".to_owned()),
            ("log_timezone", "UTC".to_owned()),
            ("fsync", switch(self.fsync)),
            // Guards against pages torn by a loss of power, which is out of scope without fsync.
            ("full_page_writes", switch(self.fsync)),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut text = String::new();
        for (name, value) in own.chain(self.settings) {
            let value = value.replace('\\', "\\\\").replace('\'', "''");
            writeln!(text, "{name} = '{value}'").expect("a String takes everything");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quote or a backslash in a value stays in the value, and the caller has the last word.
    #[test]
    fn values_are_quoted_and_the_callers_come_last() {
        let options = Options {
            fsync: true,
            settings: vec![
                ("application_name".to_owned(), r"it's a \ test".to_owned()),
                ("fsync".to_owned(), "off".to_owned()),
            ],
            ..Options::default()
        };
        let text = options.configuration(Path::new("/tmp/x"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"unix_socket_directories = '/tmp/x'"), "{text}");
        assert!(lines.contains(&r"application_name = 'it''s a \\ test'"), "{text}");
        assert_eq!(lines.last(), Some(&"fsync = 'off'"));
    }
}
