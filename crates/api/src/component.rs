//! What is deployed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// The version that new calls take.
    pub active: String,
    /// All versions, oldest first.
    pub versions: Vec<Version>,
    /// What the active version can do.
    pub functions: Vec<Function>,
}

/// A version of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The SHA-256 of the component.
    pub digest: String,
    /// When it was deployed under this name for the first time.
    pub deployed_at: String,
}

/// A function of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Its component.
    pub component: String,
    /// Its name.
    pub name: String,
    /// Whether its executions survive a crash; if not, they are in memory alone.
    pub persist: bool,
    /// Whether doing it twice does no harm.
    pub idem: bool,
}

/// All components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    /// By name.
    pub components: Vec<Component>,
}

/// All functions of the active versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Functions {
    /// By component and name.
    pub functions: Vec<Function>,
}

/// A component that was deployed. It is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deployed {
    /// Its name.
    pub name: String,
    /// Its version.
    pub digest: String,
    /// Whether this very version was deployed under this name before.
    pub known: bool,
    /// What it can do.
    pub functions: Vec<Function>,
}
