//! Names and indexes of a component: the items that they lead to, and the amounts when every
//! reference is followed.

use std::collections::BTreeMap;
use std::rc::Rc;

use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentDefinedType, ComponentExternalKind as Kind,
    ComponentInstance, ComponentOuterAliasKind, ComponentType, ComponentTypeDeclaration,
    ComponentTypeRef, ComponentValType, CoreType, Instance, InstanceTypeDeclaration, TypeBounds,
};

use super::bound::{Bound, Excess, Tally};

/// What an index leads to.
#[derive(Debug, Clone)]
pub(in super::super) struct Item<'a> {
    pub(in super::super) kind: Kind,
    /// Whether it is a resource type.
    pub(in super::super) is_resource: bool,
    /// How many parts its type has, each counted as often as it is named.
    size: u64,
    /// What it exports: an instance, a component, or the type of one.
    pub(in super::super) exports: Rc<BTreeMap<&'a str, Item<'a>>>,
}

impl<'a> Item<'a> {
    pub(super) fn new(kind: Kind, size: u64, exports: BTreeMap<&'a str, Item<'a>>) -> Self {
        Self { kind, is_resource: false, size, exports: Rc::new(exports) }
    }

    fn resource() -> Self {
        Self { is_resource: true, ..Self::plain(Kind::Type) }
    }

    /// An item without parts.
    fn plain(kind: Kind) -> Self {
        Self::new(kind, 1, BTreeMap::new())
    }

    /// The same item with another kind: a function or an instance of this type.
    fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
}

/// The indexes of a component, or of the type of a component or an instance.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    types: Vec<Item<'a>>,
    functions: Vec<Item<'a>>,
    instances: Vec<Item<'a>>,
    /// Components that are defined here, and what each instance of one adds.
    pub(super) components: Vec<(Item<'a>, Tally)>,
    /// What each instance of a module that is defined here adds.
    pub(super) modules: Vec<Tally>,
    pub(super) imports: Vec<(&'a str, Item<'a>)>,
    pub(super) exports: BTreeMap<&'a str, Item<'a>>,
    pub(super) tally: Tally,
}

impl<'a> Scope<'a> {
    fn get(&self, kind: Kind, index: u32) -> Item<'a> {
        let index = index as usize;
        let found = match kind {
            Kind::Type => self.types.get(index),
            Kind::Func => self.functions.get(index),
            Kind::Instance => self.instances.get(index),
            Kind::Component => self.components.get(index).map(|(item, _)| item),
            Kind::Module | Kind::Value => None,
        };
        found.cloned().unwrap_or_else(|| Item::plain(kind))
    }

    /// Gives an item the next index of its kind. Components and modules get one only where they are
    /// defined: with others they could be instantiated again and again without nesting.
    fn push(&mut self, item: Item<'a>) -> Result<(), Excess> {
        self.tally.add(Bound::Items, 1)?;
        self.tally.add(Bound::Types, item.size)?;
        match item.kind {
            Kind::Type => self.types.push(item),
            Kind::Func => self.functions.push(item),
            Kind::Instance => self.instances.push(item),
            Kind::Component | Kind::Module => self.tally.add(Bound::PassedItem, 1)?,
            Kind::Value => {}
        }
        Ok(())
    }

    fn value(&self, ty: &ComponentValType) -> u64 {
        match ty {
            ComponentValType::Primitive(_) => 1,
            ComponentValType::Type(index) => self.get(Kind::Type, *index).size,
        }
    }

    /// An instance of a component, or some items under one name.
    pub(super) fn instance(&mut self, instance: &ComponentInstance<'a>) -> Result<(), Excess> {
        self.tally.add(Bound::Instances, 1)?;
        let exports = match instance {
            ComponentInstance::Instantiate { component_index, args } => {
                self.tally.add(Bound::Items, args.len() as u64)?;
                for arg in args {
                    let size = self.get(arg.kind, arg.index).size;
                    self.tally.add(Bound::Types, size)?;
                    if matches!(arg.kind, Kind::Component | Kind::Module) {
                        self.tally.add(Bound::PassedItem, 1)?;
                    }
                }
                match self.components.get(*component_index as usize) {
                    Some((item, tally)) => {
                        self.tally.add_all(tally)?;
                        Rc::clone(&item.exports)
                    }
                    None => Rc::default(),
                }
            }
            ComponentInstance::FromExports(exports) => {
                self.tally.add(Bound::Items, exports.len() as u64)?;
                let export = |export: &wasmparser::ComponentExport<'a>| {
                    (export.name.name, self.get(export.kind, export.index))
                };
                let exports: BTreeMap<_, _> = exports.iter().map(export).collect();
                if exports.values().any(|e| matches!(e.kind, Kind::Component | Kind::Module)) {
                    self.tally.add(Bound::PassedItem, 1)?;
                }
                Rc::new(exports)
            }
        };
        let size = total(exports.values());
        self.push(Item { exports, size, ..Item::plain(Kind::Instance) })
    }

    /// An instance of a core module, or some core items under one name.
    pub(super) fn core_instance(&mut self, instance: &Instance<'a>) -> Result<(), Excess> {
        match instance {
            Instance::Instantiate { module_index, args } => {
                self.tally.add(Bound::CoreInstances, 1)?;
                self.tally.add(Bound::Items, args.len() as u64)?;
                if let Some(tally) = self.modules.get(*module_index as usize) {
                    self.tally.add_all(tally)?;
                }
                Ok(())
            }
            Instance::FromExports(exports) => self.tally.add(Bound::Items, exports.len() as u64),
        }
    }

    /// A function that crosses between the component and a core module.
    pub(super) fn canonical(&mut self, function: &CanonicalFunction) -> Result<(), Excess> {
        self.tally.add(Bound::Adapters, 1)?;
        match function {
            CanonicalFunction::Lift { type_index, .. } => {
                self.push(self.get(Kind::Type, *type_index).with_kind(Kind::Func))
            }
            CanonicalFunction::Lower { func_index, .. } => {
                self.tally.add(Bound::Types, self.get(Kind::Func, *func_index).size)
            }
            _ => Ok(()),
        }
    }
}

