//! The guides, typed along: what a guide tells its reader to type is run, from top to bottom, by a
//! shell in an empty folder, with the real binary.
//!
//! What a block of a guide is to the runner stands in the words behind its language, which a reader
//! of the rendered page does not see, or in a comment above it:
//!
//! | in the guide | what is done |
//! |---|---|
//! | `sh` | run; each command must end with 0. Variables and folders stay for later blocks |
//! | `sh fails=3` | run; the last command must end with 3 |
//! | `sh server` | another terminal, in the folder where the guide began; it goes on until the guide ends, or a block with a `kill` in it ends it |
//! | `sh skip=REASON` | not run; `SKIPPED` lists them |
//! | `text`, right below | what the reader sees then, standard error included; of a server, what it says first. Ids, times and bars of charts may be others; `…` is any text, and as a line of its own any number of lines |
//! | `<!-- file: PATH -->` above a block | the reader puts the block into that file |
//! | `<!-- file: PATH, as SOURCE -->` | the same, and it is that file of the project |
//! | `<!-- shows: PATH -->` | that file says just this by now |
//! | `<!-- part of: SOURCE -->` | these lines stand in that file of the project |
//! | `<!-- patch: PATH -->` above a `diff` | the reader makes this change in that file |
//! | `<!-- sh … -->` | run like `sh`, and not shown |
//!
//! Blocks of other languages are for reading. Blocks that consist of `cargo` and `git` alone build
//! the project itself, and are not run either.
//!
//! Each guide has a folder of its own under `target/tmp/guides`, emptied at the beginning; a home of
//! its own; and ports of its own: numbers that follow `127.0.0.1:` or `localhost:` in a guide are
//! replaced by free ones, wherever they stand in it.
//!
//! - `page`: a guide as blocks. `expected`, `alike`: what was printed against what stands there.
//!   `place`: folders, environment, ports. `reader`: types it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(clippy::disallowed_methods, reason = "the tests make files, and wait with a bound")]
#![allow(clippy::print_stdout, reason = "what a reader sees belongs to a test's output")]
#![cfg(target_os = "linux")]

mod alike;
mod expected;
mod page;
mod place;
mod reader;
mod self_test;

use std::collections::BTreeSet;
use std::fs;

use page::{Act, Page};
use place::root;

/// A test for each guide, and the list of them.
macro_rules! guides {
    ($($name:ident = $path:literal,)*) => {
        const GUIDES: &[&str] = &[$($path),*];
        $(
            /// What the guide tells its reader to type does what the guide says.
            #[test]
            fn $name() {
                read_along($path);
            }
        )*
    };
}

guides! {
    readme = "README.md",
    first_workflow = "docs/guides/first-workflow.md",
    signals = "docs/guides/signals.md",
    sagas = "docs/guides/sagas.md",
    effects = "docs/guides/effects.md",
    ledger = "docs/guides/ledger.md",
    webhooks = "docs/guides/webhooks.md",
    testing_functions = "docs/guides/testing-functions.md",
    http_api = "docs/guides/http-api.md",
    configuration = "docs/guides/configuration.md",
    operating = "docs/guides/operating.md",
    something_is_stuck = "docs/guides/something-is-stuck.md",
    security = "docs/guides/security.md",
}

/// What no test runs, and why: the fewer, the better.
const SKIPPED: &[(&str, &str)] = &[
    ("docs/guides/first-workflow.md", "changes the toolchain"),
    ("docs/guides/http-api.md", "nothing is unresolved here"),
    ("docs/guides/operating.md", "needs root"),
];

fn parsed(path: &str) -> Page {
    let text = fs::read_to_string(root().join(path)).unwrap();
    Page::parse(&text).unwrap_or_else(|why| panic!("{path}:{why}"))
}

/// What guides use beside Indelible.
const TOOLS: [&str; 4] = ["bash", "curl", "openssl", "python3"];

fn has_tools() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |tool: &&str| std::env::split_paths(&path).any(|it| it.join(tool).is_file());
    let missing: Vec<&str> = TOOLS.into_iter().filter(|tool| !is_there(tool)).collect();
    assert!(missing.is_empty(), "there is no {missing:?}: `cargo xtask setup` installs it");
}

fn read_along(path: &str) {
    has_tools();
    // A compiler for guests, and the crates that they need: guides are read without a network.
    _ = indelible_guests::component("trivial");
    let page = parsed(path);
    for block in &page.blocks {
        if let Act::Skip { reason } = &block.act {
            println!("{path}:{}: not run, {reason}: {}", block.line, block.text.trim_end());
        }
    }
    if let Err(why) = reader::read(path, &page) {
        panic!("{path}:{why}");
    }
}

/// A guide that has commands is run; a test of a guide without any would prove nothing.
#[test]
fn no_guide_is_forgotten() {
    let mut paths = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root().join("docs/guides")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            paths.push(format!("docs/guides/{name}"));
        }
    }
    let has_commands = |path: &&String| {
        parsed(path).blocks.iter().any(|block| !matches!(block.act, Act::Skip { .. }))
    };
    let with_commands: BTreeSet<&str> =
        paths.iter().filter(has_commands).map(String::as_str).collect();
    assert_eq!(with_commands, GUIDES.iter().copied().collect());
}

/// What guides show of the project's own files is there.
#[test]
fn parts_of_files_are_in_them() {
    let mut found = 0;
    for path in GUIDES {
        for part in parsed(path).parts {
            let theirs = fs::read_to_string(root().join(&part.source)).unwrap_or_default();
            let (line, source) = (part.line, &part.source);
            assert!(theirs.contains(&part.text), "{path}:{line}: this is not in {source}");
            found += 1;
        }
    }
    assert!(found > 0, "the README shows a part of what `indelible new` makes");
}

/// Whatever is not run is known, with its reason.
#[test]
fn few_are_skipped() {
    let mut skipped = Vec::new();
    for path in GUIDES {
        for block in parsed(path).blocks {
            match block.act {
                Act::Skip { reason } if reason != page::OF_THE_PROJECT => {
                    skipped.push(((*path).to_owned(), reason));
                }
                _ => {}
            }
        }
    }
    let known: Vec<_> =
        SKIPPED.iter().map(|(path, why)| ((*path).to_owned(), (*why).to_owned())).collect();
    assert_eq!(skipped, known);
}
