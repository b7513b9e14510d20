//! Rust source as tokens, just fine enough to tell comments and strings from code. It keeps the
//! text of comments and strings, which the compiler's own view would drop or cook.

/// What a token is. Numbers are words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `///` or `/** */`: documents the item that follows.
    Doc,
    /// Any other comment, `//!` among them.
    Comment,
    Text,
    Word,
    Punct,
}

/// One token, with the line on which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(crate) fn is_punct(&self, punct: &str) -> bool {
        self.kind == Kind::Punct && self.text == punct
    }
}

/// Splits a source into tokens. It never fails: what is not Rust becomes some token or other.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1, tokens: Vec::new() };
    while lexer.step() {}
    lexer.tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if first.is_whitespace() {
            self.take(first.len_utf8());
        } else if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            let is_doc = self.rest.starts_with("///") && !self.rest.starts_with("////");
            self.push(if is_doc { Kind::Doc } else { Kind::Comment }, length);
        } else if self.rest.starts_with("/*") {
            let is_doc = self.rest.starts_with("/**")
                && !self.rest.starts_with("/***")
                && !self.rest.starts_with("/**/");
            let length = block_comment_length(self.rest);
            self.push(if is_doc { Kind::Doc } else { Kind::Comment }, length);
        } else if first == '"' {
            self.string();
        } else if first == '\'' {
            self.quote();
        } else if first.is_alphanumeric() || first == '_' {
            self.word();
        } else {
            self.push(Kind::Punct, first.len_utf8());
        }
        true
    }

    /// A word, or the string or character that it introduces: `r"`, `br#"`, `b"`, `c"`, `b'`.
    fn word(&mut self) {
        let length = word_length(self.rest);
        let (word, after) = self.rest.split_at(length);
        let hashes = after.len() - after.trim_start_matches('#').len();
        if matches!(word, "r" | "br" | "cr") && after[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = &after[hashes + 1..];
            let end = body.find(&close).map_or(body.len(), |it| it + close.len());
            self.push(Kind::Text, length + hashes + 1 + end);
        } else if word == "r" && hashes == 1 {
            // A raw identifier is no keyword, so it keeps its prefix.
            self.push(Kind::Word, length + 1 + word_length(&after[1..]));
        } else if matches!(word, "b" | "c") && after.starts_with('"') {
            self.take(length);
            self.string();
        } else if word == "b" && after.starts_with('\'') {
            self.take(length);
            self.quote();
        } else {
            self.push(Kind::Word, length);
        }
    }

    /// A string with escapes. Each escape becomes a space, so that the `n` of a line break is
    /// not taken for the beginning of a word.
    fn string(&mut self) {
        let line = self.line;
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        let mut length = self.rest.len();
        while let Some((index, it)) = chars.next() {
            match it {
                '"' => {
                    length = index + 1;
                    break;
                }
                '\\' => text.push(if matches!(chars.next(), Some((_, '\n'))) { '\n' } else { ' ' }),
                it => text.push(it),
            }
        }
        self.take(length);
        self.tokens.push(Token { kind: Kind::Text, text, line });
    }

    /// A character, which is skipped, or the quote of a lifetime.
    fn quote(&mut self) {
        let mut chars = self.rest.char_indices().skip(1);
        let length = match (chars.next(), chars.next()) {
            (Some((_, '\\')), Some((escaped, it))) => {
                let after = escaped + it.len_utf8();
                self.rest[after..].find('\'').map_or(self.rest.len(), |it| after + it + 1)
            }
            (Some(_), Some((close, '\''))) => close + 1,
            _ => 1,
        };
        self.take(length);
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let line = self.line;
        let text = self.take(length).to_owned();
        self.tokens.push(Token { kind, text, line });
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }
}

fn word_length(text: &str) -> usize {
    text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len())
}

/// Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}
