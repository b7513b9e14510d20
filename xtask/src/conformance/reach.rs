//! Which code the binaries reach. An item is reached when reached code names a path that leads to
//! it, an `impl` when everything that its header names is reached. A crate's root does not reach
//! what it declares or re-exports: only code that names such an item reaches it.
//!
//! In doubt, code counts as reached: a reported problem should be real.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::modules::{Item, Modules, Path, Use, module_of};

/// The reached lines of each file.
pub(crate) type Lines<'a> = BTreeMap<&'a str, Vec<Range<usize>>>;

/// The lines of the reached items. Execution begins in the `main.rs` of `roots`; the users of the
/// libraries there are outside the workspace and may name all that is public.
pub(crate) fn reached<'a>(modules: &'a Modules, roots: &[&str]) -> Lines<'a> {
    let mut reach = Reach { modules, reached: BTreeSet::new(), open: Vec::new() };
    for (root, module) in roots.iter().filter_map(|it| Some((it, module_of(it)?))) {
        if root.ends_with("/main.rs") {
            reach.add(reach.resolve(&module, &["self".to_owned(), "main".to_owned()]));
        } else {
            reach.add([(module, Part::Public)]);
        }
    }
    while !reach.open.is_empty() {
        while let Some(node) = reach.open.pop() {
            reach.follow(&node);
        }
        reach.add(reach.impls());
    }
    let mut lines = Lines::new();
    for (name, part) in &reach.reached {
        if let Part::Item(index) = part {
            let module = &modules[name];
            lines.entry(&module.file).or_default().push(module.items[*index].lines.clone());
        }
    }
    lines
}

/// The imports that led to where a path is being resolved, by module and index. Each is taken once:
/// imports can go round in a circle.
type Taken = BTreeSet<(Path, usize)>;

/// What can be reached of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Any part of the module. Items that need no name are reached with it, and so are the modules
    /// above: their macros are in scope without a path.
    Any,
    /// The item of this index.
    Item(usize),
    /// Its imports: a trait need not be named to be used. A re-export imports nothing.
    Imports,
    /// All items: a name that the module does not have was made by a macro there.
    Items,
    /// All items, and everything that other modules can name through it.
    Public,
}

/// A module and what of it is reached.
type Node = (Path, Part);

struct Reach<'a> {
    modules: &'a Modules,
    reached: BTreeSet<Node>,
    /// Reached, and not yet followed.
    open: Vec<Node>,
}

impl Reach<'_> {
    fn add(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            if self.modules.contains_key(&node.0) && self.reached.insert(node.clone()) {
                self.open.push(node);
            }
        }
    }

    /// Adds what a path leads to; if that is a module, all of it.
    fn add_public(&mut self, from: &Path, path: &Path) {
        let public = |(it, part)| (it, if part == Part::Any { Part::Public } else { part });
        self.add(self.resolve(from, path).into_iter().map(public));
    }

    fn follow(&mut self, (name, part): &Node) {
        let module = &self.modules[name];
        match part {
            Part::Any => {
                self.add([(name[..name.len() - 1].to_vec(), Part::Any)]);
                self.add(self.items(name, |it| it.usage == Use::Always));
            }
            Part::Item(index) => {
                let item = &module.items[*index];
                item.paths.iter().for_each(|it| self.add(self.resolve_in_code(name, it)));
                let is_named = item.usage != Use::Always;
                self.add([(name.clone(), if is_named { Part::Imports } else { Part::Any })]);
            }
            Part::Imports => {
                for import in &module.imports {
                    if import.name == "*" {
                        self.add_public(name, &import.path);
                    } else if !import.is_public {
                        self.add(self.resolve(name, &import.path));
                    }
                }
                module.derived.iter().for_each(|it| self.add_public(name, it));
                self.add([(name.clone(), Part::Any)]);
            }
            Part::Items => {
                self.add(self.items(name, |_| true));
                self.add([(name.clone(), Part::Imports)]);
            }
            Part::Public => {
                let public = module.imports.iter().filter(|it| it.is_public);
                public.for_each(|it| self.add_public(name, &it.path));
                self.add([(name.clone(), Part::Items)]);
            }
        }
    }

    /// The items of a module that satisfy `is`. A function and a type may share a name.
    fn items(&self, module: &[String], is: impl Fn(&Item) -> bool) -> Vec<Node> {
        let items = self.modules.get(module).into_iter().flat_map(|it| it.items.iter().enumerate());
        items.filter(|(_, it)| is(it)).map(|(it, _)| (module.to_vec(), Part::Item(it))).collect()
    }

    /// The `impl`s that can run by now: methods are called without a path.
    fn impls(&self) -> Vec<Node> {
        let is_known = |name: &Path, path: &Path| {
            let targets = self.resolve_in_code(name, path);
            // It is unknown whether code uses an item that a macro made, so it counts as reached.
            let is_reached = |it: &Node| it.1 == Part::Items || self.reached.contains(it);
            targets.is_empty() || targets.iter().any(is_reached)
        };
        let is_ready = |name: &Path, item: &Item| match &item.usage {
            Use::For(header) => header.iter().all(|it| is_known(name, it)),
            Use::Always | Use::Named => false,
        };
        let is_open = |name: &&Path| self.reached.contains(&(name[..1].to_vec(), Part::Any));
        let modules = self.modules.keys().filter(is_open);
        modules.flat_map(|name| self.items(name, |it| is_ready(name, it))).collect()
    }

    /// A single word in code is never a module: `state` is a variable.
    fn resolve_in_code(&self, from: &Path, path: &Path) -> BTreeSet<Node> {
        let is_target = |(_, part): &Node| path.len() > 1 || *part != Part::Any;
        self.resolve(from, path).into_iter().filter(is_target).collect()
    }

    /// Where a path leads from a module; nowhere when it leaves the workspace.
    fn resolve(&self, from: &[String], path: &[String]) -> BTreeSet<Node> {
        self.lead(from, path, &mut Taken::new())
    }

    /// Where a path leads if these imports led to it.
    fn lead(&self, from: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Node> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([(from.to_vec(), Part::Any)]);
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
                for (module, _) in self.lead(from, &import.path, taken) {
                    found.extend(self.lead(&module, path, taken));
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

    /// Where a path leads that must lead somewhere, because it goes on in a module.
    fn lead_within(&self, module: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Node> {
        let found = self.lead(module, path, taken);
        if found.is_empty() { BTreeSet::from([(module.to_vec(), Part::Items)]) } else { found }
    }
}

#[cfg(test)]
mod tests;
