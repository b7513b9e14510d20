//! The contract: what a component may import, and what it must export.

use std::collections::BTreeMap;
use std::fmt;

use wasmparser::ComponentExternalKind as Kind;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentItem};

use super::inspect::Item;
use super::wire::{DescribeParams, DescribeReturn, RunParams, RunReturn};

/// The one interface with functions that guests may use, in this server's version. Guests of
/// another 0.1 are linked to it as well.
pub(super) const HOST_INTERFACE: &str = "indelible:guest/host@0.1.0";

/// Interfaces that guests may import, without the last part of the version.
const HOST: &str = "indelible:guest/host@0.1.";
const TYPES: &str = "indelible:guest/types@0.1.";
const HTTP: &str = "indelible:guest/http@0.1.";

/// The prefix of all interfaces of the contract, of any version.
const CONTRACT: &str = "indelible:guest/";

/// The versions of the contract that this server knows, for people.
pub(super) const CONTRACT_VERSION: &str = "0.1";

/// The export that tells which functions a guest has.
pub(super) const DESCRIBE: &str = "describe";
/// The export that runs a function.
pub(super) const RUN: &str = "run";

/// How many misfits are shown: a component can import thousands of functions.
const MISFITS_SHOWN_MAX: usize = 20;

/// How long a component's own name may be when it is shown.
const NAME_SHOWN_BYTES_MAX: usize = 120;

/// An import or export that does not fit the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The name of the import or export.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// All misfits of a component; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfits(pub Vec<Misfit>);

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, misfit) in self.0.iter().take(MISFITS_SHOWN_MAX).enumerate() {
            let between = if index > 0 { "; " } else { "" };
            write!(f, "{between}`{}` {}", misfit.name, misfit.problem)?;
        }
        match self.0.len().saturating_sub(MISFITS_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

fn misfit(name: &str, problem: impl Into<String>) -> Misfit {
    Misfit {
        name: super::bounds::cut(name.escape_debug().to_string(), NAME_SHOWN_BYTES_MAX),
        problem: problem.into(),
    }
}

/// Imports that the host does not offer. Types of functions are checked by the linker.
pub(super) fn foreign_imports(
    imports: &[(&str, Item<'_>)],
    offered: impl Fn(&str) -> bool,
) -> Vec<Misfit> {
    let mut misfits = Vec::new();
    for (name, import) in imports {
        match import.kind {
            Kind::Instance if name.starts_with(HOST) => {
                for (function, item) in import.exports.iter() {
                    let known = match item.kind {
                        Kind::Func => offered(function),
                        _ => is_plain_type(item),
                    };
                    if !known {
                        let name = format!("{name}#{function}");
                        misfits.push(misfit(&name, "is not known to this version of Indelible"));
                    }
                }
            }
            Kind::Instance if name.starts_with(TYPES) || name.starts_with(HTTP) => {
                for (item, _) in import.exports.iter().filter(|(_, item)| !is_plain_type(item)) {
                    let name = format!("{name}#{item}");
                    misfits.push(misfit(&name, "is not a type; this interface has only types"));
                }
            }
            _ if is_plain_type(import) => {}
            _ => misfits.push(misfit(name, foreign(name))),
        }
    }
    misfits
}

fn is_plain_type(item: &Item<'_>) -> bool {
    item.kind == Kind::Type && !item.is_resource
}

/// The version of the contract that a component was built for, if its imports have no other fault.
pub(super) fn other_version(misfits: &[Misfit]) -> Option<String> {
    let mut versions = misfits.iter().map(|misfit| {
        let (_, version) = misfit.name.strip_prefix(CONTRACT)?.split_once('@')?;
        (misfit.problem == foreign(CONTRACT)).then(|| version.to_owned())
    });
    let first = versions.next()??;
    versions.all(|version| version.as_ref() == Some(&first)).then_some(first)
}

/// The fault of an import that no guest may have.
fn foreign(name: &str) -> &'static str {
    if name.starts_with("wasi:") {
        "is part of WASI, which is not available to guests because it cannot be replayed"
    } else if name.starts_with(CONTRACT) {
        "belongs to another version of the contract; this server supports 0.1"
    } else {
        "is not available to guests"
    }
}

/// Exports that are missing, or are not functions.
pub(super) fn missing_exports(exports: &BTreeMap<&str, Item<'_>>) -> Vec<Misfit> {
    let check = |name: &str| match exports.get(name).map(|export| export.kind) {
        None => Some(misfit(name, "is not exported")),
        Some(Kind::Func) => None,
        Some(_) => Some(misfit(name, "is exported, but is not a function")),
    };
    [DESCRIBE, RUN].into_iter().filter_map(check).collect()
}

/// Exports of another type than the contract's. Types are known only after compiling.
pub(super) fn mistyped_exports(engine: &Engine, component: &Component) -> Vec<Misfit> {
    let ty = component.component_type();
    let check = |name: &str, check: &dyn Fn(&ComponentFunc) -> wasmtime::Result<()>| {
        let export = ty.get_export(engine, name).map(|export| export.ty);
        let Some(ComponentItem::ComponentFunc(function)) = export else { return None };
        check(&function).err().map(|error| misfit(name, format!("has another type: {error:#}")))
    };
    let cx = ty.instance_type();
    let describe = check(DESCRIBE, &|f| f.typecheck::<DescribeParams, DescribeReturn>(&cx));
    let run = check(RUN, &|f| f.typecheck::<RunParams, RunReturn>(&cx));
    describe.into_iter().chain(run).collect()
}
