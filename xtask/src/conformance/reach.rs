//! Which code the binaries reach. An item is reached when reached code names a path that leads to it,
//! an `impl` when all that its header names is. A crate's root does not reach what it declares or
//! re-exports: only who names something there reaches it.
//!
//! Where the text alone leaves a doubt, code counts as reached: an error here should be true.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Module, Modules, Path, Use, module_of};

/// Where execution begins, as files.
pub(crate) struct Roots<'a> {
    pub(crate) binaries: &'a [&'a str],
    /// Their users are outside the workspace and may name all that is public.
    pub(crate) libraries: &'a [&'a str],
}

/// The reached lines of each file, as first and last.
pub(crate) type Lines<'a> = BTreeMap<&'a str, Vec<(usize, usize)>>;

/// The lines of the reached items.
pub(crate) fn reached<'a>(modules: &'a Modules, roots: &Roots<'_>) -> Lines<'a> {
    let code = modules.by_path.iter().filter(|(path, _)| !modules.is_test(path));
    let modules = code.map(|(path, module)| (path.clone(), module)).collect();
    let mut reach = Reach { modules, ..Reach::default() };
    for module in roots.binaries.iter().filter_map(|it| module_of(it)) {
        reach.enter(&(module, Some("main".to_owned())));
    }
    for module in roots.libraries.iter().filter_map(|it| module_of(it)) {
        reach.export(&module);
    }
    reach.run();
    let mut lines = Lines::new();
    for (name, index) in &reach.items {
        let module = reach.modules[name];
        lines.entry(&module.file).or_default().push(module.items[*index].lines);
    }
    lines
}

/// Whether a line of a file is among them.
pub(crate) fn contains(lines: &Lines<'_>, path: &str, line: usize) -> bool {
    let mut ranges = lines.get(path).into_iter().flatten();
    ranges.any(|(first, last)| (*first..=*last).contains(&line))
}

/// Where a path leads: a module, or a name in one.
type Target = (Path, Option<String>);

/// The imports that led to where a path is being resolved, by module and index. Each is taken once:
/// imports can go round in a circle.
type Taken = BTreeSet<(Path, usize)>;

#[derive(Default)]
struct Reach<'a> {
    modules: BTreeMap<Path, &'a Module>,
    /// The reached items, by module and index.
    items: BTreeSet<(Path, usize)>,
    /// Modules in which something is reached.
    entered: BTreeSet<Path>,
    /// Modules of which a named item or an `impl` is reached, so that imports are needed.
    used: BTreeSet<Path>,
    exported: BTreeSet<Path>,
    /// Reached, and what they name not yet followed.
    open: Vec<(Path, usize)>,
}