/// The scopes around the part that is being read, and its own.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a> {
    /// From the outermost. The first is around the component as a whole, and empty.
    outer: Vec<Scope<'a>>,
    pub(super) own: Scope<'a>,
}

impl<'a> Scopes<'a> {
    /// How many scopes there are, the own one included.
    pub(super) fn depth(&self) -> usize {
        self.outer.len()
    }

    pub(super) fn enter(&mut self) {
        self.outer.push(std::mem::take(&mut self.own));
    }

    pub(super) fn leave(&mut self) -> Scope<'a> {
        let outer = self.outer.pop().unwrap_or_default();
        std::mem::replace(&mut self.own, outer)
    }

    pub(super) fn import(&mut self, name: &'a str, ty: ComponentTypeRef) -> Result<(), Excess> {
        let item = self.refer(ty);
        self.own.imports.push((name, item.clone()));
        self.own.push(item)
    }

    pub(super) fn export(&mut self, name: &'a str, item: Item<'a>) -> Result<(), Excess> {
        self.own.exports.insert(name, item.clone());
        self.own.push(item)
    }

    pub(super) fn export_of(
        &mut self,
        export: &wasmparser::ComponentExport<'a>,
    ) -> Result<(), Excess> {
        let own = self.own.get(export.kind, export.index);
        let item = export.ty.map_or(own, |ty| self.refer(ty));
        self.export(export.name.name, item)
    }

    pub(super) fn alias(&mut self, alias: &ComponentAlias<'a>) -> Result<(), Excess> {
        let item = match alias {
            ComponentAlias::InstanceExport { kind, instance_index, name } => {
                let instance = self.own.get(Kind::Instance, *instance_index);
                instance.exports.get(name).cloned().unwrap_or_else(|| Item::plain(*kind))
            }
            ComponentAlias::Outer { kind, count, index } => match kind {
                ComponentOuterAliasKind::CoreModule => Item::plain(Kind::Module),
                ComponentOuterAliasKind::Component => Item::plain(Kind::Component),
                ComponentOuterAliasKind::Type => {
                    let mut scopes = self.outer.iter().chain([&self.own]).rev();
                    let scope = scopes.nth(*count as usize);
                    let found = scope.map(|scope| scope.get(Kind::Type, *index));
                    found.unwrap_or_else(|| Item::plain(Kind::Type))
                }
                ComponentOuterAliasKind::CoreType => {
                    return self.own.tally.add(Bound::Types, 1);
                }
            },
            ComponentAlias::CoreInstanceExport { .. } => {
                return self.own.tally.add(Bound::Items, 1);
            }
        };
        self.own.push(item)
    }

    pub(super) fn core_type(&mut self, ty: &CoreType<'_>) -> Result<(), Excess> {
        let declarations = match ty {
            CoreType::Rec(group) => group.types().len(),
            CoreType::Module(declarations) => declarations.len(),
        };
        self.own.tally.add(Bound::Types, declarations as u64 + 1)
    }

    pub(super) fn declare(&mut self, ty: &ComponentType<'a>) -> Result<(), Excess> {
        let item = self.declared(ty)?;
        self.own.push(item)
    }

    fn declared(&mut self, ty: &ComponentType<'a>) -> Result<Item<'a>, Excess> {
        let parts = match ty {
            ComponentType::Defined(ty) => defined(&self.own, ty),
            ComponentType::Func(ty) => {
                let values = ty.params.iter().map(|(_, ty)| ty).chain(&ty.result);
                values.map(|ty| self.own.value(ty)).fold(0, u64::saturating_add)
            }
            ComponentType::Resource { .. } => return Ok(Item::resource()),
            ComponentType::Component(declarations) => {
                return self.declared_within(declarations.iter().cloned());
            }
            ComponentType::Instance(declarations) => {
                let declarations = declarations.iter().cloned();
                return self.declared_within(declarations.map(as_component_declaration));
            }
        };
        Ok(Item::new(Kind::Type, parts.saturating_add(1), BTreeMap::new()))
    }

    /// The type of a component or an instance. Its depth was checked before it was read.
    fn declared_within(
        &mut self,
        declarations: impl Iterator<Item = ComponentTypeDeclaration<'a>>,
    ) -> Result<Item<'a>, Excess> {
        self.enter();
        for declaration in declarations {
            match declaration {
                ComponentTypeDeclaration::CoreType(ty) => self.core_type(&ty)?,
                ComponentTypeDeclaration::Type(ty) => self.declare(&ty)?,
                ComponentTypeDeclaration::Alias(alias) => self.alias(&alias)?,
                ComponentTypeDeclaration::Export { name, ty } => {
                    let item = self.refer(ty);
                    self.export(name.name, item)?;
                }
                ComponentTypeDeclaration::Import(import) => {
                    self.import(import.name.name, import.ty)?;
                }
            }
        }
        let scope = self.leave();
        let size = scope.tally.get(Bound::Types).saturating_add(1);
        Ok(Item::new(Kind::Type, size, scope.exports))
    }

    fn refer(&self, ty: ComponentTypeRef) -> Item<'a> {
        let of_type = |index, kind| self.own.get(Kind::Type, index).with_kind(kind);
        match ty {
            ComponentTypeRef::Module(_) => Item::plain(Kind::Module),
            ComponentTypeRef::Func(index) => of_type(index, Kind::Func),
            ComponentTypeRef::Value(_) => Item::plain(Kind::Value),
            ComponentTypeRef::Type(TypeBounds::Eq(index)) => of_type(index, Kind::Type),
            ComponentTypeRef::Type(TypeBounds::SubResource) => Item::resource(),
            ComponentTypeRef::Instance(index) => of_type(index, Kind::Instance),
            ComponentTypeRef::Component(index) => of_type(index, Kind::Component),
        }
    }
}

