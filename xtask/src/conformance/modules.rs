//! The modules of one source file: what each brings into scope, which paths its code names, and for
//! what it has `impl`s. Test code is left out. Nothing here knows of other files.

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

/// One module: a file without its inline modules, or one of those.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) imports: Vec<Import>,
    /// The names of its `pub mod`, with any visibility.
    pub(crate) public_modules: Vec<String>,
    /// The names of its `mod` with a body.
    pub(crate) inline_modules: Vec<String>,
    /// The paths in its code, single words among them.
    pub(crate) paths: BTreeSet<Path>,
    /// The types and traits that it defines.
    pub(crate) types: BTreeSet<String>,
    /// The paths in the header of each `impl`. An empty header stands for what could implement
    /// anything: a macro call among the items, or a symbol that the linker sees.
    pub(crate) impls: Vec<Vec<Path>>,
}

/// The modules of a file by their path below it; the file itself has the empty path.
pub(crate) fn modules(source: &str) -> BTreeMap<Path, Module> {
    let code = without_tests(tokens(source));
    let mut reader = Reader::default();
    reader.modules.entry(Path::new()).or_default();
    let mut at = 0;
    while at < code.len() {
        at += reader.step(at.checked_sub(1).map(|it| &code[it]), &code[at..]);
    }
    reader.modules
}

#[derive(Default)]
struct Reader {
    modules: BTreeMap<Path, Module>,
    /// The inline modules around the present token, and the depth outside each.
    inside: Vec<(String, usize)>,
    depth: usize,
    is_public: bool,
}

impl Reader {
    /// Reads the first token of `rest`, or the few that belong together; returns how many.
    fn step(&mut self, before: Option<&Token>, rest: &[Token]) -> usize {
        let is_public = std::mem::take(&mut self.is_public);
        let next = rest.get(1);
        let begins_item = before.is_none_or(|it| {
            it.is_word("unsafe") || (it.kind == Kind::Punct && "{};]".contains(&it.text))
        });
        match (rest[0].kind, rest[0].text.as_str()) {
            (Kind::Punct, "{") => self.depth += 1,
            (Kind::Punct, "}") => {
                self.depth = self.depth.saturating_sub(1);
                self.inside.pop_if(|(_, depth)| *depth == self.depth);
            }
            (Kind::Punct, "#") if next.is_some_and(|it| it.is_punct("[")) => self.attribute(rest),
            (Kind::Word, "pub") => {
                self.is_public = true;
                if next.is_some_and(|it| it.is_punct("(")) {
                    return rest.iter().position(|it| it.is_punct(")")).map_or(1, |it| it + 1);
                }
            }
            (Kind::Word, "use") if !next.is_some_and(|it| it.is_punct("<")) => {
                return 1 + read_use(&rest[1..], &[], is_public, &mut self.module().imports);
            }
            (Kind::Word, "mod") => self.declaration(rest, is_public),
            (Kind::Word, "struct" | "enum" | "union" | "trait" | "type") => {
                self.module().types.extend(next.map(|it| it.text.clone()));
            }
            (Kind::Word, "impl") if begins_item => {
                let end = rest.iter().position(|it| it.is_punct("{")).unwrap_or(rest.len());
                self.module().impls.push(paths(&rest[1..end]));
            }
            (Kind::Word, word) => {
                let path = path(rest);
                let length = path_length(&path);
                let is_macro = begins_item && rest.get(length).is_some_and(|it| it.is_punct("!"));
                let level = self.inside.last().map_or(0, |(_, depth)| depth + 1);
                if is_macro && word != "macro_rules" && self.depth == level {
                    self.module().impls.push(Vec::new());
                }
                self.module().paths.insert(path);
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

    fn declaration(&mut self, rest: &[Token], is_public: bool) {
        let [_, name, open, ..] = rest else { return };
        if is_public {
            self.module().public_modules.push(name.text.clone());
        }
        if open.is_punct("{") {
            self.module().inline_modules.push(name.text.clone());
            self.inside.push((name.text.clone(), self.depth));
            self.module();
        }
    }

    /// Some derives take a path in a string: `#[serde(with = "wire")]`.
    fn attribute(&mut self, rest: &[Token]) {
        for token in &rest[..attribute_length(rest)] {
            let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
            if token.kind == Kind::Text && token.text.chars().all(is_path) {
                let mut path: Path = token.text.split("::").map(str::to_owned).collect();
                if path.len() == 1 {
                    path.insert(0, "self".to_owned());
                }
                self.module().paths.insert(path);
            } else if token.is_word("no_mangle") || token.is_word("global_allocator") {
                self.module().impls.push(Vec::new());
            }
        }
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
