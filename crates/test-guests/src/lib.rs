//! Components out of text: a core module against the contract's own WIT, wrapped.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The contract.
pub const WIT: &str = include_str!("../../sdk/wit/guest.wit");

/// Where `describe` finds what it returns.
const MANIFEST_AT: usize = 4096;

/// Everything that a guest can import. All of it, so that each test also shows that the whole
/// interface links.
const IMPORTS: &str = r#"
  (import "indelible:guest/host@0.1.0" "call"
    (func $call (param i32 i32 i32 i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "send-http"
    (func $send_http (param i32) (result i32)))
  (import "indelible:guest/host@0.1.0" "start-timer" (func $start_timer (param i64) (result i32)))
  (import "indelible:guest/host@0.1.0" "await-one" (func $await_one (param i32 i32)))
  (import "indelible:guest/host@0.1.0" "await-any" (func $await_any (param i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "await-all" (func $await_all (param i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "await-signal" (func $await_signal (param i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "await-signal-or"
    (func $await_signal_or (param i32 i32 i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "create-join-set" (func $create_join_set (result i32)))
  (import "indelible:guest/host@0.1.0" "submit" (func $submit (param i32 i32)))
  (import "indelible:guest/host@0.1.0" "next" (func $next (param i32 i32)))
  (import "indelible:guest/host@0.1.0" "take-all" (func $take_all (param i32 i32)))
  (import "indelible:guest/host@0.1.0" "now" (func $now (result i64)))
  (import "indelible:guest/host@0.1.0" "random" (func $random (param i32 i32)))
  (import "indelible:guest/host@0.1.0" "context" (func $context (param i32)))
  (import "indelible:guest/host@0.1.0" "label" (func $label (param i32 i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "log" (func $log (param i32 i32 i32 i32 i32)))
  (import "indelible:guest/host@0.1.0" "report-panic" (func $report_panic (param i32 i32 i32 i32)))
"#;

/// What every guest has. Addresses below 4096 are the test's own.
const COMMON: &str = r#"
  (global $heap (mut i32) (i32.const 65536))
  (func $alloc (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (block $room
      (br_if $room
        (i32.le_u (global.get $heap) (i32.shl (memory.size) (i32.const 16))))
      (br_if $room
        (i32.ne
          (i32.const -1)
          (memory.grow
            (i32.add
              (i32.const 1)
              (i32.sub
                (i32.shr_u (global.get $heap) (i32.const 16))
                (memory.size))))))
      unreachable)
    (local.get $at))
  (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
    (call $alloc (local.get $align) (local.get $size)))
  ;; Ok of these bytes.
  (func $ok (param $codec i32) (param $ptr i32) (param $len i32) (result i32)
    (i32.store8 (i32.const 0) (i32.const 0))
    (i32.store8 (i32.const 4) (local.get $codec))
    (i32.store (i32.const 8) (local.get $ptr))
    (i32.store (i32.const 12) (local.get $len))
    (i32.const 0))
  ;; Ok of four bytes.
  (func $ok_u32 (param $value i32) (result i32)
    (i32.store (i32.const 256) (local.get $value))
    (call $ok (i32.const 0) (i32.const 256) (i32.const 4)))
  ;; Err of this kind and message.
  (func $err (param $kind i32) (param $ptr i32) (param $len i32) (result i32)
    (i32.store8 (i32.const 0) (i32.const 1))
    (i32.store8 (i32.const 4) (local.get $kind))
    (i32.store (i32.const 8) (local.get $ptr))
    (i32.store (i32.const 12) (local.get $len))
    (i32.store8 (i32.const 16) (i32.const 0))
    (i32.const 0))
"#;

/// A guest in text.
#[derive(Clone)]
pub struct Source {
    memory: String,
    items: String,
    describe: String,
    run: String,
    functions: Vec<Function>,
}

/// A function as `describe` has it.
#[derive(Clone)]
pub struct Function {
    /// What it is called.
    pub name: String,
    /// What it is for, in words.
    pub description: String,
    /// Whether its executions are stored.
    pub persist: bool,
    /// Whether it may be run twice.
    pub idem: bool,
    /// How often it is tried again; none for ever.
    pub retries_max: Option<u32>,
    /// How long it waits before the second attempt, in microseconds.
    pub backoff_base: u64,
    /// How long it waits at most.
    pub backoff_cap: u64,
    /// When it is given up, in microseconds from its start.
    pub deadline: Option<u64>,
    /// The JSON Schema of its input.
    pub input_schema: Option<String>,
    /// The JSON Schema of what it returns.
    pub output_schema: Option<String>,
}

impl Function {
    /// A function that is stored, and tried three times again.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            persist: true,
            idem: false,
            retries_max: Some(3),
            backoff_base: 1_000_000,
            backoff_cap: 60_000_000,
            deadline: None,
            input_schema: None,
            output_schema: None,
        }
    }
}

impl Source {
    /// A guest whose `run` has this body. Its parameters are `$name`, `$name_len`, `$codec`,
    /// `$ptr` and `$len`.
    pub fn new(run: &str) -> Self {
        Self {
            memory: "4".into(),
            items: String::new(),
            describe: format!("(i32.const {MANIFEST_AT})"),
            run: run.into(),
            functions: vec![Function::new("f")],
        }
    }

    /// Returns what it got.
    pub fn echo() -> Self {
        Self::new("(call $ok (local.get $codec) (local.get $ptr) (local.get $len))")
    }

    /// Awaits promise 7, and then returns nothing.
    pub fn waits() -> Self {
        Self::new(
            "(call $await_one (i32.const 7) (i32.const 512))
             (call $ok (i32.const 0) (i32.const 0) (i32.const 0))",
        )
    }

    /// Runs for ever.
    pub fn endless() -> Self {
        Self::new("(loop $again (br $again)) unreachable")
    }

    /// The minimum and maximum of the memory, in pages.
    pub fn memory(mut self, limits: &str) -> Self {
        self.memory = limits.into();
        self
    }

    /// More functions, data and so on.
    pub fn items(mut self, items: &str) -> Self {
        self.items = items.into();
        self
    }

    /// The body of `describe`.
    pub fn describe(mut self, describe: &str) -> Self {
        self.describe = describe.into();
        self
    }

    /// What `describe` returns.
    pub fn functions(mut self, functions: &[Function]) -> Self {
        self.functions = functions.to_vec();
        self
    }

    /// The core module.
    pub fn core(&self) -> String {
        let Self { memory, items, describe, run, functions } = self;
        let data: String = manifest(functions).iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!(
            r#"(module {IMPORTS}
  (memory (export "memory") {memory}) {COMMON} {items}
  (data (i32.const {MANIFEST_AT}) "{data}")
  (func (export "describe") (result i32) {describe})
  (func $run (export "run")
    (param $name i32) (param $name_len i32) (param $codec i32) (param $ptr i32) (param $len i32)
    (result i32) {run}))"#
        )
    }

    /// The component.
    pub fn component(&self) -> Vec<u8> {
        component(&self.core(), WIT)
    }
}

/// Wraps a core module as the world `guest` of some WIT.
pub fn component(core: &str, wit: &str) -> Vec<u8> {
    let mut module = wat::parse_str(core).expect("the module is well formed");
    let mut resolve = Resolve::default();
    let package = resolve.push_source("guest.wit", wit).expect("the WIT is well formed");
    let world = resolve.select_world(&[package], Some("guest")).expect("there is a world");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)
        .expect("the module takes it");
    ComponentEncoder::default()
        .module(&module)
        .expect("the module is of this world")
        .validate(true)
        .encode()
        .expect("it can be a component")
}

/// `list<function>` as the canonical ABI has it, at [`MANIFEST_AT`].
fn manifest(functions: &[Function]) -> Vec<u8> {
    const HEADER: usize = 8;
    const RECORD: usize = 88;
    let mut fixed = Vec::new();
    let mut texts = Vec::new();
    let texts_at = MANIFEST_AT + HEADER + RECORD * functions.len();
    fixed.extend(u32_bytes(MANIFEST_AT + HEADER));
    fixed.extend(u32_bytes(functions.len()));
    for function in functions {
        let mut text = |text: &str| {
            let at = texts_at + texts.len();
            texts.extend_from_slice(text.as_bytes());
            [u32_bytes(at), u32_bytes(text.len())].concat()
        };
        fixed.extend(text(&function.name));
        fixed.extend(text(&function.description));
        fixed.extend([u8::from(function.persist), u8::from(function.idem), 0, 0, 0, 0, 0, 0]);
        fixed.extend(u32::from(function.retries_max.is_some()).to_le_bytes());
        fixed.extend(function.retries_max.unwrap_or(0).to_le_bytes());
        fixed.extend(function.backoff_base.to_le_bytes());
        fixed.extend(function.backoff_cap.to_le_bytes());
        fixed.extend(u64::from(function.deadline.is_some()).to_le_bytes());
        fixed.extend(function.deadline.unwrap_or(0).to_le_bytes());
        for schema in [&function.input_schema, &function.output_schema] {
            fixed.extend(u32::from(schema.is_some()).to_le_bytes());
            fixed.extend(text(schema.as_deref().unwrap_or("")));
        }
    }
    assert_eq!(fixed.len(), texts_at - MANIFEST_AT);
    fixed.extend(texts);
    fixed
}

fn u32_bytes(number: usize) -> Vec<u8> {
    u32::try_from(number).expect("addresses are small").to_le_bytes().to_vec()
}
