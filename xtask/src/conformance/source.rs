//! One source file: its tokens, which of them are test code, and the citations in its comments and
//! strings. Comments other than docs lie between tokens. Nothing here knows of modules.

use std::ops::Range;

use anyhow::anyhow;
use proc_macro2::{LexError, Span, TokenStream, TokenTree};

use super::id::{Id, find, leads_to_reference};

/// Where a token or a citation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the doc comment of a test function: the test proves the requirement.
    Test,
    /// Outside tests. It counts if the file is a source of a crate.
    Code,
    /// In test code, where it proves nothing.
    Elsewhere,
    /// Behind `see`: it points to a requirement that other code carries out.
    Reference,
}

/// A word, a sign, a literal or a doc comment, as it is written.
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: Place,
    range: Range<usize>,
}

impl Token<'_> {
    pub(crate) fn is_doc(&self) -> bool {
        self.text.starts_with("//") || self.text.starts_with("/*")
    }

    pub(crate) fn is_string(&self) -> bool {
        self.text.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"')
    }
}

pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> anyhow::Result<Source<'a>> {
        let mut source = Source { file, text, tokens: Vec::new() };
        source.read(text.parse().map_err(|it: LexError| anyhow!("cannot parse {file}: {it}"))?);
        Ok(source)
    }

    /// The tokens in a part of the file.
    pub(crate) fn within(&self, range: &Range<usize>) -> &[Token<'a>] {
        let index = |offset| self.tokens.partition_point(|it| it.range.start < offset);
        &self.tokens[index(range.start)..index(range.end)]
    }

    /// The ids in comments and strings, with their lines.
    pub(crate) fn citations(&self) -> Vec<(Id, usize, Place)> {
        // The `n` of a line break must not begin a word.
        let text = self.text.replace("\\n", "  ");
        let (mut end, mut line, mut is_reference) = (0, 1, false);
        let cite = |(offset, id): (usize, Id)| {
            let between = &text[end..offset];
            line += between.matches('\n').count();
            is_reference = leads_to_reference(between, is_reference);
            end = offset + id.to_string().len();
            let place = self.place(offset)?;
            Some((id, line, if is_reference { Place::Reference } else { place }))
        };
        find(&text).filter_map(cite).collect()
    }

    /// Where a byte of the file stands, if it is not code itself. A comment between test code and
    /// other code belongs to the other code.
    fn place(&self, offset: usize) -> Option<Place> {
        let next = self.tokens.partition_point(|it| it.range.end <= offset);
        let (before, after) = (self.tokens[..next].last(), self.tokens.get(next));
        let is_test = |it: Option<&Token<'_>>| it.is_some_and(|it| it.place != Place::Code);
        match after {
            Some(token) if token.range.contains(&offset) => {
                (token.is_doc() || token.is_string()).then_some(token.place)
            }
            _ if is_test(before) && is_test(after.or(before)) => Some(Place::Elsewhere),
            _ => Some(Place::Code),
        }
    }

    /// Adds the tokens of a stream, item by item. A field or a statement is an item here too. Where
    /// its end is unclear it ends early: then too much counts as code, never too little.
    fn read(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let (start, source) = (self.tokens.len(), self.text);
        let text = |it: &TokenTree| &source[it.span().byte_range()];
        for item in trees.split_inclusive(|it| text(it).starts_with(['{', ';', ','])) {
            let attributes = item.windows(2).filter(|it| text(&it[0]) == "#");
            self.read_item(item, &attributes.map(|it| text(&it[1])).collect::<Vec<_>>());
        }
        // `#![cfg(test)]`
        if trees.windows(2).any(|it| text(&it[0]) == "!" && text(&it[1]) == "[cfg(test)]") {
            self.leave_out(start..self.tokens.len());
        }
    }

    fn read_item(&mut self, trees: &[TokenTree], attributes: &[&str]) {
        let (mut first, mut last) = (self.tokens.len(), 0);
        for tree in trees {
            last = self.tokens.len();
            if let TokenTree::Group(it) = tree {
                self.push(it.span_open());
                self.read(it.stream());
                self.push(it.span_close());
            } else {
                self.push(tree.span());
            }
        }
        // A module's own docs do not belong to its first item.
        let inner = self.tokens[first..last].iter().rposition(|it| it.text.starts_with("//!"));
        first += inner.map_or(0, |it| it + 1);
        let has = |is: fn(&str) -> bool| attributes.iter().any(|it| is(it));
        let is_test = has(|it| it == "[test]" || it.contains("::test]") || it.contains("::test("));
        if is_test && !has(|it| it.starts_with("[ignore")) {
            let docs = self.tokens[first..last].iter_mut().filter(|it| it.is_doc());
            docs.for_each(|it| it.place = Place::Test);
        }
        if has(|it| it == "[cfg(test)]" || it.starts_with("[cfg(all(test,")) {
            self.leave_out(first..self.tokens.len());
        } else if is_test {
            self.leave_out(first..last);
        }
    }

    /// A doc comment is several tokens, all in the place of the first.
    fn push(&mut self, span: Span) {
        let range = span.byte_range();
        if self.tokens.last().is_none_or(|it| it.range.end <= range.start) {
            let text = &self.text[range.clone()];
            self.tokens.push(Token { text, place: Place::Code, range });
        }
    }

    /// Makes code test code.
    fn leave_out(&mut self, tokens: Range<usize>) {
        let code = self.tokens[tokens].iter_mut().filter(|it| it.place == Place::Code);
        code.for_each(|it| it.place = Place::Elsewhere);
    }
}
