//! A guide as the blocks that matter to a reader who types along.

/// Why some commands are never run.
pub(crate) const OF_THE_PROJECT: &str = "it builds the project itself";

/// A guide.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) blocks: Vec<Block>,
    /// What is only read, and is lines of a file of the project.
    pub(crate) parts: Vec<Part>,
}

/// Lines of a file of the project.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    /// The line of its first line of text, counted from 1.
    pub(crate) line: usize,
    pub(crate) source: String,
    pub(crate) text: String,
}

/// Something to do.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// The line of its first line of text, counted from 1.
    pub(crate) line: usize,
    pub(crate) act: Act,
    pub(crate) text: String,
    /// What is seen then, if the guide says so.
    pub(crate) output: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Commands; what the last one ends with, if not all end with 0.
    Run {
        fails: Option<i32>,
    },
    /// A command in another terminal.
    Server,
    Skip {
        reason: String,
    },
    /// A file to write, perhaps one that the project has.
    File {
        path: String,
        source: Option<String>,
    },
    /// A file that is there, and what it says.
    Shows {
        path: String,
    },
    /// A change in a file.
    Patch {
        path: String,
    },
}

/// What a comment says.
enum Note {
    /// What the block below it is.
    Block(About),
    /// Commands that are not shown.
    Commands,
}

/// What a block is to us.
enum About {
    Act(Act),
    /// Lines of this file of the project.
    Part(String),
}

impl Page {
    /// Reads a guide. What is wrong begins with the line where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut parts = Vec::new();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        // What the comment above says, and whether the last thing was a block that was run.
        let mut note: Option<(usize, About)> = None;
        let mut just_run = false;
        while let Some((line, text)) = lines.next() {
            let wrong = |why: String| format!("{line}: {why}");
            if let Some(comment) = text.trim_start().strip_prefix("<!--") {
                just_run = false;
                match self::note(comment).map_err(wrong)? {
                    None if comment.contains("-->") => {}
                    None => until("-->", line, &mut lines).map(drop)?,
                    Some(Note::Block(about)) => note = Some((line, about)),
                    Some(Note::Commands) => {
                        let text = until("-->", line, &mut lines)?;
                        let act = Act::Run { fails: None };
                        blocks.push(Block { line: line + 1, act, text, output: None });
                    }
                }
            } else if let Some(info) = text.trim_start().strip_prefix("```") {
                let content = until("```", line, &mut lines)?;
                let (language, words) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
                let act = match (note.take(), language) {
                    (Some(_), _) if !words.is_empty() => {
                        return Err(wrong("a comment or words, not both".to_owned()));
                    }
                    (Some((_, About::Part(source))), _) => {
                        parts.push(Part { line: line + 1, source, text: content });
                        just_run = false;
                        continue;
                    }
                    (Some((_, About::Act(act))), _) => {
                        if matches!(act, Act::Patch { .. }) && language != "diff" {
                            return Err(wrong("a patch is a `diff`".to_owned()));
                        }
                        Some(act)
                    }
                    (None, "sh") => Some(act(words, &content).map_err(wrong)?),
                    (None, "text") if just_run => {
                        let last = blocks.last_mut().expect("one was just run");
                        last.output = Some(content);
                        just_run = false;
                        continue;
                    }
                    (None, _) => None,
                };
                just_run = matches!(act, Some(Act::Run { .. } | Act::Server));
                if let Some(act) = act {
                    blocks.push(Block { line: line + 1, act, text: content, output: None });
                }
            } else if !text.trim().is_empty() {
                just_run = false;
                if let Some((line, _)) = note {
                    return Err(format!("{line}: what the comment is about does not follow"));
                }
            }
        }
        match note {
            Some((line, _)) => Err(format!("{line}: what the comment is about does not follow")),
            None => Ok(Self { blocks, parts }),
        }
    }
}

