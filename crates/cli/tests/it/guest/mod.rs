//! `indelible new`, `indelible sdk` and `indelible build` with the real binary, cargo and compiler.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "the tests make folders")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn indelible(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(arguments)
        .current_dir(folder)
        // The project's own guests need the same crates, and were built before.
        .env("CARGO_NET_OFFLINE", "true")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A new project builds as it is, without a network, and is a guest.
#[test]
fn new_and_build() {
    _ = indelible_guests::component("trivial");
    let folder = tempfile::tempdir().unwrap();
    let output = indelible(&["new", "order-saga"], folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "order-saga\n");
    let readme = fs::read_to_string(folder.path().join("order-saga/README.md")).unwrap();
    assert!(readme.contains("release/order_saga.wasm"), "{readme}");

    let output = indelible(&["build", "order-saga"], folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let path = Path::new(printed.trim_end());
    assert!(path.ends_with("target/wasm32-unknown-unknown/release/order_saga.wasm"), "{printed}");
    assert!(!text(&output.stderr).contains("warning"), "{}", text(&output.stderr));
    let bytes = fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\0asm\x0d\0\x01\0"), "it is a component");
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(contains(b"describe") && contains(b"run"));
    assert!(contains(b"indelible:guest/host@0.1.0"));
    assert!(!contains(b"wasi:"), "it asks for nothing but the host");
}

/// A project's SDK is replaced as a whole, and nothing else is.
#[test]
fn another_sdk() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("shop");
    assert!(indelible(&["new", "shop"], folder.path()).status.success());
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    let (lib, manifest) = (read("sdk/src/lib.rs"), read("sdk/Cargo.toml"));
    fs::write(project.join("sdk/src/lib.rs"), "of another version").unwrap();
    fs::write(project.join("sdk/src/gone.rs"), "of another version").unwrap();
    fs::write(project.join("src/lib.rs"), "the user's").unwrap();
    let output = indelible(&["sdk"], &project);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "./sdk\n");
    assert_eq!((read("sdk/src/lib.rs"), read("sdk/Cargo.toml")), (lib, manifest));
    assert_eq!(read("src/lib.rs"), "the user's");
    assert!(!project.join("sdk/src/gone.rs").exists());
    let count = fs::read_dir(&project).unwrap().count();
    assert_eq!(count, 6, ".cargo, .gitignore, Cargo.toml, README.md, sdk and src");

    let output = indelible(&["sdk", "shop", "--json"], folder.path());
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("{{\"v\":1,\"version\":\"{version}\",\"path\":\"shop/sdk\"}}\n");
    assert_eq!(text(&output.stdout), expected);

    for (path, why) in [("shop/src", "shop/src has no SDK in `sdk`"), ("none", "none has no SDK")] {
        let output = indelible(&["sdk", path], folder.path());
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(why) && said.contains("nothing was changed"), "{said}");
    }
}

/// What is there stays as it is, and names that make no package are refused.
#[test]
fn refusals() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("taken")).unwrap();
    for (name, why) in [
        ("taken", "error: taken already exists\n"),
        ("Order", "error: invalid project name `Order`"),
        ("fn", "it is a keyword of Rust"),
    ] {
        let output = indelible(&["new", name], folder.path());
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains(why), "{said}");
        assert!(said.contains("hint: "), "{said}");
    }
    let output = indelible(&["new", "missing/order"], folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing was changed");

    let output = indelible(&["build", "taken"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: taken has no Cargo.toml"));
}
