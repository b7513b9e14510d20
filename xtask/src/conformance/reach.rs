//! Which source files the binaries reach. A module is reached when code of a reached module names a
//! path that leads into it. A crate's root does not reach what it declares or re-exports: only who
//! names an item there reaches the module that defines it.
//!
//! Where the text alone leaves a doubt, a module counts as reached: an error here should be true.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Module, Path};

/// Where execution begins, as files.
pub(crate) struct Roots<'a> {
    pub(crate) binaries: &'a [&'a str],
    /// Their users are outside the workspace and may name all that is public.
    pub(crate) libraries: &'a [&'a str],
}

/// The paths among `files` whose modules are reached.
pub(crate) fn reached<'a>(
    files: &'a [(String, BTreeMap<Path, Module>)],
    roots: &Roots<'_>,
) -> BTreeSet<&'a str> {
    let mut reach = Reach::default();
    for (path, modules) in files {
        let Some(file) = module_of(path) else { continue };
        for (below, module) in modules {
            reach.modules.insert([&file[..], below].concat(), module);
        }
    }
    roots.binaries.iter().filter_map(|it| module_of(it)).for_each(|it| reach.enter(&it));
    roots.libraries.iter().filter_map(|it| module_of(it)).for_each(|it| reach.export(&it));
    reach.run();
    let is_reached = |path: &&str| module_of(path).is_some_and(|it| reach.reached.contains(&it));
    files.iter().map(|(path, _)| path.as_str()).filter(is_reached).collect()
}

/// `crates/http-peer/src/a/mod.rs` is `indelible_http_peer::a`.
fn module_of(path: &str) -> Option<Path> {
    let (folder, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module = vec![format!("indelible_{}", folder.replace('-', "_"))];
    module.extend(file.strip_suffix(".rs")?.split('/').map(str::to_owned));
    let is_root = module.len() == 2 && matches!(module[1].as_str(), "lib" | "main");
    if is_root || module[module.len() - 1] == "mod" {
        module.pop();
    }
    Some(module)
}

/// The imports that led to where a path is being resolved, by module and index. Each is taken once:
/// imports can go round in a circle.
type Taken = BTreeSet<(Path, usize)>;

#[derive(Default)]
struct Reach<'a> {
    modules: BTreeMap<Path, &'a Module>,
    reached: BTreeSet<Path>,
    exported: BTreeSet<Path>,
    /// Reached, and what they name not yet followed.
    open: Vec<Path>,
}