/// The lines up to the one that ends a block.
fn until<'a>(
    end: &str,
    begin: usize,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, String> {
    let mut text = String::new();
    for (_, line) in lines {
        if line.trim() == end {
            return Ok(text);
        }
        text.push_str(line);
        text.push('\n');
    }
    Err(format!("{begin}: what begins here has no end"))
}

/// What a comment says, if it is for us.
fn note(comment: &str) -> Result<Option<Note>, String> {
    let comment = comment.trim();
    if comment == "sh" {
        return Ok(Some(Note::Commands));
    }
    let Some((word, rest)) = comment.split_once(':') else {
        return Ok(None);
    };
    if !["file", "shows", "patch", "part of"].contains(&word) {
        return Ok(None);
    }
    let Some(rest) = rest.trim().strip_suffix("-->") else {
        return Err(format!("`{word}:` is a comment of one line"));
    };
    let path = rest.trim().to_owned();
    let act = match word {
        "part of" => return Ok(Some(Note::Block(About::Part(path)))),
        "file" => match path.split_once(", as ") {
            Some((path, source)) => {
                Act::File { path: path.to_owned(), source: Some(source.to_owned()) }
            }
            None => Act::File { path, source: None },
        },
        "shows" => Act::Shows { path },
        _ => Act::Patch { path },
    };
    Ok(Some(Note::Block(About::Act(act))))
}

/// What the words behind `sh` say.
fn act(words: &str, content: &str) -> Result<Act, String> {
    match words.split_once('=').unwrap_or((words, "")) {
        ("", "") if builds_the_project(content)? => {
            Ok(Act::Skip { reason: OF_THE_PROJECT.to_owned() })
        }
        ("", "") => Ok(Act::Run { fails: None }),
        ("server", "") => Ok(Act::Server),
        ("fails", code) => match code.parse() {
            Ok(code @ 1..=255) => Ok(Act::Run { fails: Some(code) }),
            _ => Err(format!("`fails={code}`: an exit code is from 1 to 255")),
        },
        ("skip", "") => Err("`skip=` needs a reason, as one word".to_owned()),
        ("skip", reason) if !reason.contains(' ') => {
            Ok(Act::Skip { reason: reason.replace('-', " ") })
        }
        _ => Err(format!("`{words}`: `server`, `fails=CODE` or `skip=REASON`")),
    }
}

