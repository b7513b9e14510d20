//! What is wrong with an input, for people: where, and what was expected.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::Problem;

/// How long one expectation is at most, in bytes; longer ones are cut.
const EXPECTED_BYTES_MAX: usize = 200;

/// How many values an expectation lists.
const LISTED_MAX: usize = 8;

/// How deep alternatives within alternatives are looked into.
const ALTERNATIVES_DEPTH_MAX: usize = 8;

pub(crate) fn problem(error: &ValidationError<'_>) -> Problem {
    describe(error, ALTERNATIVES_DEPTH_MAX)
}

fn describe(error: &ValidationError<'_>, depth: usize) -> Problem {
    if let Some(closer) = alternatives(error).filter(|_| depth > 0).and_then(closest) {
        return describe(closer, depth - 1);
    }
    let pointer = error.instance_path().to_string();
    Problem { pointer, expected: cut(expected(error)) }
}

fn alternatives<'a>(
    error: &'a ValidationError<'_>,
) -> Option<&'a Vec<Vec<ValidationError<'static>>>> {
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            Some(context)
        }
        _ => None,
    }
}

/// The first error of the alternative that was meant, if one stands out: the value has its type and
/// its tag.
fn closest<'a>(
    alternatives: &'a Vec<Vec<ValidationError<'static>>>,
) -> Option<&'a ValidationError<'static>> {
    let depth =
        |error: &ValidationError<'_>| error.instance_path().to_string().matches('/').count();
    let top = alternatives.iter().flatten().map(depth).min()?;
    let is_other = |error: &ValidationError<'_>| match error.kind() {
        ValidationErrorKind::Type { .. } | ValidationErrorKind::Enum { .. } => depth(error) == top,
        ValidationErrorKind::Constant { .. } => depth(error) <= top + 1,
        _ => false,
    };
    let mut meant = alternatives.iter().filter(|errors| !errors.iter().any(is_other));
    match (meant.next(), meant.next()) {
        (Some(one), None) => one.first(),
        _ => None,
    }
}

fn expected(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    match error.kind() {
        ValidationErrorKind::Type { .. }
        | ValidationErrorKind::Constant { .. }
        | ValidationErrorKind::Enum { .. } => {
            format!("expected {}, got {}", wanted(error).unwrap_or_default(), shown(value))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let path = error.instance_path();
            let here = context.iter().flatten().filter(|inner| inner.instance_path() == path);
            let mut all: Vec<String> = here.filter_map(wanted).collect();
            all.sort();
            all.dedup();
            match all.is_empty() {
                true => format!("{} fits none of the alternatives", shown(value)),
                false => format!("expected {}, got {}", all.join(" or "), shown(value)),
            }
        }
        ValidationErrorKind::Required { property } => match property.as_str() {
            Some(name) => format!("`{name}` is missing"),
            None => "a property is missing".to_owned(),
        },
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            format!("unexpected `{}`", listed(unexpected.iter().map(String::as_str), "`, `"))
        }
        ValidationErrorKind::MinItems { limit } => {
            format!("expected at least {}, got {}", items(*limit), count(value))
        }
        ValidationErrorKind::MaxItems { limit } => {
            format!("expected at most {}, got {}", items(*limit), count(value))
        }
        ValidationErrorKind::Minimum { limit } => format!("{} is less than {limit}", shown(value)),
        ValidationErrorKind::Maximum { limit } => format!("{} is more than {limit}", shown(value)),
        ValidationErrorKind::FalseSchema => "nothing is allowed here".to_owned(),
        _ => error.masked_with("the value").to_string(),
    }
}

/// What one schema would take at this place.
fn wanted(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(one) } => Some(one.to_string()),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(several) } => {
            let names: Vec<String> = several.iter().map(|one| one.to_string()).collect();
            Some(names.join(" or "))
        }
        ValidationErrorKind::Constant { expected_value } => Some(expected_value.to_string()),
        ValidationErrorKind::Enum { options } => match &**options {
            Value::Array(options) => {
                let options: Vec<String> = options.iter().map(ToString::to_string).collect();
                Some(listed(options.iter().map(String::as_str), " or "))
            }
            other => Some(other.to_string()),
        },
        _ => None,
    }
}

fn listed<'a>(all: impl ExactSizeIterator<Item = &'a str>, between: &str) -> String {
    let more = all.len().saturating_sub(LISTED_MAX);
    let mut shown: Vec<&str> = all.take(LISTED_MAX).collect();
    if more > 0 {
        shown.push("…");
    }
    shown.join(between)
}

fn items(count: u64) -> String {
    if count == 1 { "1 item".to_owned() } else { format!("{count} items") }
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// A number or a word as it is, and only the type of what may be long or private.
fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn cut(mut text: String) -> String {
    if text.len() > EXPECTED_BYTES_MAX {
        text.truncate(text.floor_char_boundary(EXPECTED_BYTES_MAX));
        text.push('…');
    }
    text
}
