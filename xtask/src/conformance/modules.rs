//! The modules of one source file: what each brings into scope, its items, and which paths their code
//! names. Test code is left out. Nothing here knows of other files.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Kind, Token, tokens};
use super::scan::{attribute_length, attributes};

/// The segments of a path, as written: `crate::tree::Tree` has three.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings into scope.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// What it is called in its module; `*` for all names of the path.
    pub(crate) name: String,
    /// `pub use` with any visibility: others may name it through this module.
    pub(crate) is_public: bool,
}

/// When the code of an item can run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// When its module is reached: a macro, an alias, or no item at all.
    #[default]
    Always,
    /// When somebody names it.
    Named,
    /// An `impl`: when everything in its header is reached. A macro call could implement anything,
    /// and a symbol for the linker needs no name: their header is empty.
    For(Vec<Path>),
}

/// An item of a module, with the comments and attributes before it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// Empty for an `impl`, and for a macro call.
    pub(crate) name: String,
    pub(crate) usage: Use,
    /// The paths in its code, single words among them.
    pub(crate) paths: BTreeSet<Path>,
    /// From behind the item before it to its own last line.
    pub(crate) lines: (usize, usize),
}

/// One module: a file without its inline modules, or one of those.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) imports: Vec<Import>,
    /// The strings of attributes that may be paths, such as `#[serde(with = "wire")]`: a derive can
    /// use everything there.
    pub(crate) derived: BTreeSet<Path>,
    /// The names of its `pub mod`, with any visibility.
    pub(crate) public_modules: Vec<String>,
    pub(crate) items: Vec<Item>,
}

/// The modules of a file by their path below it; the file itself has the empty path.
pub(crate) fn modules(source: &str) -> BTreeMap<Path, Module> {
    let code = without_tests(tokens(source));
    let mut reader = Reader::default();
    // What a file says of itself stands before its first item and is not of it.
    reader.close(code.first().map_or(0, |it| it.line - 1));
    let mut at = 0;
    while at < code.len() {
        at += reader.step(&code[at..]);
    }
    reader.close(usize::MAX);
    reader.modules
}

#[derive(Default)]
struct Reader {
    modules: BTreeMap<Path, Module>,
    /// The inline modules around the present token, and the depth outside each.
    inside: Vec<(String, usize)>,
    /// How many brackets of any kind are open.
    depth: usize,
    item: Item,
    /// It is settled what the item is.
    is_known: bool,
    is_public: bool,
}

impl Reader {
    /// Reads the first token of `rest`, or the few that belong together; returns how many.
    fn step(&mut self, rest: &[Token]) -> usize {
        let is_public = std::mem::take(&mut self.is_public);
        let is_top = self.depth == self.inside.last().map_or(0, |(_, depth)| depth + 1);
        let next = |text| rest.get(1).is_some_and(|it| it.text == text);
        match (rest[0].kind, rest[0].text.as_str()) {
            (Kind::Punct, "{" | "(" | "[") => self.depth += 1,
            (Kind::Punct, ")" | "]") => self.depth = self.depth.saturating_sub(1),
            (Kind::Punct, "}") => self.close_brace(rest[0].line),
            (Kind::Punct, ";") if is_top => self.close(rest[0].line),
            (Kind::Punct, "#") if next("[") => self.attribute(rest),
            // What a format string has in braces is code.
            (Kind::Text, text) => {
                let parts = text.split('{').skip(1).filter_map(|it| it.split('}').next());
                self.item.paths.extend(parts.flat_map(|it| paths(&tokens(it))));
            }
            (Kind::Word, "pub") => {
                self.is_public = true;
                if next("(") {
                    return rest.iter().position(|it| it.is_punct(")")).map_or(1, |it| it + 1);
                }
            }
            (Kind::Word, "use") if !next("<") => {
                return 1 + read_use(&rest[1..], &[], is_public, &mut self.module().imports);
            }
            (Kind::Word, "mod") if is_top => return self.declaration(rest, is_public),
            (Kind::Word, word) => {
                let path = path(rest);
                let length = path_length(&path);
                if is_top && !self.is_known {
                    let has_mark = rest.get(length).is_some_and(|it| it.is_punct("!"));
                    let is_call = has_mark && word != "macro_rules";
                    self.keyword(if is_call { "!" } else { word }, &rest[1..]);
                }
                self.item.paths.insert(path);
                return length;
            }
            _ => {}
        }
        1
    }

    fn module(&mut self) -> &mut Module {
        let path = self.inside.iter().map(|(name, _)| name.clone()).collect();
        self.modules.entry(path).or_default()
    }

    /// The item ends on this line, and the next one begins.
    fn close(&mut self, line: usize) {
        let next = Item { lines: (line.saturating_add(1), 0), ..Item::default() };
        let mut item = std::mem::replace(&mut self.item, next);
        item.lines.1 = line;
        self.is_known = false;
        self.module().items.push(item);
    }