/// Whether these commands are for a copy of the project, and not for a user of the binary.
fn builds_the_project(content: &str) -> Result<bool, String> {
    let commands = content.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let (project, other): (Vec<&str>, Vec<&str>) = commands.partition(|line| {
        ["cargo ", "git clone ", "cd indelible"].iter().any(|word| line.starts_with(word))
    });
    match (project.is_empty(), other.first()) {
        (true, _) => Ok(false),
        (false, None) => Ok(true),
        (false, Some(other)) => {
            Err(format!("`{}` builds the project, and `{other}` does not", project[0]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<Block> {
        Page::parse(text).unwrap().blocks
    }

    fn run(line: usize, text: &str, output: Option<&str>) -> Block {
        let output = output.map(str::to_owned);
        Block { line, act: Act::Run { fails: None }, text: text.to_owned(), output }
    }

    /// Blocks come in order, with their lines; what is for reading is left out.
    #[test]
    fn what_is_run() {
        let text = "# T\n\n```sh\na\nb\n```\n\n```rust\nfn\n```\n\n```sh server\ns\n```\n";
        let server = Block { line: 13, act: Act::Server, text: "s\n".to_owned(), output: None };
        assert_eq!(blocks(text), [run(4, "a\nb\n", None), server]);
        assert_eq!(blocks("```sh fails=3\nx\n```\n")[0].act, Act::Run { fails: Some(3) });
        let skipped = Act::Skip { reason: "needs root".to_owned() };
        assert_eq!(blocks("```sh skip=needs-root\nx\n```\n")[0].act, skipped);
        assert_eq!(blocks("<!-- sh\nhidden\n-->\n"), [run(2, "hidden\n", None)]);
    }

    /// Output belongs to the block right above, and to no other.
    #[test]
    fn what_is_seen() {
        let block = "```sh\na\n```\n";
        let output = "```text\nout\n```\n";
        assert_eq!(blocks(&format!("{block}\n{output}")), [run(2, "a\n", Some("out\n"))]);
        assert_eq!(blocks(&format!("{block}\nIt says\n\n{output}")), [run(2, "a\n", None)]);
        let two = format!("{block}{output}{output}");
        assert_eq!(blocks(&two), [run(2, "a\n", Some("out\n"))]);
    }

    /// Comments say what becomes of the block below.
    #[test]
    fn files() {
        let text = "<!-- file: a/b.rs -->\n\n```rust\nx\n```\n";
        let act = Act::File { path: "a/b.rs".to_owned(), source: None };
        assert_eq!(blocks(text)[0].act, act);
        let text = "<!-- file: a.rs, as examples/a.rs -->\n```rust\nx\n```\n";
        let act = Act::File { path: "a.rs".to_owned(), source: Some("examples/a.rs".to_owned()) };
        assert_eq!(blocks(text)[0].act, act);
        let text = "<!-- shows: a.rs -->\n```rust\nx\n```\n";
        assert_eq!(blocks(text)[0].act, Act::Shows { path: "a.rs".to_owned() });
        let text = "<!-- patch: a.rs -->\n```diff\n-x\n+y\n```\n";
        assert_eq!(blocks(text)[0].act, Act::Patch { path: "a.rs".to_owned() });
        assert!(blocks("<!-- a note\nof two lines\n-->\n<!-- and one -->\n").is_empty());
    }

    /// What is part of a file is for reading alone.
    #[test]
    fn parts() {
        let page = Page::parse("<!-- part of: a/b.rs -->\n```rust\nx\n```\n").unwrap();
        let (source, text) = ("a/b.rs".to_owned(), "x\n".to_owned());
        assert_eq!(page.parts, [Part { line: 3, source, text }]);
        assert!(page.blocks.is_empty());
    }

    /// What builds the project itself is left out, but not together with anything else.
    #[test]
    fn the_project_itself() {
        let act = |text: &str| Page::parse(text).map(|page| page.blocks[0].act.clone());
        assert!(matches!(act("```sh\ncargo xtask verify\n```\n"), Ok(Act::Skip { .. })));
        let mixed = "```sh\ncargo run -- demo\nindelible ps\n```\n";
        assert!(act(mixed).unwrap_err().contains("`indelible ps` does not"));
    }

    /// Whatever is not understood is an error, with its line: it must not go unnoticed.
    #[test]
    fn mistakes() {
        for (text, why) in [
            ("```sh sever\nx\n```\n", "1: `sever`"),
            ("\n```sh fails=0\nx\n```\n", "2: `fails=0`"),
            ("```sh fails\nx\n```\n", "1: `fails=`"),
            ("```sh skip=\nx\n```\n", "1: `skip=` needs a reason"),
            ("```sh skip=needs root\nx\n```\n", "1: `skip=needs root`"),
            ("```sh\nx\n", "1: what begins here has no end"),
            ("<!-- sh\nx\n", "1: what begins here has no end"),
            ("<!-- file: a -->\ntext\n", "1: what the comment is about does not follow"),
            ("<!-- file: a -->\n", "1: what the comment is about does not follow"),
            ("<!-- file: a\n-->\n", "1: `file:` is a comment of one line"),
            ("<!-- file: a -->\n```sh server\nx\n```\n", "2: a comment or words"),
            ("<!-- patch: a -->\n```rust\nx\n```\n", "2: a patch is a `diff`"),
        ] {
            let said = Page::parse(text).unwrap_err();
            assert!(said.starts_with(why), "{text:?}: {said}");
        }
    }
}
