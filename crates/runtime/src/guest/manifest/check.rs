//! The rules of a manifest, whether a guest gave it or it was stored.

use std::sync::Arc;

use indelible_execution::policy;
use indelible_journal::{FunctionName, RetryPolicy};
use indelible_schema::Schema;
use serde::de::IgnoredAny;

use super::super::bounds::cut;
use super::super::wire;
use super::{FunctionSpec, Manifest, ManifestError};

/// How many functions a component may have.
const FUNCTIONS_MAX: usize = 1_000;

/// How long a function's name may be, in bytes: with a component's name before it, it must still be
/// a valid name.
const NAME_BYTES_MAX: usize = 128;

/// How long a description may be, in bytes: a page of text.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

/// How long a schema may be, in bytes.
const SCHEMA_BYTES_MAX: usize = 256 * 1024;

/// How long a whole manifest may be, in bytes: it is kept in memory for each version that is in
/// use.
const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// Checks a guest's description of itself.
pub(in super::super) fn check(functions: Vec<wire::Function>) -> Result<Manifest, ManifestError> {
    if functions.len() > FUNCTIONS_MAX {
        return Err(ManifestError::TooMany { count: functions.len(), max: FUNCTIONS_MAX });
    }
    let functions = functions.into_iter().map(function).collect::<Result<Vec<_>, _>>()?;
    let manifest = manifest(functions)?;
    manifest.functions().iter().try_for_each(compile_schemas)?;
    Ok(manifest)
}

/// Whether the schemas of a function compile. Asked at deployment alone: what is stored was
/// deployed, perhaps by a version that did not ask.
fn compile_schemas(spec: &FunctionSpec) -> Result<(), ManifestError> {
    for (which, schema) in [("input", &spec.input_schema), ("output", &spec.output_schema)] {
        let Some(schema) = schema else { continue };
        Schema::compile(schema).map_err(|error| ManifestError::Function {
            function: spec.name.clone(),
            problem: format!("its {which} schema {error}"),
        })?;
    }
    Ok(())
}

/// Checks functions together.
pub(super) fn manifest(mut functions: Vec<FunctionSpec>) -> Result<Manifest, ManifestError> {
    match functions.len() {
        0 => return Err(ManifestError::Empty),
        1..=FUNCTIONS_MAX => {}
        count => return Err(ManifestError::TooMany { count, max: FUNCTIONS_MAX }),
    }
    let bytes = functions.iter().map(size).sum();
    if bytes > MANIFEST_BYTES_MAX {
        return Err(ManifestError::TooLong { bytes, max: MANIFEST_BYTES_MAX });
    }
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    match functions.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(ManifestError::Duplicate(pair[0].name.clone())),
        None => Ok(Manifest { functions }),
    }
}

fn size(function: &FunctionSpec) -> usize {
    let schema = |schema: &Option<Arc<str>>| schema.as_ref().map_or(0, |text| text.len());
    function.name.as_str().len()
        + function.description.len()
        + schema(&function.input_schema)
        + schema(&function.output_schema)
}

fn function(function: wire::Function) -> Result<FunctionSpec, ManifestError> {
    let wire::Function { name, description, persist, idem, retry_policy, .. } = function;
    let name = self::name(&name)?;
    let policy = policy::Retries::from(retry_policy).of_function(policy::class(persist, idem));
    spec(name, description, policy, function.input_schema, function.output_schema)
}

/// Checks one function.
pub(super) fn spec(
    name: FunctionName,
    description: String,
    policy: RetryPolicy,
    input_schema: Option<String>,
    output_schema: Option<String>,
) -> Result<FunctionSpec, ManifestError> {
    let checked = (|| {
        if description.len() > DESCRIPTION_BYTES_MAX {
            return Err(too_long("description", description.len(), DESCRIPTION_BYTES_MAX));
        }
        policy::check(&policy)?;
        Ok((schema("input", input_schema)?, schema("output", output_schema)?))
    })();
    match checked {
        Ok((input_schema, output_schema)) => {
            let retry_policy = Arc::new(policy);
            Ok(FunctionSpec { name, description, retry_policy, input_schema, output_schema })
        }
        Err(problem) => Err(ManifestError::Function { function: name, problem }),
    }
}

/// A name that reads the same in a URL, in a shell and in a path of names.
pub(super) fn name(name: &str) -> Result<FunctionName, ManifestError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let problem = if name.len() > NAME_BYTES_MAX {
        format!("it has {} bytes; at most {NAME_BYTES_MAX} are allowed", name.len())
    } else if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        format!("it has {c:?}; letters, digits, `_`, `-` and `.` are allowed")
    } else {
        match FunctionName::new(name) {
            Ok(name) => return Ok(name),
            Err(error) => error.to_string(),
        }
    };
    let name = cut(name.escape_debug().to_string(), NAME_BYTES_MAX);
    Err(ManifestError::Name { name, problem })
}

fn schema(which: &str, schema: Option<String>) -> Result<Option<Arc<str>>, String> {
    let Some(text) = schema else { return Ok(None) };
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(too_long(&format!("{which} schema"), text.len(), SCHEMA_BYTES_MAX));
    }
    serde_json::from_str::<IgnoredAny>(&text)
        .map_err(|error| format!("its {which} schema is not JSON: {error}"))?;
    Ok(Some(text.into()))
}

fn too_long(what: &str, bytes: usize, max: usize) -> String {
    format!("its {what} has {bytes} bytes; at most {max} are allowed")
}
