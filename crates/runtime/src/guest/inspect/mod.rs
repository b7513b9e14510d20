//! Reads what a component is made of, before it is validated or compiled: its imports and exports,
//! and whether its demands on the compiler are within bounds.
//!
//! Reading costs time and memory in proportion to the bytes, whatever they are. Validating does
//! not: a component of a few kilobytes can name types of a million parts, or have itself
//! instantiated a million times. So the bounds are on what the bytes expand to, and not on the
//! bytes alone.
//!
//! Nothing is validated here. An index that leads nowhere counts as nothing: wasmtime refuses the
//! component at that point, before it compiles any of it.

mod bound;
mod module;
mod scope;

use std::collections::BTreeMap;

use wasmparser::{
    BinaryReaderError, ComponentExternalKind, Encoding, Parser, Payload, SectionLimited,
};

use bound::Tally;
pub use bound::{Bound, Excess};
use module::Module;
pub(super) use scope::Item;
use scope::{Scope, Scopes};

/// What was read of a component that is within the bounds.
#[derive(Debug)]
pub(super) struct Inspected<'a> {
    /// What it imports, in the order of the bytes.
    pub(super) imports: Vec<(&'a str, Item<'a>)>,
    /// What it exports.
    pub(super) exports: BTreeMap<&'a str, Item<'a>>,
}

/// Why a component was not read to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// The bytes are malformed.
    Malformed(String),
    /// It exceeds a bound.
    Excess(Excess),
}

impl From<BinaryReaderError> for Fault {
    fn from(error: BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}

impl From<Excess> for Fault {
    fn from(excess: Excess) -> Self {
        Self::Excess(excess)
    }
}

/// Reads a component. `table_elements_max` is how many elements a table may begin with.
pub(super) fn inspect(bytes: &[u8], table_elements_max: u64) -> Result<Inspected<'_>, Fault> {
    let mut reading = Reading { bytes, table_elements_max, ..Reading::default() };
    for payload in Parser::new(0).parse_all(bytes) {
        if let Some(root) = reading.payload(payload?)? {
            let Scope { imports, exports, .. } = root;
            return Ok(Inspected { imports, exports });
        }
    }
    Err(Fault::Malformed("it ends too early".into()))
}

#[derive(Default)]
struct Reading<'a> {
    bytes: &'a [u8],
    /// The components that are being read, from the outermost.
    scopes: Scopes<'a>,
    /// The core module that is being read, within the innermost of them.
    module: Option<Module>,
    /// Amounts that are counted once, however often a component is instantiated.
    whole: Tally,
    table_elements_max: u64,
}

impl<'a> Reading<'a> {
    /// Takes the next part of the component; returns the outermost scope at its end.
    fn payload(&mut self, payload: Payload<'a>) -> Result<Option<Scope<'a>>, Fault> {
        match payload {
            Payload::Version { encoding: Encoding::Component, .. } => {
                self.whole.add(Bound::Components, 1)?;
                self.scopes.enter();
                Bound::Depth.check(self.scopes.depth() as u64)?;
            }
            Payload::Version { encoding: Encoding::Module, .. } => {
                self.whole.add(Bound::Modules, 1)?;
                self.module = Some(Module::default());
            }
            Payload::End(_) => return Ok(self.end()),
            payload => match &mut self.module {
                Some(module) => {
                    module.payload(payload, &mut self.whole, self.table_elements_max)?;
                }
                None => self.component(payload)?,
            },
        }
        Ok(None)
    }

    /// Ends the innermost module or component, and adds it to the one around it.
    fn end(&mut self) -> Option<Scope<'a>> {
        if let Some(module) = self.module.take() {
            self.scopes.own.modules.push(module.instance);
            return None;
        }
        let ended = self.scopes.leave();
        if self.scopes.depth() == 0 {
            return Some(ended);
        }
        let item = Item::new(ComponentExternalKind::Component, 1, ended.exports);
        self.scopes.own.components.push((item, ended.tally));
        None
    }

    /// A section of a component itself.
    fn component(&mut self, payload: Payload<'a>) -> Result<(), Fault> {
        let scopes = &mut self.scopes;
        match payload {
            Payload::ComponentTypeSection(section) => {
                count(&mut self.whole, &section)?;
                scope::check_type_depth(self.bytes.get(section.range()).unwrap_or_default())?;
                for ty in section {
                    scopes.declare(&ty?)?;
                }
            }
            Payload::CoreTypeSection(section) => {
                count(&mut self.whole, &section)?;
                for ty in section {
                    scopes.core_type(&ty?)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                count(&mut self.whole, &section)?;
                for import in section {
                    let import = import?;
                    scopes.import(import.name.name, import.ty)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                count(&mut self.whole, &section)?;
                for export in section {
                    scopes.export_of(&export?)?;
                }
            }
            Payload::ComponentAliasSection(section) => {
                count(&mut self.whole, &section)?;
                for alias in section {
                    scopes.alias(&alias?)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                count(&mut self.whole, &section)?;
                for instance in section {
                    scopes.own.instance(&instance?)?;
                }
            }
            Payload::InstanceSection(section) => {
                count(&mut self.whole, &section)?;
                for instance in section {
                    scopes.own.core_instance(&instance?)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                count(&mut self.whole, &section)?;
                for function in section {
                    scopes.own.canonical(&function?)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Counts the bytes of a section before it is read: in memory it is larger.
fn count<T>(whole: &mut Tally, section: &SectionLimited<'_, T>) -> Result<(), Excess> {
    whole.add(Bound::OwnBytes, section.range().len() as u64)
}
