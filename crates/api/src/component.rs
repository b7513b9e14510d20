//! What is deployed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// How many of its executions are not over, roots and children of all namespaces. A list of
    /// components leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    /// Whether there may be more: a bounded number of executions is looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished_more: bool,
}

/// Which version to make the active one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// The digest of a version that was deployed under the name.
    pub digest: String,
}

/// A version that was made the active one. It is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activated {
    /// The component.
    pub name: String,
    /// Its active version.
    pub digest: String,
    /// What it can do.
    pub functions: Vec<Function>,
}

/// A function of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Its component.
    pub component: String,
    /// Its name.
    pub name: String,
    /// What it does, for people. Not there if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether its executions survive a crash; if not, they are in memory alone.
    pub persist: bool,
    /// Whether doing it twice does no harm.
    pub idem: bool,
    /// The JSON Schema of its input, if it has one: several arguments are an array. A list of
    /// components and the answer to a deployment leave schemas out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The JSON Schema of what it returns, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
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
