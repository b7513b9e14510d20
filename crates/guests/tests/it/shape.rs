//! What a guest looks like from outside: nothing is imported but the host's interface, the two
//! functions of the contract are exported, and the arena takes no place in the file.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test reads what was built")]

use std::fs;

use wasmparser::{ComponentTypeRef, Parser, Payload};

/// Names that a component imports and exports, and the names of its functions, if it has any.
#[derive(Default)]
struct Shape {
    imports: Vec<String>,
    exports: Vec<String>,
    has_names: bool,
    size: usize,
}

fn shape(name: &str) -> Shape {
    let bytes = fs::read(indelible_guests::component(name)).unwrap();
    let mut shape = Shape { size: bytes.len(), ..Shape::default() };
    // How many modules and components the parser is within.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.unwrap() {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import.unwrap();
                    // What types are called costs the host nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        shape.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    shape.exports.push(export.unwrap().name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => shape.has_names |= section.name() == "name",
            _ => {}
        }
    }
    shape
}

#[test]
fn all_guests() {
    for guest in
        ["approval", "behaviours", "fan-out", "order-saga", "other", "polling", "shop", "trivial"]
    {
        let shape = shape(guest);
        // Those that send requests know what one is.
        let sends = shape.imports.iter().any(|import| import.contains("/http@"));
        let mut imports = vec!["indelible:guest/types@0.1.0"];
        imports.extend(sends.then_some("indelible:guest/http@0.1.0"));
        imports.push("indelible:guest/host@0.1.0");
        assert_eq!(shape.imports, imports, "{guest}");
        assert_eq!(sends, ["behaviours", "shop"].contains(&guest), "{guest}");
        assert_eq!(shape.exports, ["describe", "run"], "{guest}");
        assert!(shape.has_names, "a trap in {guest} can say where it happened");
    }
}

#[test]
fn the_smallest() {
    let shape = shape("trivial");
    assert!(shape.size < 100_000, "the arena of 256 KiB is not in the file: {} bytes", shape.size);
}
