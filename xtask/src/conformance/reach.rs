//! Which code the binaries reach. An item is reached when reached code names a path that leads to it,
//! an `impl` when all that its header names is. A crate's root does not reach what it declares or
//! re-exports: only who names something there reaches it.
//!
//! Where the text alone leaves a doubt, code counts as reached: an error here should be true.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Item, Module, Path, Use, module_of};

/// The reached lines of each file, as first and last.
pub(crate) type Lines<'a> = BTreeMap<&'a str, Vec<(usize, usize)>>;

/// The lines of the reached items. Execution begins in the `main.rs` of `roots`; the users of the
/// libraries there are outside the workspace and may name all that is public.
pub(crate) fn reached<'a>(modules: &'a BTreeMap<Path, Module>, roots: &[&str]) -> Lines<'a> {
    let mut reach = Reach { modules, reached: BTreeSet::new(), open: Vec::new() };
    for (root, module) in roots.iter().filter_map(|it| Some((it, module_of(it)?))) {
        if root.ends_with("/main.rs") {
            reach.add_all(reach.resolve(&module, &["self".to_owned(), "main".to_owned()]));
        } else {
            reach.add(Node::Public(module));
        }
    }
    while !reach.open.is_empty() {
        while let Some(node) = reach.open.pop() {
            reach.follow(node);
        }
        reach.add_all(reach.impls());
    }
    let mut lines = Lines::new();
    for node in &reach.reached {
        if let Node::Item(name, index) = node {
            let module = &modules[name];
            lines.entry(&module.file).or_default().push(module.items[*index].lines);
        }
    }
    lines
}

/// Whether a line of a file is among them.
pub(crate) fn contains(lines: &Lines<'_>, path: &str, line: usize) -> bool {
    let mut ranges = lines.get(path).into_iter().flatten();
    ranges.any(|(first, last)| (*first..=*last).contains(&line))
}

/// The imports that led to where a path is being resolved, by module and index. Each is taken once:
/// imports can go round in a circle.
type Taken = BTreeSet<(Path, usize)>;

/// What can be reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    /// Something in a module. What needs no name is reached with it, and so are the modules above:
    /// their macros are in scope without a path.
    Module(Path),
    /// An item, by its module and index.
    Item(Path, usize),
    /// What a module imports: a trait need not be named to be used. A re-export imports nothing.
    Imports(Path),
    /// Any item of a module: a name that it does not have was made by a macro there.
    Items(Path),
    /// Any item of a module, and what others can name through it.
    Public(Path),
}

impl Node {
    fn module(&self) -> &Path {
        match self {
            Node::Module(it) | Node::Item(it, _) | Node::Imports(it) => it,
            Node::Items(it) | Node::Public(it) => it,
        }
    }

    /// If a path leads to a module: all of it.
    fn into_public(self) -> Node {
        if let Node::Module(it) = self { Node::Public(it) } else { self }
    }
}

struct Reach<'a> {
    modules: &'a BTreeMap<Path, Module>,
    reached: BTreeSet<Node>,
    /// Reached, and not yet followed.
    open: Vec<Node>,
}

