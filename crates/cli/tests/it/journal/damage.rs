//! Files with lines that cannot be read, or that are something else altogether.

use indelible_journal::{AwaitKind, InvokeKind};

use crate::journal::run::{journal, journal_of_bytes};
use crate::journal::script::Script;
use crate::journal::verify::illegal;

const JUNK: &str = "{\"v\":2,\"w\":2}\n";

fn greet(operation: &str) -> Script {
    Script::root("greet", operation, "2026-03-14T09:26:53Z", "null")
}

/// Five events to the end, one a line.
fn finished() -> (String, Vec<String>) {
    let mut script = greet("1");
    script.call(InvokeKind::Function, "find", "1").wait(&[0], AwaitKind::Single);
    script.at(500).start(0, 1).complete(0, 1, "2").resume().finish("3");
    let lines = script.lines().lines().map(|line| format!("{line}\n")).collect();
    (script.key().to_string(), lines)
}

#[test]
fn a_gap_behind_a_malformed_line_is_no_violation() {
    let (key, mut lines) = finished();
    lines[3] = JUNK.to_owned();
    let file = lines.concat();
    let ran = journal(&["verify", "-"], &file);
    assert_eq!(
        ran.stdout,
        format!(
            "cut  {key}  Blocked  3 events, then line 4 cannot be read, and line 5 continues at \
             sequence 4 (3 events not checked)\n"
        )
    );
    ran.wrong(
        "error: standard input, line 4, column 10: unknown field `w`, expected one of `v`, \
         `execution`, `sequence`, `timestamp`, `event`, `data`\n\
         error: standard input: 1 of 1 execution cut short by a line that cannot be read\n\
         hint: the format is described in docs/formats/journal-jsonl.md\n",
    );
    let report = journal(&["verify", "-", "--json"], &file).json();
    let execution = &report["executions"][0];
    assert_eq!((&report["ok"], &report["complete"]), (&false.into(), &false.into()));
    assert_eq!((&execution["verdict"], &execution["ok"]), (&"cut".into(), &false.into()));
    assert_eq!(execution["cut"]["malformed_line"], 4);
    assert_eq!(execution["cut"]["next_sequence"], 4);
    assert_eq!((&execution["length"], &execution["unchecked"]), (&3.into(), &3.into()));

    // The same gap with nothing in the way breaks a rule, wherever else a line is malformed.
    lines[3] = String::new();
    let ran = journal(&["verify", "-"], &lines.concat());
    assert!(ran.stdout.starts_with(&format!("bad  {key}  S-1 at line 4")), "{}", ran.stdout);
    lines[0].insert_str(0, JUNK);
    let ran = journal(&["verify", "-"], &lines.concat());
    assert!(ran.stdout.starts_with(&format!("bad  {key}  S-1 at line 5")), "{}", ran.stdout);
}

#[test]
fn a_first_line_that_cannot_be_read_is_no_violation() {
    let (key, mut lines) = finished();
    lines[0] = JUNK.to_owned();
    let ran = journal(&["verify", "-"], &lines.concat());
    assert_eq!(
        ran.stdout,
        format!(
            "cut  {key}  -  0 events, then line 1 cannot be read, and line 2 continues at sequence \
             1 (6 events not checked)\n"
        )
    );
}

#[test]
fn an_end_that_may_be_missing_is_cut_and_an_end_that_is_there_is_ok() {
    let (key, lines) = finished();
    let truncated = format!("{}{}", lines[..6].concat(), &lines[6][..60]);
    let ran = journal(&["verify", "-"], &truncated);
    let expected = format!("cut  {key}  Running  6 events, then line 7 cannot be read\n");
    assert_eq!(ran.stdout, expected);
    let ran = journal(&["verify", "-"], &format!("{}{JUNK}", lines.concat()));
    assert_eq!(ran.stdout, format!("ok   {key}  Completed  7 events\n"));
    assert_eq!(ran.code, Some(1), "a line could not be read");

    // Reading gives up; what comes after is not known.
    let file = format!("{}{}{}", lines[..3].concat(), "nonsense\n".repeat(25), lines[3..].concat());
    let ran = journal(&["verify", "-"], &file);
    assert_eq!(ran.stdout, format!("cut  {key}  Blocked  3 events, then line 4 cannot be read\n"));
    ran.wrong(
        "error: standard input, line 4, column 2: expected ident (and 19 lines after it)\n\
         error: standard input: 20 malformed lines: the rest was not read\n\
         error: standard input: 1 of 1 execution cut short by a line that cannot be read\n\
         hint: the format is described in docs/formats/journal-jsonl.md\n",
    );
}

