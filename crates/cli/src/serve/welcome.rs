//! The first lines for the person who starts a server: where it listens, where the data is, who may
//! call it, and what to do next.

use std::path::Path;

use indelible_journal::Timestamp;
use indelible_runtime::Hold;

/// The URL that the other commands use by default.
const DEFAULT_URL: &str = "http://127.0.0.1:7070";

/// A server that is ready.
pub(super) struct Welcome<'a> {
    pub(super) url: &'a str,
    pub(super) data: &'a Path,
    /// Whether callers need an API key.
    pub(super) keys: bool,
    pub(super) nothing_deployed: bool,
    /// How many open questions there are, and whether there may be more.
    pub(super) unknown: (usize, bool),
    /// Why nothing goes on, if nothing does.
    pub(super) hold: Option<Hold>,
    /// Until when keys and ids are refused that the folder does not know.
    pub(super) closed_until: Option<Timestamp>,
}

impl Welcome<'_> {
    /// One line for a log; several for a person.
    pub(super) fn lines(&self, to_a_person: bool) -> Vec<String> {
        let Self { url, data, .. } = self;
        let data = data.display();
        let mut lines = vec![format!("listening on {url}, data in {data}")];
        if let Some(hold) = self.hold {
            lines.push(format!(
                "on hold ({hold}): nothing goes on until an admin lifts the hold; see `indelible \
                 hold show`"
            ));
        } else if let Some(until) = self.closed_until {
            lines.push(format!(
                "restored from a backup: keys and ids that it does not know are refused until an \
                 admin runs `indelible hold lift`, or until {until}; see `indelible hold show`"
            ));
        }
        // An earlier process reported them when they arose, and may be gone.
        match self.unknown {
            (0, _) => {}
            (unknown, more) => lines.push(format!(
                "requests and calls with an unknown outcome: {unknown}{}; `indelible unresolved` \
                 lists them",
                if more { " or more" } else { "" }
            )),
        }
        if !to_a_person {
            return lines;
        }
        lines.push(if self.keys {
            format!(
                "callers need an API key: create the first one with `indelible token create NAME \
                 --role admin --data {data}` while no server runs"
            )
        } else {
            "every program on this machine can call it without an API key (require keys with \
             --keys)"
                .to_owned()
        });
        if self.nothing_deployed {
            let at = if *url == DEFAULT_URL { String::new() } else { format!(" --url {url}") };
            lines.push(format!(
                "next, in another terminal: indelible deploy PATH{at}   (a project folder or a .wasm)"
            ));
        }
        lines.push("Ctrl-C stops it, and nothing is lost".to_owned());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log gets one line. A person is told who may call, and a next command that reaches this
    /// very server.
    #[test]
    fn what_is_said() {
        let welcome = |url: &'static str, keys, nothing_deployed| Welcome {
            url,
            data: Path::new("indelible-data"),
            keys,
            nothing_deployed,
            unknown: (0, false),
            hold: None,
            closed_until: None,
        };
        let first = welcome(DEFAULT_URL, false, true);
        let listening = "listening on http://127.0.0.1:7070, data in indelible-data";
        assert_eq!(first.lines(false), [listening]);
        let lines = first.lines(true);
        assert_eq!(lines[0], listening);
        assert!(lines[1].starts_with("every program on this machine can call it"), "{lines:?}");
        assert!(lines[2].contains("indelible deploy PATH   ("), "{lines:?}");
        let elsewhere = welcome("http://127.0.0.1:8000", true, true).lines(true);
        assert!(elsewhere[1].contains("--data indelible-data"), "{elsewhere:?}");
        assert!(elsewhere[2].contains("deploy PATH --url http://127.0.0.1:8000 "), "{elsewhere:?}");
        let waits =
            Welcome { unknown: (2, true), ..welcome(DEFAULT_URL, false, false) }.lines(false);
        assert!(waits[1].contains("outcome: 2 or more; `indelible unresolved`"), "{waits:?}");
        let hold = Some(Hold { restored: None, paused: true });
        let paused = Welcome { hold, ..welcome(DEFAULT_URL, false, false) }.lines(false);
        assert!(paused[1].starts_with("on hold (started paused): nothing goes on"), "{paused:?}");
        let later = welcome(DEFAULT_URL, false, false).lines(true);
        assert!(!later.iter().any(|line| line.contains("deploy")), "{later:?}");
    }
}
