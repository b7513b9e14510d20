//! JSON Schemas of functions: whether an input fits one, and what is wrong with it if not.
//!
//! A schema comes from a component, and may be hostile; an input comes from a caller, and may be
//! hostile too. So a schema is bounded before it is compiled, refers to nothing outside of itself,
//! and has patterns of a linear-time engine only. A check takes a bounded number of steps; an input
//! that needs more is not refused, because what a function takes is for its decoder to say.
//!
//! This crate knows neither components nor the engine.

mod compare;
mod input;
mod metered;
mod prepare;
mod relax;
mod subschemas;
mod words;

use std::fmt;
use std::thread;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

pub use crate::compare::accepts_all;
use crate::metered::{Metered, MeteredValue, within};

/// How many schemas a schema may have within it.
pub const SUBSCHEMAS_MAX: usize = 5_000;

/// How many patterns of strings a schema may have: compiling one takes up to some milliseconds.
pub const PATTERNS_MAX: usize = 64;

/// How large a compiled pattern may be, in bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// How many steps a check takes at most. A step looks once at a value of the input, or at 64 bytes
/// of a string, and takes some tens of nanoseconds: this is below a second.
pub const STEPS_MAX: u64 = 16_000_000;

/// How many steps it takes to say what is wrong, at most: every problem is collected.
const WORDS_STEPS_MAX: u64 = 100_000;

/// How many problems are told.
pub const PROBLEMS_MAX: usize = 3;

/// The stack on which a schema is compiled, in bytes: the compiler descends into every reference.
const COMPILE_STACK_BYTES: usize = 64 << 20;

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not JSON, or is nested too deeply.
    #[error("is not JSON: {0}")]
    NotJson(String),
    /// It has too many schemas within it.
    #[error("has more than {SUBSCHEMAS_MAX} schemas within it")]
    TooManySubschemas,
    /// It has too many patterns.
    #[error("has more than {PATTERNS_MAX} patterns")]
    TooManyPatterns,
    /// It refers to another document.
    #[error("refers to `{0}`; references stay within the schema, as in `#/$defs/Name`")]
    Remote(String),
    /// It is not a JSON Schema.
    #[error("is not a valid JSON Schema: {0}")]
    Invalid(String),
    /// No thread could be had to compile it.
    #[error("cannot be compiled now: {0}")]
    NoThread(String),
}

/// A compiled schema.
pub struct Schema {
    /// Whether an input is accepted.
    accepts: Validator<Metered>,
    /// For schemas whose inputs serde decodes: the schema as it was written, which has the better
    /// words for what `accepts` refuses.
    written: Option<Validator<Metered>>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The input fits, as far as a schema can say.
    Fits,
    /// The input does not fit. The first problems; never empty.
    Misfit(Vec<Problem>),
    /// The check took more steps than it may: it is unknown whether the input fits.
    OutOfSteps,
}

/// Something that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: a JSON Pointer; empty for the whole input.
    pub pointer: String,
    /// What was expected there.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.expected),
            pointer => write!(f, "at {pointer}: {}", self.expected),
        }
    }
}

impl Schema {
    /// Compiles a schema, on a thread of its own.
    ///
    /// # Errors
    /// It is not a JSON Schema, or exceeds a bound.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("indelible-schema".to_owned());
            let compiled = builder
                .stack_size(COMPILE_STACK_BYTES)
                .spawn_scoped(scope, || Self::compile_here(text))
                .map_err(|error| SchemaError::NoThread(error.to_string()))?;
            compiled.join().unwrap_or_else(|_| {
                Err(SchemaError::Invalid("the compiler cannot handle it".to_owned()))
            })
        })
    }

    fn compile_here(text: &str) -> Result<Self, SchemaError> {
        let mut schema: Value =
            serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        prepare::check(&mut schema)?;
        if !relax::is_for_serde(&schema) {
            return Ok(Self { accepts: validator(schema)?, written: None });
        }
        let mut relaxed = schema.clone();
        relax::relax(&mut relaxed);
        Ok(Self { accepts: validator(relaxed)?, written: Some(validator(schema)?) })
    }

    /// Checks an input, in at most so many steps.
    pub fn check(&self, input: &[u8], steps: u64) -> Check {
        let input = match input::read(input) {
            Ok(input) => input,
            Err(error) => {
                let expected = format!("expected JSON: {error}");
                return Check::Misfit(vec![Problem { pointer: String::new(), expected }]);
            }
        };
        match within(steps, || self.accepts.is_valid(MeteredValue(&input))) {
            Ok(true) => Check::Fits,
            Ok(false) => Check::Misfit(self.problems(&input)),
            Err(_) => Check::OutOfSteps,
        }
    }

    /// The first problems of an input that is refused.
    fn problems(&self, input: &Value) -> Vec<Problem> {
        for schema in self.written.iter().chain([&self.accepts]) {
            let all = || {
                let mut problems: Vec<Problem> = Vec::new();
                for error in schema.iter_errors(MeteredValue(input)) {
                    let problem = words::problem(&error);
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                    if problems.len() == PROBLEMS_MAX {
                        break;
                    }
                }
                problems
            };
            match within(WORDS_STEPS_MAX, all) {
                Ok(problems) if !problems.is_empty() => return problems,
                _ => {}
            }
            // Where all problems take too long, one may not.
            let first = || schema.validate(MeteredValue(input)).err().map(|e| words::problem(&e));
            if let Ok(Some(problem)) = within(WORDS_STEPS_MAX, first) {
                return vec![problem];
            }
        }
        let expected = "it does not match the schema".to_owned();
        vec![Problem { pointer: String::new(), expected }]
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

fn validator(mut schema: Value) -> Result<Validator<Metered>, SchemaError> {
    prepare::meter(&mut schema);
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options_for::<Metered>()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns)
        .build(&schema)
        .map_err(|error| {
            let at = error.instance_path().to_string();
            let why = error.masked_with("the value");
            let why: String = why.to_string().chars().take(WHY_CHARS_MAX).collect();
            SchemaError::Invalid(if at.is_empty() { why } else { format!("at {at}: {why}") })
        })
}

/// How much of what the compiler says is told.
const WHY_CHARS_MAX: usize = 300;
