//! The bindings are what the generator makes of the contract. `cargo xtask bindings` rewrites
//! them.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test reads and rewrites a source file"
)]

use std::path::Path;
use std::{env, fs};

use wit_bindgen_core::wit_parser::{Resolve, UnresolvedPackageGroup};
use wit_bindgen_core::{Files, WorldGenerator as _};

const HEADING: &str = "//! Generated from `wit/guest.wit`: `cargo xtask bindings` rewrites it.\n";

fn generate(wit: &str) -> String {
    let mut resolve = Resolve::default();
    let parsed = UnresolvedPackageGroup::parse("guest.wit", wit).unwrap();
    let package = resolve.push_group(parsed).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    let options = wit_bindgen_rust::Opts {
        format: true,
        generate_all: true,
        runtime_path: Some("crate::rt".to_owned()),
        default_bindings_module: Some("indelible_sdk::bindings".to_owned()),
        pub_export_macro: true,
        ..Default::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, bytes) = files.iter().next().unwrap();
    format!("{HEADING}{}", str::from_utf8(bytes).unwrap())
}

#[test]
fn rewritable_bindings_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wit = fs::read_to_string(folder.join("wit/guest.wit")).unwrap();
    let path = folder.join("src/bindings.rs");
    let expected = generate(&wit);
    if env::var_os("INDELIBLE_REWRITE").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(found == expected, "the bindings are out of date: run `cargo xtask bindings`");
}