#[test]
fn show_goes_on_behind_a_malformed_line() {
    let (key, lines) = finished();
    let file = format!("{JUNK}{}", lines.concat());
    let ran = journal(&["show", "-"], &file);
    assert!(ran.stdout.contains("length     7 events\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("Completed\n"), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("error: standard input, line 1, column 10: "), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));

    let cut = format!("{}{JUNK}{}", lines[..3].concat(), lines[4..].concat());
    let ran = journal(&["show", "-"], &cut);
    let length =
        "length     3 events, then line 4 cannot be read, and line 5 continues at sequence 4";
    assert!(ran.stdout.contains(length), "{}", ran.stdout);
    let document = journal(&["show", "-", "--json"], &cut).json();
    assert_eq!(document["execution"], key);
    assert_eq!((&document["v"], &document["verdict"]), (&1.into(), &"cut".into()));
    assert_eq!(document["complete"], false);
    assert_eq!(document["malformed"][0]["line"], 4);
    assert_eq!(document["cut"]["next_line"], 5);
    assert_eq!(document["events"].as_array().unwrap().len(), 3);
}

#[test]
fn a_refused_first_event_is_shown_without_times() {
    let (key, lines) = finished();
    let file = lines[1..].concat();
    let expected = format!(
        "execution  {key}\n\
         attempts   1\n\
         status     -\n\
         length     0 events, then line 1 is refused\n\
         \n\
         seq  time  event                               state\n\
         ───  ────  ──────────────────────────────────  ─────\n\
         \u{20} 1     -  InvokeScheduled(\"root.0\", find, 1)  refused: S-1\n"
    );
    for arguments in [&["show", "-"][..], &["show", "-", "--timeline"]] {
        let ran = journal(arguments, &file);
        assert_eq!(ran.stdout, expected);
        ran.wrong(
            "error: standard input, line 1: S-1 at sequence 0: the event has sequence 1, but 0 \
             is next\n",
        );
    }
    let document = journal(&["show", "-", "--timeline", "--json"], &file).json();
    assert_eq!(document["spans"], serde_json::json!([]));
    assert_eq!(document["started"], serde_json::Value::Null);
    assert_eq!(document["status"], serde_json::Value::Null);
    assert_eq!(document["violation"]["event"]["event"], "InvokeScheduled");
    assert_eq!(document["violation"]["event"]["timestamp"], "2026-03-14T09:26:53.000000Z");
}

#[test]
fn an_execution_that_stands_twice_is_said_to() {
    let (_, lines) = finished();
    let ran = journal(&["verify", "-"], &(lines.concat() + &lines.concat()));
    let twice = "; the execution appears twice in this file, first from line 1 (6 events after it";
    assert!(ran.stdout.starts_with("bad  ") && ran.stdout.contains(twice), "{}", ran.stdout);
}

#[test]
fn another_kind_of_file_is_named_once() {
    let (_, lines) = finished();
    let json: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    let utf16: Vec<u8> =
        format!("\u{feff}{}", lines.concat()).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let check = |file: &[u8], place: &str| {
        for arguments in [["verify", "-"], ["show", "-"]] {
            let ran = journal_of_bytes(&arguments, file);
            assert_eq!(ran.stdout, "");
            ran.wrong(&format!(
                "error: standard input does not look like JSON Lines: {place}\n\
                 hint: an export has one event a line; see docs/formats/journal-jsonl.md\n"
            ));
        }
    };
    check(pretty.as_bytes(), "line 1, column 1: EOF while parsing an object");
    check(
        format!("[{}]", lines.join(",")).as_bytes(),
        "line 1, column 1: invalid type: sequence, expected an object",
    );
    check(&utf16, "line 1, column 1: not UTF-8; it is UTF-16");
    check(b"\x1f\x8b\x08\x00\n\n", "line 1, column 2: not UTF-8; it is compressed with gzip");
    check("not JSON\n".repeat(1_000).as_bytes(), "line 1, column 2: expected ident");
    let zeros = vec![0; 64 * 1024 * 1024 + 1];
    check(&zeros, "line 1, column 1: longer than 67108864 bytes; nothing after it was read");

    // Another version is JSON Lines all the same, and is said once too.
    let other = lines.concat().replace("\"v\":2", "\"v\":3");
    journal(&["verify", "-"], &other).wrong(
        "error: standard input, line 1, column 6: unsupported version 3; this build reads \
         version 2 (and 6 lines after it)\n\
         hint: the format is described in docs/formats/journal-jsonl.md\n",
    );
}

#[test]
fn an_event_name_with_escapes_has_a_column() {
    let line = greet("1").lines().replace("ExecutionStarted", "\\u0045xecutionPaused");
    let column = line.find("\\u0045").unwrap() + 1;
    journal(&["verify", "-"], &line).wrong(&format!(
        "error: standard input, line 1, column {column}: unknown event `ExecutionPaused`\n\
         hint: the format is described in docs/formats/journal-jsonl.md\n"
    ));
}

/// The command in the hint, run by a shell, reads the same file.
#[cfg(unix)]
#[test]
fn hints_can_be_pasted() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::Command;

    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_indelible"));
    let directory = tempfile::tempdir().unwrap();
    for name in ["plain.jsonl", "my file", "it's", "-x", "$HOME`id`", "日本"] {
        let name = std::ffi::OsStr::from_bytes(name.as_bytes());
        tempfile::NamedTempFile::new_in(&directory)
            .and_then(|mut file| {
                std::io::Write::write_all(&mut file, illegal().lines().as_bytes())?;
                file.persist(directory.path().join(name)).map_err(Into::into)
            })
            .unwrap();
        let output = Command::new(binary)
            .args(["journal", "verify", "--"])
            .arg(name)
            .current_dir(&directory)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let hint = stderr.split_once("hint: `").unwrap().1;
        let command = hint.strip_suffix("` shows it up to there\n").unwrap();
        let path = format!(
            "{}:{}",
            binary.parent().unwrap().display(),
            option_env!("PATH").unwrap_or("/usr/bin:/bin")
        );
        let pasted = Command::new("/bin/sh")
            .args(["-c", command])
            .env("PATH", path)
            .current_dir(&directory)
            .output()
            .unwrap();
        let shown = String::from_utf8(pasted.stdout).unwrap();
        assert!(shown.ends_with("refused: SE-1\n"), "{command}: {shown}");
    }
}

#[test]
fn a_file_name_does_not_rewrite_the_terminal() {
    journal(&["verify", "no\u{1b}[2J"], "").wrong(
        "error: cannot read no\\u{1b}[2J: No such file or directory (os error 2)\n\
         hint: give a file of JSON Lines, or - for standard input\n",
    );
}
