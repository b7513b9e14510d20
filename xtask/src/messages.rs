//! `cargo xtask messages`: every text that users of the product may read, with its place and its kind.
//! It is a superset: any string of two words outside of tests and assertions may be shown somewhere.
//! Texts of `--help` are doc comments, which this tool leaves out.

use std::fmt;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, anyhow};
use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

use crate::conformance::files;

/// Crates for tests. What they say only developers read.
const LEFT_OUT: [&str; 8] = [
    "guests",
    "http-peer",
    "postgres-fixture",
    "sim",
    "store-conformance",
    "test-guests",
    "test-store",
    "test-support",
];

/// Macros whose text becomes an event of the log.
const LOGS: [&str; 7] = ["trace", "debug", "info", "warn", "error", "event", "trouble"];

/// Calls and macros whose text only a bug shows.
const BUGS: [&str; 12] = [
    "panic",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "unreachable",
    "todo",
    "unimplemented",
    "expect",
    "expect_err",
];

/// First words of texts for a database.
const SQL: [&str; 11] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "WITH", "BEGIN", "SET",
    "PRAGMA",
];

/// How a text reaches its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// As the `Display` of an error, or a part of it.
    Error,
    /// As the detail or the hint of a problem that the API answers with.
    Problem,
    /// On a terminal.
    Cli,
    /// In the log.
    Log,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    path: String,
    line: usize,
    kind: Kind,
    text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Error => "error",
            Kind::Problem => "problem",
            Kind::Cli => "cli",
            Kind::Log => "log",
        };
        let text = self.text.replace('\n', "\\n");
        write!(f, "{}:{}  {kind}  {text}", self.path, self.line)
    }
}

/// Prints all messages, one a line.
pub(crate) fn run(root: &Path, out: &mut dyn Write) -> anyhow::Result<bool> {
    for message in messages(root)? {
        writeln!(out, "{message}")?;
    }
    Ok(true)
}

/// The messages of all crates of the product, in the order of their places.
fn messages(root: &Path) -> anyhow::Result<Vec<Message>> {
    let mut found = Vec::new();
    let mut tests = Vec::new();
    for (path, text) in files(root, "crates", ".rs")? {
        let name = path.split('/').nth(1).context("a file without a crate")?;
        let is_source = path.split('/').nth(2) == Some("src");
        if !is_source || LEFT_OUT.contains(&name) || text.starts_with("//! Generated") {
            continue;
        }
        let kind = match name {
            "cli" => Kind::Cli,
            "api" | "server" => Kind::Problem,
            _ => Kind::Error,
        };
        let stream = text.parse().map_err(|it: LexError| anyhow!("cannot parse {path}: {it}"))?;
        Reader { path, found: &mut found, tests: &mut tests }.read(stream, kind);
    }
    let is_test =
        |path: &str| tests.iter().any(|it| path.strip_prefix(it).is_some_and(is_of_module));
    found.retain(|it| !is_test(&it.path));
    found.sort();
    Ok(found)
}

/// Whether the rest of a path is that of a module's own file or of one below it.
fn is_of_module(rest: &str) -> bool {
    rest == ".rs" || rest.starts_with('/')
}

struct Reader<'a> {
    path: String,
    found: &'a mut Vec<Message>,
    /// Paths, without `.rs`, of the modules that are declared for tests.
    tests: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, stream: TokenStream, kind: Kind) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut rest = trees.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            match (first, after) {
                // `#![…]`, and what a module says of itself.
                (TokenTree::Punct(it), [TokenTree::Punct(_), TokenTree::Group(_), after @ ..])
                    if it.as_char() == '#' =>
                {
                    rest = after;
                }
                (TokenTree::Punct(it), [TokenTree::Group(attribute), after @ ..])
                    if it.as_char() == '#' =>
                {
                    let text = attribute.stream().to_string().replace(' ', "");
                    rest = after;
                    if text == "cfg(test)" || text.starts_with("cfg(all(test,") || text == "test" {
                        rest = self.leave_out(after);
                    } else {
                        self.read_attribute(attribute, kind);
                    }
                }
                // `name!(…)`
                (
                    TokenTree::Ident(name),
                    [TokenTree::Punct(it), TokenTree::Group(group), after @ ..],
                ) if it.as_char() == '!' => {
                    self.read_call(&name.to_string(), group, kind);
                    rest = after;
                }
                (TokenTree::Ident(name), [TokenTree::Group(group), after @ ..]) => {
                    // A function of the same name as a macro for the log is none.
                    let name = name.to_string();
                    let name = if LOGS.contains(&name.as_str()) { "" } else { &name };
                    self.read_call(name, group, kind);
                    rest = after;
                }
                (TokenTree::Group(it), _) => self.read(it.stream(), kind),
                (TokenTree::Literal(it), _) => self.read_literal(it, kind),
                _ => {}
            }
        }
    }

    fn read_call(&mut self, name: &str, group: &Group, kind: Kind) {
        let is_call = group.delimiter() == Delimiter::Parenthesis;
        if !(is_call && BUGS.contains(&name)) {
            let kind = if is_call && LOGS.contains(&name) { Kind::Log } else { kind };
            self.read(group.stream(), kind);
        }
    }

    /// Doc comments are attributes too.
    fn read_attribute(&mut self, attribute: &Group, kind: Kind) {
        let mut trees = attribute.stream().into_iter();
        let (Some(name), Some(TokenTree::Group(group))) = (trees.next(), trees.next()) else {
            return;
        };
        match name.to_string().as_str() {
            "error" => self.read(group.stream(), Kind::Error),
            "arg" | "command" | "value" | "derive" => self.read(group.stream(), kind),
            _ => {}
        }
    }

    /// What follows the item that `trees` begin with.
    fn leave_out<'t>(&mut self, trees: &'t [TokenTree]) -> &'t [TokenTree] {
        let is_end = |it: &TokenTree| match it {
            TokenTree::Group(it) => it.delimiter() == Delimiter::Brace,
            TokenTree::Punct(it) => it.as_char() == ';',
            _ => false,
        };
        let end = trees.iter().position(is_end).map_or(trees.len(), |it| it + 1);
        let (item, after) = trees.split_at(end);
        if let [.., TokenTree::Ident(is_mod), TokenTree::Ident(name), TokenTree::Punct(_)] = item
            && is_mod == "mod"
        {
            let file = self.path.trim_end_matches(".rs");
            let folder = ["/mod", "/lib", "/main"].iter().find_map(|it| file.strip_suffix(it));
            self.tests.push(format!("{}/{name}", folder.unwrap_or(file)));
        }
        after
    }

    fn read_literal(&mut self, literal: &proc_macro2::Literal, kind: Kind) {
        let syn::Lit::Str(text) = syn::Lit::new(literal.clone()) else { return };
        let text = text.value();
        let is_word = |it: &&str| it.chars().filter(|it| it.is_alphabetic()).count() > 1;
        let words: Vec<_> = text.split_whitespace().filter(is_word).collect();
        if words.first().is_some_and(|it| !SQL.contains(it))
            && (words.len() > 1 || kind == Kind::Log)
        {
            let (path, line) = (self.path.clone(), literal.span().start().line);
            self.found.push(Message { path, line, kind, text });
        }
    }
}
