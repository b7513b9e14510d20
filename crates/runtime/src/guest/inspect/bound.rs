//! The bounds on what a component is made of, each with the reason for its number.

use std::fmt;

use super::super::setup::{CORE_INSTANCES_MAX, MEMORIES_MAX, TABLES_MAX};

/// A part of a component whose amount is bounded.
///
/// These bounds are on what can be told from the bytes in less time than they took to arrive. The
/// cost of compiling cannot be told: [`CompileLimits`](crate::guest::CompileLimits) bound that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Components within each other, the outermost included.
    Depth,
    /// Components, itself included.
    Components,
    /// Core modules.
    Modules,
    /// Bytes of the component's own sections: all but core modules and custom sections.
    OwnBytes,
    /// Types within types, in one section.
    TypeDepth,
    /// Components and core modules that are imported, exported or aliased instead of instantiated
    /// where they are defined.
    PassedItem,
    /// Instances of components, each counted as often as it is made.
    Instances,
    /// Instances of core modules, each counted as often as it is made.
    CoreInstances,
    /// Memories, each counted as often as it is made.
    Memories,
    /// Tables, each counted as often as it is made.
    Tables,
    /// Elements that a table begins with. The bound is the pinned limit of a guest's tables.
    TableElements,
    /// Functions that are lifted and lowered, each counted as often as it is made.
    Adapters,
    /// Imports, exports, aliases and arguments, each counted as often as it is made.
    Items,
    /// Parts of types, each counted as often as another type or a function names it.
    Types,
    /// Bytes of core modules that are neither code nor data.
    ModuleBytes,
    /// Imports, exports, types, globals, segments and elements of core modules.
    ModuleItems,
    /// Parameters and results of a core function.
    Arity,
    /// Functions of core modules.
    Functions,
    /// Bytes of one function.
    FunctionBytes,
}

const COUNTED: usize = Bound::FunctionBytes as usize + 1;

impl Bound {
    /// How much is allowed. In brackets is the most that was found in guests in Rust, JavaScript
    /// (the engine that every such guest contains) and Python.
    #[expect(clippy::match_same_arms, reason = "each number has its own reason")]
    pub const fn max(self) -> u64 {
        match self {
            // A composed component contains its parts, and those what they were composed of (2).
            Self::Depth => 4,
            // (2)
            Self::Components => 50,
            // Compilers' output instantiates each once (38).
            Self::Modules => CORE_INSTANCES_MAX as u64,
            // Once read, it can take fifty times as much memory (81 KB).
            Self::OwnBytes => 1 << 20,
            // wasmparser's own bound on the types that it reads (1).
            Self::TypeDepth => 100,
            // Otherwise instances multiply without nesting (0).
            Self::PassedItem => 0,
            // (1)
            Self::Instances => 100,
            // As many as the pool gives to one guest (38, 1, 2).
            Self::CoreInstances => CORE_INSTANCES_MAX as u64,
            Self::Memories => MEMORIES_MAX as u64,
            Self::Tables => TABLES_MAX as u64,
            // The limit that executions are pinned to; see `check_max`.
            Self::TableElements => u64::MAX,
            // Each becomes machine code (7; 19 with all that the contract has).
            Self::Adapters => 1_000,
            // (3,124)
            Self::Items => 20_000,
            // Types are compared, laid out and copied part by part (2,083).
            Self::Types => 50_000,
            // Once read, it can take fifty times as much memory (233 KB).
            Self::ModuleBytes => 2 << 20,
            // (20,295)
            Self::ModuleItems => 200_000,
            // A call of two bytes becomes an instruction for each (24).
            Self::Arity => 128,
            // Each costs a tenth of a millisecond however short it is (19,852).
            Self::Functions => 100_000,
            // A function is compiled on one core and cannot be divided (427 KB).
            Self::FunctionBytes => 2 << 20,
        }
    }

    /// The name of what is bounded, for people.
    const fn what(self) -> &'static str {
        match self {
            Self::Depth => "levels of components within each other",
            Self::Components => "components within it, itself included",
            Self::Modules => "core modules",
            Self::OwnBytes => "bytes of types, imports, exports, aliases and instances",
            Self::TypeDepth => "types within types",
            Self::PassedItem => "components or core modules that it imports, exports or aliases",
            Self::Instances => "instances of components",
            Self::CoreInstances => "instances of core modules",
            Self::Memories => "memories",
            Self::Tables => "tables",
            Self::TableElements => "elements in a table from the beginning",
            Self::Adapters => "lifted and lowered functions",
            Self::Items => "imports, exports, aliases and arguments of instances",
            Self::Types => "parts of types",
            Self::ModuleBytes => "bytes of core modules beside code and data",
            Self::ModuleItems => "imports, exports, types, globals and elements of core modules",
            Self::Arity => "parameters and results of one core function",
            Self::Functions => "core functions",
            Self::FunctionBytes => "bytes in one core function",
        }
    }

    /// What to do about it.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::FunctionBytes | Self::Arity => {
                "build with optimisation (`--release`), or split the largest functions"
            }
            Self::Functions | Self::ModuleBytes | Self::ModuleItems => {
                "build with optimisation (`--release`), or deploy the functions as several components"
            }
            Self::TableElements | Self::Tables | Self::Memories => {
                "a guest has one memory and one table: build it with `indelible build`"
            }
            _ => "build it with `indelible build`, or compose it of fewer components",
        }
    }

    /// Refuses more than is allowed.
    pub(super) fn check(self, found: u64) -> Result<(), Excess> {
        self.check_max(found, self.max())
    }

    /// The same, for a bound that is an option.
    pub(super) fn check_max(self, found: u64, max: u64) -> Result<(), Excess> {
        if found > max { Err(Excess { bound: self, found, max }) } else { Ok(()) }
    }
}

/// A component has more of something than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The bound that is exceeded.
    pub bound: Bound,
    /// How much was found until counting ended: it may have more.
    pub found: u64,
    /// How much is allowed.
    pub max: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, found, max } = self;
        write!(f, "it has {found} or more {}; at most {max} are allowed", bound.what())
    }
}

/// The amount of each part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally([u64; COUNTED]);

impl Tally {
    pub(super) fn get(&self, bound: Bound) -> u64 {
        self.0[bound as usize]
    }

    /// Adds to an amount, and refuses too much.
    pub(super) fn add(&mut self, bound: Bound, more: u64) -> Result<(), Excess> {
        let count = &mut self.0[bound as usize];
        *count = count.saturating_add(more);
        bound.check(*count)
    }

    /// Adds the amounts of an instance.
    pub(super) fn add_all(&mut self, other: &Self) -> Result<(), Excess> {
        for bound in [
            Bound::Instances,
            Bound::CoreInstances,
            Bound::Memories,
            Bound::Tables,
            Bound::Adapters,
            Bound::Items,
            Bound::Types,
        ] {
            self.add(bound, other.get(bound))?;
        }
        Ok(())
    }
}