impl Reach<'_> {
    fn add(&mut self, node: Node) {
        if self.modules.contains_key(node.module()) && self.reached.insert(node.clone()) {
            self.open.push(node);
        }
    }

    fn add_all(&mut self, nodes: impl IntoIterator<Item = Node>) {
        nodes.into_iter().for_each(|it| self.add(it));
    }

    fn follow(&mut self, node: Node) {
        let name = node.module().clone();
        let module = &self.modules[&name];
        match node {
            Node::Module(_) => {
                self.add(Node::Module(name[..name.len() - 1].to_vec()));
                self.add_all(self.items(&name, |it| it.usage == Use::Always));
            }
            Node::Item(_, index) => {
                let item = &module.items[index];
                item.paths.iter().for_each(|it| self.add_all(self.resolve_in_code(&name, it)));
                if item.usage != Use::Always {
                    self.add(Node::Imports(name.clone()));
                }
                self.add(Node::Module(name));
            }
            Node::Imports(_) => {
                for import in module.imports.iter().filter(|it| it.name != "*" && !it.is_public) {
                    self.add_all(self.resolve(&name, &import.path));
                }
                let globs = module.imports.iter().filter(|it| it.name == "*").map(|it| &it.path);
                for path in globs.chain(&module.derived) {
                    self.add_all(self.resolve(&name, path).into_iter().map(Node::into_public));
                }
            }
            Node::Items(_) => {
                self.add_all(self.items(&name, |_| true));
                self.add(Node::Imports(name));
            }
            Node::Public(_) => {
                for import in module.imports.iter().filter(|it| it.is_public) {
                    let targets = self.resolve(&name, &import.path);
                    self.add_all(targets.into_iter().map(Node::into_public));
                }
                self.add(Node::Items(name));
            }
        }
    }

    /// The items of a module that are so. A function and a type may share a name.
    fn items(&self, module: &[String], is: impl Fn(&Item) -> bool) -> Vec<Node> {
        let items = self.modules.get(module).into_iter().flat_map(|it| it.items.iter().enumerate());
        items
            .filter(|(_, it)| is(it))
            .map(|(index, _)| Node::Item(module.to_vec(), index))
            .collect()
    }

    /// The `impl`s that can run by now: methods are called without a path.
    fn impls(&self) -> Vec<Node> {
        let is_known = |name: &Path, path: &Path| {
            let targets = self.resolve_in_code(name, path);
            targets.is_empty() || targets.into_iter().any(|it| self.is_reached(it))
        };
        let is_ready = |name: &Path, item: &Item| match &item.usage {
            Use::For(header) => header.iter().all(|it| is_known(name, it)),
            _ => false,
        };
        let modules =
            self.modules.keys().filter(|it| self.is_reached(Node::Module(it[..1].to_vec())));
        modules.flat_map(|name| self.items(name, |it| is_ready(name, it))).collect()
    }

    /// What a macro made is reached with its module.
    fn is_reached(&self, node: Node) -> bool {
        self.reached.contains(&if let Node::Items(it) = node { Node::Module(it) } else { node })
    }

    /// A single word in code is never a module: `state` is a variable.
    fn resolve_in_code(&self, from: &Path, path: &Path) -> BTreeSet<Node> {
        let mut found = self.resolve(from, path);
        found.retain(|it| path.len() > 1 || !matches!(it, Node::Module(_)));
        found
    }

    /// Where a path leads from a module; nowhere when it leaves the workspace.
    fn resolve(&self, from: &[String], path: &[String]) -> BTreeSet<Node> {
        self.lead(from, path, &mut Taken::new())
    }

    fn lead(&self, from: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Node> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([Node::Module(from.to_vec())]);
        };
        match first.as_str() {
            "crate" => return self.lead_within(&from[..1], rest, taken),
            "self" => return self.lead_within(from, rest, taken),
            "super" => return self.lead_within(&from[..from.len().max(2) - 1], rest, taken),
            _ => {}
        }
        let mut found = BTreeSet::from_iter(self.items(from, |it| it.name == *first));
        let child = [from, &path[..1]].concat();
        if self.modules.contains_key(&child) {
            found.extend(self.lead_within(&child, rest, taken));
        }
        let imports = self.modules.get(from).map_or(&[][..], |it| &it.imports);
        for (index, import) in imports.iter().enumerate() {
            let step = (from.to_vec(), index);
            if !["*", first].contains(&&import.name[..]) || !taken.insert(step.clone()) {
                continue;
            }
            if import.name == "*" {
                for target in self.lead(from, &import.path, taken) {
                    found.extend(self.lead(target.module(), path, taken));
                }
            } else {
                found.extend(self.lead(from, &[&import.path[..], rest].concat(), taken));
            }
            taken.remove(&step);
        }
        if found.is_empty() && self.modules.contains_key(&path[..1]) {
            return self.lead_within(&path[..1], rest, taken);
        }
        found
    }

    fn lead_within(&self, module: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Node> {
        let found = self.lead(module, path, taken);
        let made = || BTreeSet::from([Node::Items(module.to_vec())]);
        if found.is_empty() { made() } else { found }
    }
}

#[cfg(test)]
mod tests;
