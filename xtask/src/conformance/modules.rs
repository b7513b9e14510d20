//! The modules of source files: what each brings into scope, its items, and which paths their code
//! names. Test code is left out. Nothing here knows what is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::Context;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{UseTree, Visibility};

use super::source::{Place, Source, Token};

/// The segments of a path, as written: `crate::tree::Tree` has three.
pub(crate) type Path = Vec<String>;

/// One name that a `use` brings into scope, or that a `pub mod` offers.
pub(crate) struct Import {
    pub(crate) path: Path,
    /// What it is called in its module; `*` for all names of the path.
    pub(crate) name: String,
    /// `pub` with any visibility: others may name it through this module.
    pub(crate) is_public: bool,
}

/// When the code of an item can run.
#[derive(Default, PartialEq, Eq)]
pub(crate) enum Use {
    /// When its module is reached: a macro, an alias, or no item at all. An alias always counts as
    /// used: code can use its target without naming the alias.
    #[default]
    Always,
    /// When reached code names it.
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
    /// From the line after the item before it to its own last line.
    pub(crate) lines: Range<usize>,
}

/// One module: a file without its inline modules, or one of those.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    /// It is declared for tests only.
    is_test: bool,
    pub(crate) imports: Vec<Import>,
    /// The strings of attributes that may be paths, such as `#[serde(with = "wire")]`: a derive can
    /// use everything there.
    pub(crate) derived: BTreeSet<Path>,
    pub(crate) items: Vec<Item>,
}

pub(crate) type Modules = BTreeMap<Path, Module>;

/// The modules of all sources but those that are declared for tests, and what is in them.
pub(crate) fn modules(sources: &[Source<'_>]) -> anyhow::Result<Modules> {
    let mut modules = Modules::new();
    for source in sources {
        let Some(path) = module_of(source.file) else { continue };
        let syntax = syn::parse_file(source.text);
        let items = syntax.with_context(|| format!("cannot parse {}", source.file))?.items;
        let mut reader = Reader { modules: &mut modules, source, path, line: 1 };
        // The file's own comments stand before its first item and do not belong to it.
        let first = items.first().map_or(1, |it| it.span().start().line);
        reader.push(Item::default(), first - 1);
        reader.read(&items);
        reader.push(Item::default(), usize::MAX);
    }
    let tests: Vec<_> = modules.extract_if(.., |_, it| it.is_test).collect();
    modules.retain(|path, _| !tests.iter().any(|(it, _)| path.starts_with(it)));
    Ok(modules)
}

/// `crates/http-peer/src/a/mod.rs` is `indelible_http_peer::a`.
pub(crate) fn module_of(file: &str) -> Option<Path> {
    let (folder, file) = file.strip_suffix(".rs")?.split_once("/src/")?;
    let folder = folder.trim_start_matches("crates/").replace('-', "_");
    let mut module = vec![format!("indelible_{folder}")];
    module.extend(file.split('/').map(str::to_owned));
    module.pop_if(|it| ["lib", "main", "mod"].contains(&it.as_str()));
    Some(module)
}

struct Reader<'a> {
    modules: &'a mut Modules,
    source: &'a Source<'a>,
    /// The module that is being read.
    path: Path,
    /// The line after the last item.
    line: usize,
}

