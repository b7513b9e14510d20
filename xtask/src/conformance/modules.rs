//! The modules of source files: what each brings into scope, its items, and which paths their code
//! names. Test code is left out. Nothing here knows what is reached.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{UseName, UseRename, UseTree, Visibility};

use super::tokens::{Kind, Place, Token, Tokens};

/// The segments of a path, as written: `crate::tree::Tree` has three.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings into scope.
pub(crate) struct Import {
    pub(crate) path: Path,
    /// What it is called in its module; `*` for all names of the path.
    pub(crate) name: String,
    /// `pub use` with any visibility: others may name it through this module.
    pub(crate) is_public: bool,
}

/// When the code of an item can run.
#[derive(Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// When its module is reached: a macro, an alias, or no item at all. An alias is always used: who
    /// uses what it stands for need not name it.
    #[default]
    Always,
    /// When somebody names it.
    Named,
    /// An `impl`: when everything in its header is reached. A macro call could implement anything,
    /// and a symbol for the linker needs no name: their header is empty.
    For(BTreeSet<Path>),
}

/// An item of a module, with the comments and attributes before it.
#[derive(Default)]
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
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) imports: Vec<Import>,
    /// The strings of attributes that may be paths, such as `#[serde(with = "wire")]`: a derive can
    /// use everything there.
    pub(crate) derived: BTreeSet<Path>,
    /// Its `pub mod`, with any visibility.
    pub(crate) public_modules: Vec<Path>,
    pub(crate) items: Vec<Item>,
}

/// The modules of all sources.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) by_path: BTreeMap<Path, Module>,
    /// Those that are declared for tests only.
    tests: BTreeSet<Path>,
}

impl Modules {
    /// Adds the modules of one file.
    pub(crate) fn add(&mut self, file: &str, tokens: &Tokens<'_>) -> syn::Result<()> {
        let Some(path) = module_of(file) else { return Ok(()) };
        let syntax = syn::parse_file(tokens.source)?;
        let mut reader = Reader { modules: self, file, tokens, line: 0 };
        // What a file says of itself stands before its first item and is not of it.
        let first = syntax.items.first().map_or(1, |it| it.span().start().line);
        reader.push(&path, Item::default(), first - 1);
        reader.read(&path, &syntax.items);
        reader.push(&path, Item::default(), usize::MAX);
        Ok(())
    }

    /// Whether a file is source of a crate, and not of its tests.
    pub(crate) fn is_code(&self, file: &str) -> bool {
        module_of(file).is_some_and(|it| !self.is_test(&it))
    }

    pub(crate) fn is_test(&self, path: &[String]) -> bool {
        (1..=path.len()).any(|it| self.tests.contains(&path[..it]))
    }
}

/// `crates/http-peer/src/a/mod.rs` is `indelible_http_peer::a`.
pub(crate) fn module_of(file: &str) -> Option<Path> {
    let (folder, file) = file.split_once("/src/")?;
    let folder = folder.trim_start_matches("crates/").replace('-', "_");
    let mut module = vec![format!("indelible_{folder}")];
    module.extend(file.strip_suffix(".rs")?.split('/').map(str::to_owned));
    let is_root = module.len() == 2 && matches!(module[1].as_str(), "lib" | "main");
    if is_root || module[module.len() - 1] == "mod" {
        module.pop();
    }
    Some(module)
}

struct Reader<'a> {
    modules: &'a mut Modules,
    file: &'a str,
    tokens: &'a Tokens<'a>,
    /// Where the item before ended.
    line: usize,
}

