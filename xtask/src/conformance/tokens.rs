//! The tokens of one source file: what is prose and what is code, where each token is, and which are
//! those of tests. Comments other than docs lie between tokens. Nothing here knows of ids or paths.

use std::iter::repeat_n;
use std::ops::Range;

use proc_macro2::{Span, TokenStream, TokenTree};

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
    start: usize,
}

impl Token<'_> {
    pub(crate) fn is_doc(&self) -> bool {
        self.text.starts_with("//") || self.text.starts_with("/*")
    }

    pub(crate) fn is_string(&self) -> bool {
        self.text.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"')
    }

    fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

pub(crate) struct Tokens<'a> {
    pub(crate) file: &'a str,
    pub(crate) source: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(file: &'a str, source: &'a str) -> syn::Result<Tokens<'a>> {
        let mut tokens = Tokens { file, source, tokens: Vec::new() };
        tokens.read(source.parse()?);
        if source.lines().any(|it| it == "#![cfg(test)]") {
            tokens.leave_out(0..tokens.tokens.len());
        }
        Ok(tokens)
    }

    /// The tokens in a part of the file.
    pub(crate) fn within(&self, range: &Range<usize>) -> &[Token<'a>] {
        let index = |offset| self.tokens.partition_point(|it| it.start < offset);
        &self.tokens[index(range.start)..index(range.end)]
    }

    /// The source with its code blotted out; comments and strings are where they were.
    pub(crate) fn prose(&self) -> String {
        let mut prose = String::new();
        for token in &self.tokens {
            prose.push_str(&self.source[prose.len()..token.start]);
            if token.is_doc() || token.is_string() {
                // The `n` of a line break must not begin a word.
                prose.push_str(&token.text.replace("\\n", "  "));
            } else {
                prose.extend(repeat_n(';', token.text.len()));
            }
        }
        prose.push_str(&self.source[prose.len()..]);
        prose
    }

    /// Where a byte of the file stands. A comment between test code and other code is of the latter.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let next = self.tokens.partition_point(|it| it.end() <= offset);
        let (before, after) = (self.tokens[..next].last(), self.tokens.get(next));
        let is_test = |it: Option<&Token<'_>>| it.is_some_and(|it| it.place != Place::Code);
        match after {
            Some(token) if token.start <= offset => token.place,
            _ if is_test(before) && is_test(after.or(before)) => Place::Elsewhere,
            _ => Place::Code,
        }
    }

    /// Adds the tokens of a stream, item by item. A field or a statement is an item here too. Where
    /// its end is unclear it ends early: then too much counts as code, never too little.
    fn read(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let source = self.source;
        let text = |it: &TokenTree| &source[it.span().byte_range()];
        for item in trees.split_inclusive(|it| text(it).starts_with(['{', ';', ','])) {
            let attributes = item.windows(2).filter(|it| text(&it[0]) == "#");
            self.read_item(item, &attributes.map(|it| text(&it[1])).collect::<Vec<_>>());
        }
    }

    fn read_item(&mut self, trees: &[TokenTree], attributes: &[&str]) {
        let mut first = self.tokens.len();
        let mut last = first;
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
        // What a module says of itself is not of its first item.
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
        let Range { start, end } = span.byte_range();
        if self.tokens.last().is_none_or(|it| it.end() <= start) {
            let text = &self.source[start..end];
            self.tokens.push(Token { text, place: Place::Code, start });
        }
    }

    /// Makes code test code.
    fn leave_out(&mut self, tokens: Range<usize>) {
        let code = self.tokens[tokens].iter_mut().filter(|it| it.place == Place::Code);
        code.for_each(|it| it.place = Place::Elsewhere);
    }
}
