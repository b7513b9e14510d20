//! Whether an input fits a function: its schema is compiled once for each version, and kept.
//!
//! A check decides about a caller's request before anything is named. What a guest calls is not
//! checked: its decoder says what is wrong, as it does for functions without a schema.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use indelible_journal::{Codec, ComponentDigest, FunctionName, Payload};
use indelible_schema::{Check, Problem, STEPS_MAX, Schema};
use tracing::warn;

use crate::engine::EngineError;
use crate::reader::Lane;
use crate::shared::{Shared, lock};

/// How many schemas are kept compiled.
const KEPT_MAX: usize = 1_024;

/// How many bytes of schemas are kept compiled, counted as text: compiled they take some tens of
/// times as much.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// A larger input is checked on a thread for that, so that it holds up no other request.
const HERE_BYTES_MAX: usize = 16 * 1024;

/// The same for an input whose check takes more steps: this many take some tenths of a millisecond.
const HERE_STEPS_MAX: u64 = 4_000;

/// The compiled schemas of inputs, of the functions that were called last.
#[derive(Default)]
pub(crate) struct InputSchemas(Mutex<KeptSchemas>);

#[derive(Default)]
struct KeptSchemas {
    schemas: HashMap<FunctionKey, KeptSchema>,
    /// The sum of the texts' sizes.
    bytes: usize,
    /// How often a schema was taken from here, so far.
    uses: u64,
}

/// A function of a version.
type FunctionKey = (ComponentDigest, FunctionName);

struct KeptSchema {
    /// None: it does not compile. Versions before this one accepted such a schema.
    schema: Option<Arc<Schema>>,
    bytes: usize,
    /// When it was used last, as a count of uses.
    used: u64,
}

impl InputSchemas {
    fn get(&self, key: &FunctionKey) -> Option<Option<Arc<Schema>>> {
        let mut kept = lock(&self.0);
        kept.uses += 1;
        let uses = kept.uses;
        let found = kept.schemas.get_mut(key)?;
        found.used = uses;
        Some(found.schema.clone())
    }

    /// Compiles a schema, and keeps it. Another thread may do the same meanwhile.
    fn compile(&self, key: &FunctionKey, text: &str) -> Option<Arc<Schema>> {
        let schema = Schema::compile(text).map(Arc::new).inspect_err(|error| {
            let (version, function) = key;
            warn!(%version, %function, %error, "input schema cannot be used; inputs are unchecked");
        });
        let schema = schema.ok();
        let mut kept = lock(&self.0);
        kept.uses += 1;
        let (bytes, used) = (text.len(), kept.uses);
        let new = KeptSchema { schema: schema.clone(), bytes, used };
        kept.bytes += bytes;
        if let Some(old) = kept.schemas.insert(key.clone(), new) {
            kept.bytes -= old.bytes;
        }
        while kept.schemas.len() > KEPT_MAX || kept.bytes > KEPT_BYTES_MAX {
            let oldest = kept.schemas.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            if let Some(gone) = kept.schemas.remove(&oldest) {
                kept.bytes -= gone.bytes;
            }
        }
        schema
    }
}

impl Shared {
    /// What is wrong with an input for a function of a version; empty if nothing is, or if that
    /// cannot be said.
    pub(crate) async fn check_input(
        &self,
        version: &ComponentDigest,
        function: &FunctionName,
        input: &Payload,
    ) -> Result<Vec<Problem>, EngineError> {
        let functions = self.components.functions(version)?;
        let spec = functions.as_ref().and_then(|all| all.function(function.as_str()));
        let text = spec.and_then(|spec| spec.input_schema.clone());
        let Some(text) = text.filter(|_| input.codec == Codec::JSON) else { return Ok(Vec::new()) };
        let key = (*version, function.clone());
        if input.bytes.len() <= HERE_BYTES_MAX
            && let Some(kept) = self.components.inputs.get(&key)
        {
            let Some(schema) = kept else { return Ok(Vec::new()) };
            match schema.check(&input.bytes, HERE_STEPS_MAX) {
                Check::OutOfSteps => {}
                check => return Ok(problems(check)),
            }
        }
        let bytes = input.bytes.clone();
        let work = move |shared: &Shared| {
            let inputs = &shared.components.inputs;
            let schema = inputs.get(&key).unwrap_or_else(|| inputs.compile(&key, &text));
            schema.map_or_else(Vec::new, |schema| problems(schema.check(&bytes, STEPS_MAX)))
        };
        let entered = self.reader.enter(Lane::Inputs).await?;
        self.reader.run(self, Lane::Inputs, &entered, work).await
    }
}

fn problems(check: Check) -> Vec<Problem> {
    match check {
        Check::Misfit(problems) => problems,
        // Whether it fits is for the function's decoder to say, as if there were no schema.
        Check::Fits | Check::OutOfSteps => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> FunctionKey {
        let name = FunctionName::new(&format!("f{number}")).expect("it is a name");
        (ComponentDigest::of(b"a component"), name)
    }

    /// The schemas that were used last stay.
    #[test]
    fn kept_schemas_are_bounded() {
        let inputs = InputSchemas::default();
        for number in 0..KEPT_MAX {
            assert!(inputs.compile(&key(number), "true").is_some());
        }
        assert!(inputs.get(&key(0)).is_some());
        assert!(inputs.compile(&key(KEPT_MAX), "{").is_none());
        let known = |number| inputs.get(&key(number)).is_some();
        assert!(known(0) && known(KEPT_MAX) && !known(1));
        let large = format!("{{\"title\": \"{}\"}}", "x".repeat(KEPT_BYTES_MAX / 2));
        for number in 0..2 {
            assert!(inputs.compile(&key(number), &large).is_some());
        }
        let kept = lock(&inputs.0);
        assert_eq!((kept.schemas.len(), kept.bytes), (1, large.len()));
    }
}
