//! A guest of ordinary size lives in its arena: its memory never grows.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test reads what was built")]

use std::fs;

use wasmtime::component::{Component, Linker, Val};
use wasmtime::{Engine, ResourceLimiter, Store};

/// Counts how often a memory grows.
#[derive(Default)]
struct Growth {
    count: usize,
}

impl ResourceLimiter for Growth {
    fn memory_growing(
        &mut self,
        current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // It begins with nothing: that is no growing.
        self.count += usize::from(current > 0);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(true)
    }
}

/// What a function returns, as text, and how often the memory grew.
fn run(guest: &str, function: &str, input: &str) -> (String, usize) {
    let engine = Engine::default();
    let bytes = fs::read(indelible_guests::component(guest)).unwrap();
    let component = Component::new(&engine, bytes).unwrap();
    let mut linker = Linker::new(&engine);
    linker.define_unknown_imports_as_traps(&component).unwrap();
    let mut store = Store::new(&engine, Growth::default());
    store.limiter(|growth| growth);
    let instance = linker.instantiate(&mut store, &component).unwrap();
    let run = instance.get_func(&mut store, "run").unwrap();
    let payload = Val::Record(vec![
        ("codec".to_owned(), Val::U8(1)),
        ("bytes".to_owned(), Val::List(input.bytes().map(Val::U8).collect())),
    ]);
    let mut results = [Val::Bool(false)];
    run.call(&mut store, &[Val::String(function.to_owned()), payload], &mut results).unwrap();
    let [Val::Result(Ok(Some(returned)))] = results else { panic!("it failed: {results:?}") };
    let Val::Record(fields) = *returned else { panic!("a payload is a record") };
    let Val::List(bytes) = &fields[1].1 else { panic!("bytes are a list") };
    let bytes = bytes.iter().map(|byte| if let Val::U8(byte) = byte { *byte } else { 0 });
    (String::from_utf8(bytes.collect()).unwrap(), store.data().count)
}

#[test]
fn small_guests_never_grow() {
    let text = format!("\"{}\"", "x".repeat(50_000));
    assert_eq!(run("trivial", "echo", &text), (text, 0));
    assert_eq!(run("behaviours", "add", "[1,2]"), ("3".to_owned(), 0));
}

/// A larger one grows, in one step.
#[test]
fn large_guests_grow_seldom() {
    let (output, grown) = run("behaviours", "big_output", "900000");
    assert_eq!((output.len(), grown), (900_000, 1));
}
