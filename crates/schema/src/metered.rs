//! An input whose every access is counted. The validator has no bound of its own on time and stack,
//! and a schema can make it look at the same value again and again: so the values that it looks at
//! count, and end the validation when it has taken too much.
//!
//! The end is an unwinding that [`within`] catches: no result could make the validator stop, because
//! alternatives go on after a failure.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;

use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use jsonschema::types::JsonType;
use serde_json::{Map, Number, Value, map};

/// How much stack one validation takes, in bytes: threads have at least 2 MiB.
const STACK_BYTES_MAX: usize = 768 * 1024;

/// So many bytes of a string count as much as one access: reading them takes about as long.
const STRING_BYTES_PER_STEP: usize = 64;

thread_local! {
    static STEPS_LEFT: Cell<u64> = const { Cell::new(0) };
    static STACK_BASE: Cell<usize> = const { Cell::new(0) };
}

/// The work took more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfSteps;

/// Does work that looks at metered values, for at most so many steps.
pub(crate) fn within<T>(steps: u64, work: impl FnOnce() -> T) -> Result<T, OutOfSteps> {
    STEPS_LEFT.set(steps);
    STACK_BASE.set(stack_position());
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        if !(*panic).is::<OutOfSteps>() {
            resume_unwind(panic);
        }
        OutOfSteps
    })
}

/// About where the stack ends now: the address of a local.
fn stack_position() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

fn count(steps: usize) {
    let steps = steps as u64;
    let left = STEPS_LEFT.get();
    if left < steps || STACK_BASE.get().abs_diff(stack_position()) > STACK_BYTES_MAX {
        // Not a panic: no hook is called, and no message is printed.
        resume_unwind(Box::new(OutOfSteps) as Box<dyn Any + Send>);
    }
    STEPS_LEFT.set(left - steps);
}

/// A JSON value whose accesses count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeteredValue<'a>(pub(crate) &'a Value);

/// JSON as [`MeteredValue`]s.
pub(crate) struct Metered;

impl Json for Metered {
    type Node<'a> = MeteredValue<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(MeteredValue<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        f(MeteredValue(buffer))
    }
}

impl<'a> Node<'a, Metered> for MeteredValue<'a> {
    type Object = MeteredObject<'a>;
    type Array = MeteredArray<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<MeteredObject<'a>> {
        count(1);
        self.0.as_object().map(MeteredObject)
    }

    fn as_array(&self) -> Option<MeteredArray<'a>> {
        count(1);
        self.0.as_array().map(|items| MeteredArray(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let string = self.0.as_str();
        count(1 + string.map_or(0, str::len) / STRING_BYTES_PER_STEP);
        string.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        count(1);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        count(1);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        count(1);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        count(1);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        count(1);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        count(1);
        Some(NodeIdentity::new(std::ptr::from_ref(self.0).addr()))
    }
}

pub(crate) struct MeteredObject<'a>(&'a Map<String, Value>);

impl<'a> Object<'a, Metered> for MeteredObject<'a> {
    type Node = MeteredValue<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        count(1);
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<MeteredValue<'a>> {
        count(1);
        self.0.get(key).map(MeteredValue)
    }

    fn members(&self) -> Members<'a> {
        Members(self.0.iter())
    }
}

pub(crate) struct Members<'a>(map::Iter<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, MeteredValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        count(1 + name.len() / STRING_BYTES_PER_STEP);
        Some((name, MeteredValue(value)))
    }
}

pub(crate) struct MeteredArray<'a>(&'a [Value]);

impl<'a> Array<'a, Metered> for MeteredArray<'a> {
    type Node = MeteredValue<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        count(1);
        self.0.len()
    }

    fn elements(&self) -> Elements<'a> {
        Elements(self.0.iter())
    }
}

pub(crate) struct Elements<'a>(slice::Iter<'a, Value>);

impl<'a> Iterator for Elements<'a> {
    type Item = MeteredValue<'a>;

    fn next(&mut self) -> Option<MeteredValue<'a>> {
        let value = self.0.next()?;
        count(1);
        Some(MeteredValue(value))
    }
}