fn total<'i, 'a: 'i>(items: impl Iterator<Item = &'i Item<'a>>) -> u64 {
    items.map(|item| item.size).fold(1, u64::saturating_add)
}

fn as_component_declaration(
    declaration: InstanceTypeDeclaration<'_>,
) -> ComponentTypeDeclaration<'_> {
    match declaration {
        InstanceTypeDeclaration::CoreType(ty) => ComponentTypeDeclaration::CoreType(ty),
        InstanceTypeDeclaration::Type(ty) => ComponentTypeDeclaration::Type(ty),
        InstanceTypeDeclaration::Alias(alias) => ComponentTypeDeclaration::Alias(alias),
        InstanceTypeDeclaration::Export { name, ty } => {
            ComponentTypeDeclaration::Export { name, ty }
        }
    }
}

/// How many parts are within a value type.
fn defined(scope: &Scope<'_>, ty: &ComponentDefinedType<'_>) -> u64 {
    use ComponentDefinedType as Defined;
    let sum = |types: &mut dyn Iterator<Item = &ComponentValType>| {
        types.map(|ty| scope.value(ty)).fold(0, u64::saturating_add)
    };
    match ty {
        Defined::Primitive(_) | Defined::Own(_) | Defined::Borrow(_) => 0,
        Defined::Record(fields) => sum(&mut fields.iter().map(|(_, ty)| ty)),
        Defined::Variant(cases) => sum(&mut cases.iter().filter_map(|case| case.ty.as_ref()))
            .saturating_add(cases.len() as u64),
        Defined::Tuple(types) => sum(&mut types.iter()),
        Defined::Flags(names) | Defined::Enum(names) => names.len() as u64,
        Defined::List(ty) | Defined::Option(ty) => scope.value(ty),
        // A short type that is long when it is laid out: each element counts.
        Defined::FixedLengthList(ty, length) => scope.value(ty).saturating_mul(u64::from(*length)),
        Defined::Map(key, value) => scope.value(key).saturating_add(scope.value(value)),
        Defined::Result { ok, err } => sum(&mut ok.iter().chain(err)),
        Defined::Future(ty) | Defined::Stream(ty) => sum(&mut ty.iter()),
    }
}

/// Refuses types that are nested too deep, before any is read: reading them is recursive, and a
/// stack that overflows takes the process with it. Each level needs the two bytes that are counted
/// here, which occur elsewhere too, but not by the hundred.
pub(super) fn check_type_depth(section: &[u8]) -> Result<(), Excess> {
    const DECLARES_TYPE: u8 = 0x01;
    const COMPONENT_OR_INSTANCE: [u8; 2] = [0x41, 0x42];
    let nests = |two: &&[u8]| two[0] == DECLARES_TYPE && COMPONENT_OR_INSTANCE.contains(&two[1]);
    let depth = section.windows(2).filter(nests).count();
    Bound::TypeDepth.check(depth as u64)
}