impl Reach<'_> {
    fn run(&mut self) {
        loop {
            while let Some(name) = self.open.pop() {
                self.follow(&name);
            }
            let unnamed: Vec<Path> = self
                .modules
                .iter()
                .filter(|(name, it)| !self.reached.contains(*name) && self.serves(name, it))
                .map(|(name, _)| name.clone())
                .collect();
            if unnamed.is_empty() {
                return;
            }
            unnamed.iter().for_each(|name| self.enter(name));
        }
    }

    /// Reaches a module, and those above it: their macros are in scope without a path.
    fn enter(&mut self, name: &[String]) {
        for length in 1..=name.len() {
            let name = name[..length].to_vec();
            if self.modules.contains_key(&name) && self.reached.insert(name.clone()) {
                self.open.push(name);
            }
        }
    }

    /// Reaches a module and all that others can name through it.
    fn export(&mut self, name: &Path) {
        let Some(&module) = self.modules.get(name) else { return };
        if !self.exported.insert(name.clone()) {
            return;
        }
        self.enter(name);
        for import in module.imports.iter().filter(|it| it.is_public) {
            self.resolve(name, &import.path).iter().for_each(|it| self.export(it));
        }
        for child in &module.public_modules {
            self.export(&[&name[..], &[child.clone()]].concat());
        }
    }

    /// Reaches what the code of a module names. A re-export names nothing by itself. A file is
    /// reached as a whole, so what is inline is too.
    fn follow(&mut self, name: &Path) {
        let module = self.modules[name];
        for child in &module.inline_modules {
            self.enter(&[&name[..], &[child.clone()]].concat());
        }
        for import in &module.imports {
            let targets = self.resolve(name, &import.path);
            if import.name == "*" {
                targets.iter().for_each(|it| self.export(it));
            } else if !import.is_public {
                targets.iter().for_each(|it| self.enter(it));
            }
        }
        for path in &module.paths {
            self.resolve_in_code(name, path).iter().for_each(|it| self.enter(it));
        }
    }

    /// Whether code that names nothing of a module can run its `impl`s: those whose header has only
    /// types and traits of reached modules, and none that the module itself defines.
    fn serves(&self, name: &Path, module: &Module) -> bool {
        let is_known = |path: &Path| {
            let is_own = path.len() == 1 && module.types.contains(&path[0]);
            let targets = self.resolve_in_code(name, path);
            let is_foreign = targets.is_empty();
            !is_own && (is_foreign || targets.iter().any(|it| self.reached.contains(it)))
        };
        let is_crate_reached = self.reached.contains(&name[..1]);
        is_crate_reached && module.impls.iter().any(|header| header.iter().all(is_known))
    }

    /// A single word in code can be an import; it never is a module: `state` is a variable.
    fn resolve_in_code(&self, from: &Path, path: &Path) -> BTreeSet<Path> {
        match &path[..] {
            [_] => self.imported(from, path, &mut Taken::new()),
            _ => self.resolve(from, path),
        }
    }

    /// The modules into which a path leads from a module; none when it leaves the workspace.
    fn resolve(&self, from: &[String], path: &[String]) -> BTreeSet<Path> {
        self.resolve_by(from, path, &mut Taken::new())
    }

    fn resolve_by(&self, from: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Path> {
        match path[0].as_str() {
            "crate" => self.member(&from[..1], &path[1..], taken),
            "self" | "super" => self.member(from, path, taken),
            _ => {
                let found = self.named(from, path, taken);
                let is_crate = found.is_empty() && self.modules.contains_key(&path[..1]);
                if is_crate { self.member(&path[..1], &path[1..], taken) } else { found }
            }
        }
    }

    /// The modules into which a path leads from within a module. A name that the module has neither
    /// from a child nor from an import is an item of its own.
    fn member(&self, module: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Path> {
        let Some((first, rest)) = path.split_first() else {
            return BTreeSet::from([module.to_vec()]);
        };
        match first.as_str() {
            "self" => self.member(module, rest, taken),
            "super" => self.member(&module[..module.len().max(2) - 1], rest, taken),
            _ => {
                let mut found = self.named(module, path, taken);
                let has_glob = self
                    .modules
                    .get(module)
                    .is_some_and(|it| it.imports.iter().any(|it| it.name == "*"));
                if found.is_empty() || has_glob {
                    found.insert(module.to_vec());
                }
                found
            }
        }
    }

    /// The modules into which a path leads by a child or an import of a module.
    fn named(&self, module: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Path> {
        let mut found = self.imported(module, path, taken);
        let child = [module, &path[..1]].concat();
        if self.modules.contains_key(&child) {
            found.extend(self.member(&child, &path[1..], taken));
        }
        found
    }

    fn imported(&self, from: &[String], path: &[String], taken: &mut Taken) -> BTreeSet<Path> {
        let mut found = BTreeSet::new();
        let Some(module) = self.modules.get(from) else { return found };
        for (index, import) in module.imports.iter().enumerate() {
            let is_glob = import.name == "*";
            let step = (from.to_vec(), index);
            if !(is_glob || import.name == path[0]) || !taken.insert(step.clone()) {
                continue;
            }
            if is_glob {
                for target in self.resolve_by(from, &import.path, taken) {
                    found.extend(self.named(&target, path, taken));
                    if self.modules.get(&target).is_some_and(|it| it.types.contains(&path[0])) {
                        found.insert(target);
                    }
                }
            } else {
                let whole = [&import.path[..], &path[1..]].concat();
                found.extend(self.resolve_by(from, &whole, taken));
            }
            taken.remove(&step);
        }
        found
    }
}

#[cfg(test)]
mod tests;