impl Reach<'_> {
    fn run(&mut self) {
        loop {
            while let Some((name, index)) = self.open.pop() {
                let module = self.modules[&name];
                for path in &module.items[index].paths {
                    self.resolve_in_code(&name, path).iter().for_each(|it| self.enter(it));
                }
            }
            let impls = self.new_impls();
            if impls.is_empty() {
                return;
            }
            for (name, index) in impls {
                self.enter(&(name.clone(), None));
                self.reach(&name, index);
            }
        }
    }

    /// The `impl`s that can run by now: methods are called without a path.
    fn new_impls(&self) -> Vec<(Path, usize)> {
        let mut found = Vec::new();
        for (name, module) in &self.modules {
            let is_known = |path: &Path| {
                let targets = self.resolve_in_code(name, path);
                targets.is_empty() || targets.iter().any(|it| self.is_reached(it))
            };
            for (index, item) in module.items.iter().enumerate() {
                if let Use::For(header) = &item.usage
                    && self.entered.contains(&name[..1])
                    && !self.items.contains(&(name.clone(), index))
                    && header.iter().all(is_known)
                {
                    found.push((name.clone(), index));
                }
            }
        }
        found
    }

    fn is_reached(&self, (module, name): &Target) -> bool {
        let named = name.as_deref().map_or(Vec::new(), |name| self.items_of(module, name));
        let is_item = |index| self.items.contains(&(module.clone(), index));
        self.entered.contains(module) && (named.is_empty() || named.into_iter().any(is_item))
    }

    /// The indexes of the items with this name: a function and a type may share one.
    fn items_of(&self, module: &[String], name: &str) -> Vec<usize> {
        let items = self.modules.get(module).into_iter().flat_map(|it| it.items.iter().enumerate());
        items.filter(|(_, it)| it.name == name).map(|(index, _)| index).collect()
    }

    /// Reaches a module or an item. What needs no name is reached with its module, and so are the
    /// modules above it: their macros are in scope without a path.
    fn enter(&mut self, (module, name): &Target) {
        for length in 1..=module.len() {
            let above = module[..length].to_vec();
            if self.modules.contains_key(&above) && self.entered.insert(above.clone()) {
                for (index, item) in self.modules[&above].items.iter().enumerate() {
                    if item.usage == Use::Always {
                        self.open_item(&above, index);
                    }
                }
            }
        }
        let Some(name) = name else { return };
        let named = self.items_of(module, name);
        if named.is_empty() {
            // A macro made it.
            self.reach_all(module);
        }
        named.into_iter().for_each(|index| self.reach(module, index));
    }

    /// Reaches an item, or a module with all in it.
    fn enter_all(&mut self, target: &Target) {
        match target {
            (module, None) => self.export(module),
            _ => self.enter(target),
        }
    }

    fn reach_all(&mut self, module: &Path) {
        let count = self.modules.get(module).map_or(0, |it| it.items.len());
        (0..count).for_each(|index| self.reach(module, index));
    }

    /// Reaches an item, and what its module imports: a trait need not be named to be used. A
    /// re-export imports nothing.
    fn reach(&mut self, name: &Path, index: usize) {
        self.open_item(name, index);
        if !self.used.insert(name.clone()) {
            return;
        }
        let module = self.modules[name];
        for path in &module.derived {
            self.resolve(name, path, &mut Taken::new()).iter().for_each(|it| self.enter_all(it));
        }
        for import in &module.imports {
            let targets = self.resolve(name, &import.path, &mut Taken::new());
            if import.name == "*" {
                targets.iter().for_each(|it| self.enter_all(it));
            } else if !import.is_public {
                targets.iter().for_each(|it| self.enter(it));
            }
        }
    }

    fn open_item(&mut self, name: &Path, index: usize) {
        if self.items.insert((name.clone(), index)) {
            self.open.push((name.clone(), index));
        }
    }

    /// Reaches all of a module, and what others can name through it.
    fn export(&mut self, name: &Path) {
        let Some(&module) = self.modules.get(name) else { return };
        if !self.exported.insert(name.clone()) {
            return;
        }
        self.enter(&(name.clone(), None));
        self.reach_all(name);
        for import in module.imports.iter().filter(|it| it.is_public) {
            self.resolve(name, &import.path, &mut Taken::new())
                .iter()
                .for_each(|it| self.enter_all(it));
        }
        module.public_modules.iter().for_each(|it| self.export(it));
    }

    /// A single word in code is never a module: `state` is a variable.
    fn resolve_in_code(&self, from: &Path, path: &Path) -> BTreeSet<Target> {
        let mut found = self.resolve(from, path, &mut Taken::new());
        found.retain(|(_, name)| path.len() > 1 || name.is_some());
        found
    }

    /// Where a path leads from a module; nowhere when it leaves the workspace.
    fn resolve(&self, from: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Target> {
        if matches!(path[0].as_str(), "crate" | "self" | "super") {
            return self.member(from, path, taken);
        }
        let found = self.named(from, path, taken);
        let is_crate = found.is_empty() && self.modules.contains_key(&path[..1]);
        if is_crate { self.member(&path[..1], &path[1..], taken) } else { found }
    }

    /// Where a path leads from within a module. A name that the module does not have was made by a
    /// macro there.
    fn member(&self, module: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Target> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([(module.to_vec(), None)]);
        };
        match first.as_str() {
            "crate" => self.member(&module[..1], rest, taken),
            "self" => self.member(module, rest, taken),
            "super" => self.member(&module[..module.len().max(2) - 1], rest, taken),
            _ => {
                let found = self.named(module, path, taken);
                let own = || BTreeSet::from([(module.to_vec(), Some(first.clone()))]);
                if found.is_empty() { own() } else { found }
            }
        }
    }

    /// Where a path leads by an item, a child or an import of a module.
    fn named(&self, name: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Target> {
        let mut found = BTreeSet::new();
        let Some(module) = self.modules.get(name) else { return found };
        if !self.items_of(name, &path[0]).is_empty() {
            found.insert((name.to_vec(), Some(path[0].clone())));
        }
        let child = [name, &path[..1]].concat();
        if self.modules.contains_key(&child) {
            found.extend(self.member(&child, &path[1..], taken));
        }
        for (index, import) in module.imports.iter().enumerate() {
            let is_glob = import.name == "*";
            let step = (name.to_vec(), index);
            if !(is_glob || import.name == path[0]) || !taken.insert(step.clone()) {
                continue;
            }
            if is_glob {
                for (target, _) in self.resolve(name, &import.path, taken) {
                    found.extend(self.named(&target, path, taken));
                }
            } else {
                let whole = [&import.path[..], &path[1..]].concat();
                found.extend(self.resolve(name, &whole, taken));
            }
            taken.remove(&step);
        }
        found
    }
}

#[cfg(test)]
mod tests;
