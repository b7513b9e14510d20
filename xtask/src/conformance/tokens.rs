//! The tokens of one source file: what is text and what is code, where each token is, and which are
//! those of tests. Comments other than docs lie between tokens. Nothing here knows of ids or paths.

use std::iter::repeat_n;
use std::ops::Range;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Doc,
    /// A string of any sort.
    Text,
    Word,
    Other,
}

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

pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) is_attribute: bool,
    range: Range<usize>,
}

pub(crate) struct Tokens<'a> {
    pub(crate) source: &'a str,
    tokens: Vec<Token>,
    /// `#![cfg(test)]` at the top of the file.
    is_test: bool,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(source: &'a str) -> syn::Result<Tokens<'a>> {
        let is_test = source.lines().any(|it| it == "#![cfg(test)]");
        let mut tokens = Tokens { source, tokens: Vec::new(), is_test };
        tokens.read(source.parse()?, false);
        if is_test {
            tokens.leave_out(0..tokens.tokens.len());
        }
        Ok(tokens)
    }

    pub(crate) fn text(&self, token: &Token) -> &'a str {
        &self.source[token.range.clone()]
    }

    /// The tokens in a part of the file.
    pub(crate) fn within(&self, range: &Range<usize>) -> &[Token] {
        let index = |offset| self.tokens.partition_point(|it| it.range.start < offset);
        &self.tokens[index(range.start)..index(range.end)]
    }

    /// The source with its code blotted out; comments and strings are where they were.
    pub(crate) fn prose(&self) -> String {
        let mut prose = String::new();
        for token in &self.tokens {
            prose.push_str(&self.source[prose.len()..token.range.start]);
            let mut is_escaped = false;
            // The `n` of a line break must not begin a word.
            let without_escapes = |it: char| {
                let is_hidden = is_escaped && it.is_ascii_alphanumeric();
                is_escaped = it == '\\' && !is_escaped;
                if is_hidden { ' ' } else { it }
            };
            match token.kind {
                Kind::Doc => prose.push_str(self.text(token)),
                Kind::Text => prose.extend(self.text(token).chars().map(without_escapes)),
                Kind::Word | Kind::Other => prose.extend(repeat_n(';', token.range.len())),
            }
        }
        prose.push_str(&self.source[prose.len()..]);
        prose
    }

    /// Where a byte of the file stands. A comment between test code and other code is of the latter.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let next = self.tokens.partition_point(|it| it.range.end <= offset);
        let (before, after) = (self.tokens[..next].last(), self.tokens.get(next));
        if let Some(token) = after.filter(|it| it.range.start <= offset) {
            return token.place;
        }
        let is_test = |it: Option<&Token>| it.map_or(self.is_test, |it| it.place != Place::Code);
        if is_test(before) && is_test(after) { Place::Elsewhere } else { Place::Code }
    }

    /// Adds the tokens of a stream, item by item. A field or a statement is an item here too. Where
    /// its end is unclear it ends early: then too much counts as code, never too little.
    fn read(&mut self, stream: TokenStream, is_attribute: bool) {
        let is_end = |tree: &TokenTree| match tree {
            TokenTree::Group(it) => it.delimiter() == Delimiter::Brace,
            _ => is_punct(tree, ';') || is_punct(tree, ','),
        };
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        trees.split_inclusive(is_end).for_each(|it| self.read_item(it, is_attribute));
    }

    fn read_item(&mut self, mut trees: &[TokenTree], is_attribute: bool) {
        let (mut first, mut last) = (self.tokens.len(), 0);
        let (mut docs, mut attributes) = (Vec::new(), Vec::new());
        while let [tree, rest @ ..] = trees {
            trees = rest;
            last = self.tokens.len();
            match tree {
                TokenTree::Punct(it) if it.as_char() == '#' => {
                    let is_inner = trees.first().is_some_and(|it| is_punct(it, '!'));
                    let [TokenTree::Group(group), rest @ ..] = &trees[usize::from(is_inner)..]
                    else {
                        continue;
                    };
                    if group.delimiter() != Delimiter::Bracket {
                        continue;
                    }
                    trees = rest;
                    // A doc comment is an attribute whose parts all have the range of the comment.
                    if self.source[it.span().byte_range()].starts_with('/') {
                        docs.push(last);
                        self.push(Kind::Doc, it.span(), false);
                    } else {
                        attributes.push(&self.source[group.span().byte_range()]);
                        self.read_group(group, true);
                    }
                    if is_inner {
                        first = self.tokens.len();
                        docs.clear();
                        attributes.clear();
                    }
                }
                TokenTree::Group(it) => self.read_group(it, is_attribute),
                TokenTree::Ident(it) => self.push(Kind::Word, it.span(), is_attribute),
                TokenTree::Literal(it) => {
                    let text = it.to_string();
                    let is_text = text.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"');
                    let kind = if is_text { Kind::Text } else { Kind::Other };
                    self.push(kind, it.span(), is_attribute);
                }
                TokenTree::Punct(it) => self.push(Kind::Other, it.span(), is_attribute),
            }
        }
        let has = |is: fn(&str) -> bool| attributes.iter().any(|it| is(it));
        let is_test = has(|it| it.starts_with("[test]") || path(it).ends_with("::test"));
        if has(|it| it == "[cfg(test)]" || it.starts_with("[cfg(all(test,")) {
            self.leave_out(first..self.tokens.len());
        } else if is_test {
            self.leave_out(first..last);
        }
        if is_test && !has(|it| it.starts_with("[ignore")) {
            docs.into_iter().for_each(|it| self.tokens[it].place = Place::Test);
        }
    }

    fn read_group(&mut self, group: &Group, is_attribute: bool) {
        self.push(Kind::Other, group.span_open(), is_attribute);
        self.read(group.stream(), is_attribute);
        self.push(Kind::Other, group.span_close(), is_attribute);
    }

    fn push(&mut self, kind: Kind, span: Span, is_attribute: bool) {
        let range = span.byte_range();
        self.tokens.push(Token { kind, place: Place::Code, is_attribute, range });
    }

    /// Makes code test code.
    fn leave_out(&mut self, tokens: Range<usize>) {
        let tokens = self.tokens[tokens].iter_mut();
        tokens.filter(|it| it.place == Place::Code).for_each(|it| it.place = Place::Elsewhere);
    }
}

fn is_punct(tree: &TokenTree, punct: char) -> bool {
    matches!(tree, TokenTree::Punct(it) if it.as_char() == punct)
}

fn path(attribute: &str) -> &str {
    attribute.split(['(', ']']).next().unwrap_or(attribute)
}
