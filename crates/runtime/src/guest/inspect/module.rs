//! Core modules: the amounts of their parts. Their code is not inspected: the cost of compiling it
//! cannot be told from its bytes, and is bounded where it is compiled.

use wasmparser::{CompositeInnerType, ElementItems, Payload, SectionLimited};

use super::Fault;
use super::bound::{Bound, Excess, Tally};

/// A core module that is being read.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// What each instance of it adds.
    pub(super) instance: Tally,
}

impl Module {
    /// Takes the next section. Amounts that do not depend on the number of instances are counted in
    /// `whole`.
    pub(super) fn payload(
        &mut self,
        payload: Payload<'_>,
        whole: &mut Tally,
        table_elements_max: u64,
    ) -> Result<(), Fault> {
        match payload {
            Payload::TypeSection(section) => {
                count(whole, &section)?;
                for group in section {
                    for ty in group?.types() {
                        whole.add(Bound::ModuleItems, 1)?;
                        if let CompositeInnerType::Func(ty) = &ty.composite_type.inner {
                            let arity = ty.params().len() + ty.results().len();
                            Bound::Arity.check(arity as u64)?;
                        }
                    }
                }
            }
            Payload::ImportSection(section) => {
                whole.add(Bound::ModuleBytes, section.range().len() as u64)?;
                for import in section.into_imports() {
                    import?;
                    whole.add(Bound::ModuleItems, 1)?;
                }
            }
            Payload::FunctionSection(section) => {
                whole.add(Bound::ModuleBytes, section.range().len() as u64)?;
                whole.add(Bound::Functions, u64::from(section.count()))?;
            }
            Payload::TableSection(section) => {
                count(whole, &section)?;
                for table in section {
                    Bound::TableElements.check_max(table?.ty.initial, table_elements_max)?;
                    self.instance.add(Bound::Tables, 1)?;
                }
            }
            Payload::MemorySection(section) => {
                count(whole, &section)?;
                self.instance.add(Bound::Memories, u64::from(section.count()))?;
            }
            Payload::GlobalSection(section) => count(whole, &section)?,
            Payload::ExportSection(section) => count(whole, &section)?,
            Payload::TagSection(section) => count(whole, &section)?,
            Payload::ElementSection(section) => {
                count(whole, &section)?;
                for element in section {
                    let elements = match element?.items {
                        ElementItems::Functions(items) => items.count(),
                        ElementItems::Expressions(_, items) => items.count(),
                    };
                    whole.add(Bound::ModuleItems, u64::from(elements))?;
                }
            }
            Payload::DataSection(section) => {
                whole.add(Bound::ModuleItems, u64::from(section.count()))?;
            }
            Payload::CodeSectionEntry(body) => {
                Bound::FunctionBytes.check(body.range().len() as u64)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Counts a section whose entries cost more than their bytes.
fn count<T>(whole: &mut Tally, section: &SectionLimited<'_, T>) -> Result<(), Excess> {
    whole.add(Bound::ModuleBytes, section.range().len() as u64)?;
    whole.add(Bound::ModuleItems, u64::from(section.count()))
}