    fn close_brace(&mut self, line: usize) {
        self.depth = self.depth.saturating_sub(1);
        let level = self.inside.last().map_or(0, |(_, depth)| depth + 1);
        if self.depth <= level {
            self.close(line);
        }
        self.inside.pop_if(|(_, depth)| *depth == self.depth);
    }

    fn declaration(&mut self, rest: &[Token], is_public: bool) -> usize {
        let [_, name, open, ..] = rest else { return 1 };
        if is_public {
            self.module().public_modules.push(name.text.clone());
        }
        self.close(open.line);
        if open.is_punct("{") {
            self.inside.push((name.text.clone(), self.depth));
            self.depth += 1;
        }
        3
    }

    fn attribute(&mut self, rest: &[Token]) {
        for token in &rest[..attribute_length(rest)] {
            let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
            let is_text = token.kind == Kind::Text && !token.text.is_empty();
            if is_text && token.text.chars().all(is_path) {
                let path = token.text.split("::").map(str::to_owned).collect();
                self.module().derived.insert(path);
            }
            if token.is_word("no_mangle") || token.is_word("global_allocator") {
                self.item.usage = Use::For(Vec::new());
                self.is_known = true;
            }
        }
    }

    /// Notes what the item is if this word says so; `!` stands for a macro call. An alias is always
    /// used: who uses what it stands for need not name it.
    fn keyword(&mut self, word: &str, rest: &[Token]) {
        let mut words = rest.iter().filter(|it| it.kind == Kind::Word && it.text != "mut");
        let name = words.next().map_or("", |it| it.text.as_str());
        let header = || rest.split(|it| it.is_punct("{")).next().unwrap_or(rest);
        let (usage, name) = match (word, name) {
            ("!", _) => (Use::For(Vec::new()), ""),
            ("impl", _) => (Use::For(paths(header())), ""),
            ("const", "fn" | "async" | "unsafe" | "extern") => return,
            ("type" | "macro_rules", _) | ("const", "_") => (Use::Always, name),
            ("fn" | "struct" | "enum" | "union" | "trait" | "const" | "static", _) => {
                (Use::Named, name)
            }
            _ => return,
        };
        self.item.usage = usage;
        self.item.name = name.to_owned();
        self.is_known = true;
    }
}

/// The path that begins with the word at the beginning of `rest`.
fn path(mut rest: &[Token]) -> Path {
    let mut path = vec![rest[0].text.clone()];
    while let [_, first, second, word, ..] = rest
        && first.is_punct(":")
        && second.is_punct(":")
        && word.kind == Kind::Word
    {
        path.push(word.text.clone());
        rest = &rest[3..];
    }
    path
}

/// The number of tokens: words with two colons between them.
fn path_length(path: &Path) -> usize {
    3 * path.len() - 2
}

fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].kind == Kind::Word {
            paths.push(path(&tokens[at..]));
            at += path_length(&paths[paths.len() - 1]);
        } else {
            at += 1;
        }
    }
    paths
}

/// Reads one tree of a `use`; returns its number of tokens.
fn read_use(
    rest: &[Token],
    prefix: &[String],
    is_public: bool,
    imports: &mut Vec<Import>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut at = 0;
    while let Some(token) = rest.get(at) {
        match token.text.as_str() {
            "{" => {
                at += 1;
                while rest.get(at).is_some_and(|it| !it.is_punct("}")) {
                    at += read_use(&rest[at..], &path, is_public, imports).max(1);
                }
                return at + 1;
            }
            // The sign is that of `$crate` in a macro; `a::{self}` is `a`.
            ":" | "$" => {}
            "self" if !path.is_empty() => name = path.last().cloned(),
            "*" => name = Some("*".to_owned()),
            "as" => {
                at += 1;
                name = rest.get(at).map(|it| it.text.clone());
            }
            _ if token.kind == Kind::Word => {
                name = Some(token.text.clone());
                path.push(token.text.clone());
            }
            _ => break,
        }
        at += 1;
    }
    imports.extend(name.map(|name| Import { path, name, is_public }));
    at
}

/// The tokens that are code outside tests.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let code: Vec<Token> =
        tokens.into_iter().filter(|it| !matches!(it.kind, Kind::Doc | Kind::Comment)).collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = code.get(at) {
        let rest = &code[at..];
        if token.is_punct("#") && rest.get(1).is_some_and(|it| it.is_punct("[")) {
            let length = attribute_length(rest);
            let attributes = attributes(&rest[2..length]);
            if attributes.is_cfg_test || attributes.is_test {
                at += length + item_length(&rest[length..]);
                continue;
            }
        }
        kept.push(token.clone());
        at += 1;
    }
    kept
}

/// The number of tokens up to where an item, a field or a statement can end. Where that is unclear
/// it ends early: then too much counts as code, never too little.
fn item_length(rest: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in rest.iter().enumerate().filter(|(_, it)| it.kind == Kind::Punct) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => return index,
            ")" | "]" => depth -= 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    let is_ended = rest.get(index + 1).is_some_and(|it| it.is_punct(";"));
                    return index + 1 + usize::from(is_ended);
                }
            }
            "," | ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    rest.len()
}
