//! The citations of one source file, and where in it they stand.

use super::id::{self, Id};
use super::lexer::{Kind, Token, tokens};

/// Where a citation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the doc comment of a test function: the test proves the requirement.
    Test,
    /// In a comment or string outside tests. It counts if the file is a source of a crate.
    Code,
    /// In test code, where it proves nothing.
    Elsewhere,
    /// Behind `see`: it points to a requirement that other code carries out.
    Reference,
}

/// An id in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) id: Id,
    pub(crate) line: usize,
    pub(crate) place: Place,
}

/// What one source file cites.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) citations: Vec<Citation>,
    /// The names of `#[cfg(test)] mod name;`, whose body is in another file.
    pub(crate) test_modules: Vec<String>,
}

/// Finds the citations of one source file.
pub(crate) fn scan(source: &str) -> Scan {
    let tokens = tokens(source);
    let mut scanner = Scanner::default();
    let mut at = 0;
    while at < tokens.len() {
        at += scanner.step(&tokens[at..]);
    }
    scanner.flush();
    scanner.scan
}

/// The docs and attributes read so far of an item whose keyword is still to come.
#[derive(Default)]
struct Pending {
    docs: Vec<Token>,
    /// Plain comments and strings among the docs and attributes.
    others: Vec<Token>,
    attributes: Attributes,
    is_open: bool,
}

#[derive(Default, Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) is_test: bool,
    is_ignored: bool,
    pub(crate) is_cfg_test: bool,
}

#[derive(Default)]
struct Scanner {
    scan: Scan,
    pending: Pending,
    depth: usize,
    /// The depth outside the `#[cfg(test)]` module that is being read.
    test_module: Option<usize>,
    /// `#![cfg(test)]` at the top of the file.
    is_test_file: bool,
    /// The comment before ended in a list behind `see`, which can go on in the next line.
    is_reference: bool,
}

impl Scanner {
    /// Takes in the first token, or the few that belong together; returns how many.
    fn step(&mut self, rest: &[Token]) -> usize {
        let token = &rest[0];
        match token.kind {
            Kind::Doc => {
                self.pending.docs.push(token.clone());
                self.pending.is_open = true;
            }
            Kind::Comment | Kind::Text if self.pending.is_open => {
                self.pending.others.push(token.clone());
            }
            Kind::Comment | Kind::Text => self.cite(token, self.place()),
            Kind::Punct if token.text == "#" => return self.attribute(rest),
            Kind::Punct => self.punct(&token.text),
            Kind::Word => return self.word(rest),
        }
        1
    }

    fn punct(&mut self, punct: &str) {
        self.flush();
        match punct {
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                if self.test_module == Some(self.depth) {
                    self.test_module = None;
                }
            }
            _ => {}
        }
    }

    fn word(&mut self, rest: &[Token]) -> usize {
        match rest[0].text.as_str() {
            // What may stand between an attribute and `fn`.
            "async" | "unsafe" | "const" | "extern" => {}
            "pub" => {
                if rest.get(1).is_some_and(|it| it.is_punct("(")) {
                    return rest.iter().position(|it| it.is_punct(")")).map_or(1, |it| it + 1);
                }
            }
            "fn" => self.function(),
            "mod" if self.pending.attributes.is_cfg_test => self.test_module(rest),
            _ => self.flush(),
        }
        1
    }

    /// Notes an outer or inner attribute; returns its length in tokens.
    fn attribute(&mut self, rest: &[Token]) -> usize {
        let is_inner = rest.get(1).is_some_and(|it| it.is_punct("!"));
        let open = if is_inner { 2 } else { 1 };
        if !rest.get(open).is_some_and(|it| it.is_punct("[")) {
            self.flush();
            return 1;
        }
        let length = attribute_length(rest);
        let body = &rest[open + 1..length];
        let attributes = attributes(body);
        if is_inner {
            self.flush();
            self.is_test_file |= attributes.is_cfg_test && self.depth == 0;
        } else {
            let pending = &mut self.pending;
            pending.is_open = true;
            pending.attributes.is_test |= attributes.is_test;
            pending.attributes.is_ignored |= attributes.is_ignored;
            pending.attributes.is_cfg_test |= attributes.is_cfg_test;
        }
        for token in body.iter().filter(|it| matches!(it.kind, Kind::Comment | Kind::Text)) {
            if is_inner {
                self.cite(token, self.place());
            } else {
                self.pending.others.push(token.clone());
            }
        }
        length
    }

    /// At `fn`: only here is it known whether the docs before it are those of a test.
    fn function(&mut self) {
        let Attributes { is_test, is_ignored, .. } = self.pending.attributes;
        if is_test {
            self.close(if is_ignored { Place::Elsewhere } else { Place::Test }, Place::Elsewhere);
        } else {
            self.flush();
        }
    }

    /// At `mod` after `#[cfg(test)]`.
    fn test_module(&mut self, rest: &[Token]) {
        self.close(Place::Elsewhere, Place::Elsewhere);
        if let [_, name, end, ..] = rest {
            if end.is_punct(";") {
                self.scan.test_modules.push(name.text.clone());
            } else if end.is_punct("{") && self.test_module.is_none() {
                self.test_module = Some(self.depth);
            }
        }
    }

    fn place(&self) -> Place {
        let is_test_code = self.is_test_file || self.test_module.is_some();
        if is_test_code { Place::Elsewhere } else { Place::Code }
    }

    /// Ends the pending item, which is no test.
    fn flush(&mut self) {
        self.close(self.place(), self.place());
    }

    fn close(&mut self, docs: Place, others: Place) {
        let pending = std::mem::take(&mut self.pending);
        self.is_reference = false;
        for token in &pending.docs {
            self.cite(token, docs);
        }
        self.is_reference = false;
        for token in &pending.others {
            self.cite(token, others);
        }
    }

    fn cite(&mut self, token: &Token, place: Place) {
        let mut end = 0;
        for (offset, id) in id::find(&token.text) {
            let is_reference = id::leads_to_reference(&token.text[end..offset], self.is_reference);
            let line = token.line + token.text[..offset].matches('\n').count();
            let place = if is_reference { Place::Reference } else { place };
            self.scan.citations.push(Citation { id, line, place });
            self.is_reference = is_reference;
            end = offset + id.to_string().len();
        }
        self.is_reference = id::leads_to_reference(&token.text[end..], self.is_reference);
    }
}

/// The number of tokens up to and with the bracket that closes the attribute.
pub(crate) fn attribute_length(rest: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in rest.iter().enumerate() {
        if token.is_punct("[") {
            depth += 1;
        } else if token.is_punct("]") {
            depth -= 1;
            if depth == 0 {
                return index + 1;
            }
        }
    }
    rest.len()
}

/// What the tokens of an attribute, without its opening, say about tests.
pub(crate) fn attributes(body: &[Token]) -> Attributes {
    let path_end = body.iter().position(|it| it.kind != Kind::Word && !it.is_punct(":"));
    let (path, arguments) = body.split_at(path_end.unwrap_or(body.len()));
    let Some(name) = path.last() else { return Attributes::default() };
    let has = |word: &str| arguments.iter().any(|it| it.is_word(word));
    Attributes {
        is_test: name.is_word("test"),
        is_ignored: name.is_word("ignore"),
        is_cfg_test: name.is_word("cfg") && has("test") && !has("not") && !has("any"),
    }
}
