//! What differs from run to run is replaced by what it is: ids, times, bars.

/// What bars are made of.
const BAR: &str = "█▒─░·╌│>";

/// A page with `[id]`, `[time]`, `[took]` and the like, columns two blanks apart.
pub fn filtered(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = filtered_line(line);
        if line != "[legend]" || lines.last().is_none_or(|last| last != "[legend]") {
            lines.push(line);
        }
    }
    lines.join("\n")
}

fn filtered_line(line: &str) -> String {
    let is_tree = line.contains("├─") || line.contains("└─");
    let is_bar = |word: &str| !is_tree && word.chars().all(|c| BAR.contains(c));
    let mut words: Vec<(&str, String)> = Vec::new();
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let (word, behind) = {
            let behind = &rest[blanks..];
            behind.split_at(behind.find(' ').unwrap_or(behind.len()))
        };
        let gap = ["", " ", "  "][blanks.min(2)];
        words.push((gap, word.to_owned()));
        rest = behind;
    }
    match words.as_slice() {
        [("  ", zero), ..] if zero == "0s" => return "[axis]".to_owned(),
        [(_, mark), (" ", word), ..] if is_bar(mark) && word.chars().all(char::is_alphabetic) => {
            return "[legend]".to_owned();
        }
        _ => {}
    }
    let mut shown = String::new();
    let mut words = words.as_slice();
    while let Some(((gap, word), behind)) = words.split_first() {
        let next: Vec<&str> = behind.iter().take(2).map(|(_, word)| word.as_str()).collect();
        let (text, taken) = match (word.as_str(), next.as_slice()) {
            ("just", ["now", ..]) => ("[ago]".to_owned(), 1),
            ("just", [now, ..]) if now.starts_with("now") => (now.replace("now", "[ago]"), 1),
            (number, ["s" | "min" | "h" | "d", ago, ..])
                if is_number(number) && ago.starts_with("ago") =>
            {
                (ago.replace("ago", "[ago]"), 2)
            }
            ("in", [number, "s" | "min" | "h" | "d", ..]) if is_number(number) => {
                ("[until]".to_owned(), 2)
            }
            (word, _) if is_bar(word) => ("[bar]".to_owned(), 0),
            (word, _) => (filtered_word(word), 0),
        };
        words = &behind[taken..];
        if text != "[bar]" || !shown.ends_with("[bar]") {
            shown.push_str(gap);
            shown.push_str(&text);
        }
    }
    shown
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// A word between whatever marks stand around it.
fn filtered_word(word: &str) -> String {
    if let Some(at) = word.find("127.0.0.1:") {
        let (before, port) = word.split_at(at + "127.0.0.1:".len());
        return format!("{before}PORT{}", port.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    let core = word.trim_matches(|c: char| "`(),:;\"".contains(c));
    if core.is_empty() { word.to_owned() } else { word.replacen(core, &filtered_core(core), 1) }
}

fn filtered_core(word: &str) -> String {
    let (id, path) = word.split_at(word.find('.').unwrap_or(word.len()));
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let digit = word.starts_with(|c: char| c.is_ascii_digit());
    let made_of = |marks: &str| word.chars().all(|c| c.is_ascii_digit() || marks.contains(c));
    match word {
        _ if id.len() == 64 && hex(id) => format!("[hash]{path}"),
        _ if id.len() == 8 && hex(id) => format!("[id]{path}"),
        _ if word.len() == 36 && word.split('-').count() == 5 => "[uuid]".to_owned(),
        _ if digit && word.ends_with('Z') && made_of("-T:.Z") => "[time]".to_owned(),
        _ if word.starts_with('+') && word.ends_with('s') => "[at]".to_owned(),
        _ if digit && word.ends_with(['s', 'm', 'h', 'd']) && made_of(".usmhd") => {
            "[took]".to_owned()
        }
        _ => word.to_owned(),
    }
}

/// The filter takes out what differs, and nothing else.
#[test]
fn what_differs_is_taken_out() {
    let id = "0123456789abcdef".repeat(4);
    let check = |line: &str, expected: &str| assert_eq!(filtered(line), expected);
    check(&format!("execution  {id}.0.2"), "execution  [hash].0.2");
    check("started    2026-03-14T09:26:53Z, 3 min ago", "started  [time], [ago]");
    check("  for `x` (9c4f1a2b.0), since just now", "  for `x` ([id].0), since [ago]");
    check("due in 59 min (2026-03-14T09:26:53.123456Z)", "due [until] ([time])");
    check("+0.000120s  a  ×3   ░░██ ██·>   ✓ 12.5ms 200", "[at]  a  ×3  [bar]  ✓ [took] 200");
    check("          0s      1s    2s", "[axis]");
    check("█ running   ─ waiting\n> not ended", "[legend]");
    check("│  └─ a  1s", "│  └─ a  [took]");
    check("POST http://127.0.0.1:4711/x", "POST http://127.0.0.1:PORT/x");
    check("0 of 12, step 3", "0 of 12, step 3");
}