impl Reader<'_> {
    fn read(&mut self, path: &Path, items: &[syn::Item]) {
        for item in items {
            let tokens = self.tokens.within(&item.span().byte_range());
            let is_test = tokens.first().is_some_and(|it| it.place != Place::Code);
            match item {
                syn::Item::Mod(it) => self.read_module(path, it, is_test),
                _ if is_test => {}
                _ => self.read_item(path, item, tokens),
            }
        }
    }

    fn read_module(&mut self, path: &Path, module: &syn::ItemMod, is_test: bool) {
        let inner = [&path[..], &[module.ident.to_string()]].concat();
        if is_test {
            self.modules.tests.insert(inner);
            return;
        }
        if is_public(&module.vis) {
            self.module(path).public_modules.push(inner.clone());
        }
        let Some((brace, items)) = &module.content else {
            return self.push(path, Item::default(), module.span().end().line);
        };
        self.push(path, Item::default(), brace.span.open().end().line);
        self.read(&inner, items);
        self.push(&inner, Item::default(), brace.span.close().end().line);
    }

    fn read_item(&mut self, path: &Path, item: &syn::Item, tokens: &[Token]) {
        let source = self.tokens;
        let (name, mut usage) = match item {
            syn::Item::Fn(it) => (Some(&it.sig.ident), Use::Named),
            syn::Item::Struct(it) => (Some(&it.ident), Use::Named),
            syn::Item::Enum(it) => (Some(&it.ident), Use::Named),
            syn::Item::Union(it) => (Some(&it.ident), Use::Named),
            syn::Item::Trait(it) => (Some(&it.ident), Use::Named),
            syn::Item::Static(it) => (Some(&it.ident), Use::Named),
            syn::Item::Const(it) if it.ident != "_" => (Some(&it.ident), Use::Named),
            syn::Item::Type(it) => (Some(&it.ident), Use::Always),
            syn::Item::Macro(it) if it.ident.is_some() => (it.ident.as_ref(), Use::Always),
            syn::Item::Macro(_) => (None, Use::For(BTreeSet::new())),
            syn::Item::Impl(it) => {
                let start = it.impl_token.span.byte_range().start;
                let end = it.brace_token.span.open().byte_range().start;
                (None, Use::For(self.paths(source.within(&(start..end)))))
            }
            _ => (None, Use::Always),
        };
        let attributes: Vec<&Token> = tokens.iter().filter(|it| it.is_attribute).collect();
        if attributes.iter().any(|it| matches!(source.text(it), "no_mangle" | "global_allocator")) {
            usage = Use::For(BTreeSet::new());
        }
        let texts = attributes.iter().filter(|it| it.kind == Kind::Text);
        let texts = texts.map(|it| source.text(it).trim_matches('"'));
        let derived = texts.filter(|it| it.chars().all(|it| is_word(it) || it == ':'));
        let is_use = matches!(item, syn::Item::Use(_));
        let paths = if is_use { BTreeSet::new() } else { self.paths(tokens) };
        let name = name.map(ToString::to_string).unwrap_or_default();
        self.push(path, Item { name, usage, paths, ..Item::default() }, item.span().end().line);
        let module = self.module(path);
        module.derived.extend(derived.filter_map(path_of));
        module.visit_item(item);
    }

    fn module(&mut self, path: &Path) -> &mut Module {
        self.modules.by_path.entry(path.clone()).or_default()
    }

    /// Adds an item that ends on this line.
    fn push(&mut self, path: &Path, item: Item, line: usize) {
        let lines = (self.line.saturating_add(1), line);
        self.line = line;
        let file = self.file.to_owned();
        let module = self.module(path);
        module.file = file;
        module.items.push(Item { lines, ..item });
    }

    /// The paths that code names.
    fn paths(&self, tokens: &[Token]) -> BTreeSet<Path> {
        let mut code = String::new();
        for token in tokens.iter().filter(|it| it.place == Place::Code) {
            let text = self.tokens.text(token);
            code.push(' ');
            match token.kind {
                Kind::Doc => {}
                // What a format string has in braces is code.
                Kind::Text => {
                    let parts = text.split('{').skip(1).filter_map(|it| it.split('}').next());
                    let words = parts.flat_map(|it| it.split(|it| !is_word(it)));
                    code.extend(words.flat_map(|it| [it, " "]));
                }
                Kind::Word | Kind::Other => code.push_str(text),
            }
        }
        code.replace(" : : ", "::").split_whitespace().filter_map(path_of).collect()
    }
}

/// Imports can stand in functions too.
impl Visit<'_> for Module {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.import(&item.tree, Vec::new(), is_public(&item.vis));
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, mut path: Path, is_public: bool) {
        match tree {
            UseTree::Path(it) => {
                path.push(it.ident.to_string());
                return self.import(&it.tree, path, is_public);
            }
            UseTree::Group(it) => {
                return it.items.iter().for_each(|it| self.import(it, path.clone(), is_public));
            }
            // `a::{self}` is `a`.
            UseTree::Name(UseName { ident }) | UseTree::Rename(UseRename { ident, .. })
                if ident != "self" =>
            {
                path.push(ident.to_string());
            }
            _ => {}
        }
        let name = match tree {
            UseTree::Glob(_) => "*".to_owned(),
            UseTree::Rename(it) => it.rename.to_string(),
            _ => path.last().cloned().unwrap_or_default(),
        };
        self.imports.push(Import { path, name, is_public });
    }
}

fn is_public(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

/// The words of a path. Other signs at its ends are not of it: `a::{`, `>::b`.
fn path_of(text: &str) -> Option<Path> {
    let is_name = |it: &&str| it.starts_with(|it: char| it.is_alphabetic() || it == '_');
    let path: Path = text.split("::").filter(is_name).map(str::to_owned).collect();
    (!path.is_empty()).then_some(path)
}

fn is_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}