impl Reader<'_> {
    fn read(&mut self, items: &[syn::Item]) {
        for item in items {
            let tokens = self.source.within(&item.span().byte_range());
            let is_test = tokens.first().is_some_and(|it| it.place != Place::Code);
            match item {
                syn::Item::Mod(it) => self.read_module(it, is_test),
                _ if is_test => {}
                _ => self.read_item(item, tokens),
            }
        }
    }

    fn read_module(&mut self, module: &syn::ItemMod, is_test: bool) {
        let name = module.ident.to_string();
        if !matches!(module.vis, Visibility::Inherited) {
            let path = vec!["self".to_owned(), name.clone()];
            self.module().imports.push(Import { path, name: name.clone(), is_public: true });
        }
        self.push(Item::default(), module.ident.span().end().line);
        self.path.push(name);
        if is_test {
            self.module().is_test = true;
        } else if let Some((_, items)) = &module.content {
            self.read(items);
            self.push(Item::default(), module.span().end().line);
        }
        self.path.pop();
    }

    fn read_item(&mut self, item: &syn::Item, tokens: &[Token<'_>]) {
        let is_linked = |it: &Token<'_>| matches!(it.text, "no_mangle" | "global_allocator");
        let header = tokens.split(|it| it.text == "{").next().unwrap_or(tokens);
        let (name, usage) = match item {
            _ if tokens.iter().any(is_linked) => (None, Use::For(BTreeSet::new())),
            syn::Item::Fn(it) => (Some(&it.sig.ident), Use::Named),
            syn::Item::Struct(it) => (Some(&it.ident), Use::Named),
            syn::Item::Enum(it) => (Some(&it.ident), Use::Named),
            syn::Item::Trait(it) => (Some(&it.ident), Use::Named),
            syn::Item::Static(it) => (Some(&it.ident), Use::Named),
            syn::Item::Const(it) if it.ident != "_" => (Some(&it.ident), Use::Named),
            syn::Item::Type(it) => (Some(&it.ident), Use::Always),
            syn::Item::Macro(it) if it.ident.is_some() => (it.ident.as_ref(), Use::Always),
            syn::Item::Macro(_) => (None, Use::For(BTreeSet::new())),
            syn::Item::Impl(_) => (None, Use::For(paths(header))),
            _ => (None, Use::Always),
        };
        let name = name.map(ToString::to_string).unwrap_or_default();
        let code = if let syn::Item::Use(_) = item { &[] } else { tokens };
        let end = item.span().end();
        self.push(Item { name, usage, paths: paths(code), ..Item::default() }, end.line);
        self.visit_item(item);
    }

    fn module(&mut self) -> &mut Module {
        let new = || Module { file: self.source.file.to_owned(), ..Module::default() };
        self.modules.entry(self.path.clone()).or_insert_with(new)
    }

    /// Adds an item that ends on this line.
    fn push(&mut self, item: Item, line: usize) {
        let lines = self.line..line.saturating_add(1);
        self.line = lines.end;
        self.module().items.push(Item { lines, ..item });
    }

    fn import(&mut self, tree: &UseTree, mut path: Path, is_public: bool) {
        let (ident, name) = match tree {
            UseTree::Path(it) => {
                path.push(it.ident.to_string());
                return self.import(&it.tree, path, is_public);
            }
            UseTree::Group(it) => {
                return it.items.iter().for_each(|it| self.import(it, path.clone(), is_public));
            }
            UseTree::Glob(_) => (None, Some("*".to_owned())),
            UseTree::Name(it) => (Some(&it.ident), None),
            UseTree::Rename(it) => (Some(&it.ident), Some(it.rename.to_string())),
        };
        // `a::{self}` is `a`.
        path.extend(ident.map(ToString::to_string).filter(|it| it != "self"));
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        self.module().imports.push(Import { path, name, is_public });
    }
}

/// Imports can stand in functions, and attributes on fields.
impl Visit<'_> for Reader<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.import(&item.tree, Vec::new(), !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_meta_list(&mut self, list: &syn::MetaList) {
        let text = list.tokens.to_string();
        let strings = text.split('"').skip(1).step_by(2).filter(|it| !it.contains(' '));
        self.module().derived.extend(strings.filter_map(path_of));
    }
}

/// The paths that code names.
fn paths(tokens: &[Token<'_>]) -> BTreeSet<Path> {
    let mut code = String::new();
    for token in tokens.iter().filter(|it| it.place == Place::Code && !it.is_doc()) {
        code.push(' ');
        if token.is_string() {
            // What a format string has in braces is code.
            let parts = token.text.split('{').skip(1).filter_map(|it| it.split('}').next());
            let words =
                parts.flat_map(|it| it.split(|it: char| !it.is_alphanumeric() && it != '_'));
            code.extend(words.flat_map(|it| [it, " "]));
        } else {
            code.push_str(token.text);
        }
    }
    code.replace(" : : ", "::").split_whitespace().filter_map(path_of).collect()
}

/// The words of a path. Other signs at its ends do not belong to it: `a::{`, `>::b`.
fn path_of(text: &str) -> Option<Path> {
    let is_name = |it: &&str| it.starts_with(|it: char| it.is_alphabetic() || it == '_');
    let path: Path = text.split("::").filter(is_name).map(str::to_owned).collect();
    (!path.is_empty()).then_some(path)
}
