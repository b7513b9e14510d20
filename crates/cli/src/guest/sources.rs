//! The SDK as a project has it, in `sdk/`: its sources, and those of the crates that its test host is
//! made of, with manifests that stand alone.

use toml::{Table, Value};

use super::files::File;

/// Sources and manifests, by their paths in `crates`.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The manifest of the workspace, from which the others inherit.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");

/// What the manifests that a project gets begin with.
const HEADING: &str = "# Written by `indelible`: `indelible sdk` writes it again.\n\n";

/// All files of the SDK.
pub(super) fn all() -> impl Iterator<Item = File> {
    SOURCES.iter().map(|(path, text)| {
        let text = match path.strip_suffix("/Cargo.toml") {
            Some(folder) => manifest(folder, text),
            None => (*text).to_owned(),
        };
        File { path: place(path), text }
    })
}

/// Where a file of `crates` is in a project: the SDK itself is `sdk`, and the others are within it.
fn place(path: &str) -> String {
    match path.strip_prefix("sdk/") {
        Some(own) => format!("sdk/{own}"),
        None => format!("sdk/{path}"),
    }
}

/// A manifest without what it inherits and what only the project's own workspace has: it needs no
/// other file, and names no crate that a project never builds.
fn manifest(folder: &str, text: &str) -> String {
    let parse = |text: &str| text.parse::<Table>().expect("cargo has read it");
    let workspace = parse(WORKSPACE);
    let workspace = workspace["workspace"].as_table().expect("it is the workspace's");
    let mut manifest = parse(text);
    manifest.retain(|section, _| {
        ["package", "lib", "features", "dependencies", "target"].contains(&section)
    });
    if let Some(Value::Table(package)) = manifest.get_mut("package") {
        package.retain(|key, _| !["readme", "autobenches"].contains(&key));
        for (key, value) in package {
            if value.get("workspace").is_some() {
                *value = workspace["package"][key].clone();
            }
        }
    }
    let is_sdk = folder == "sdk";
    let known = workspace["dependencies"].as_table().expect("it has dependencies");
    if let Some(Value::Table(targets)) = manifest.get_mut("target") {
        for (_, target) in targets {
            let target = target.as_table_mut().expect("it has dependencies");
            target.retain(|section, _| section == "dependencies");
            target.iter_mut().for_each(|(_, section)| dependencies(section, known, is_sdk));
        }
    }
    if let Some(section) = manifest.get_mut("dependencies") {
        dependencies(section, known, is_sdk);
    }
    // Features of the other crates stay as names, for the code that asks for them.
    if let Some(Value::Table(features)) = manifest.get_mut("features")
        && !is_sdk
    {
        for (_, needs) in features {
            let needs = needs.as_array_mut().expect("a feature is a list");
            needs.retain(|needed| needed.as_str().is_some_and(|name| !name.contains([':', '/'])));
        }
    }
    // The package first, as people write it.
    let package = Table::from_iter(manifest.remove_entry("package"));
    format!("{HEADING}{package}\n{manifest}")
}

/// Dependencies with what they inherit. Only the SDK's may be optional: the others' are never used.
fn dependencies(section: &mut Value, known: &Table, is_sdk: bool) {
    let Value::Table(section) = section else { return };
    if !is_sdk {
        section.retain(|_, dependency| dependency.get("optional").is_none());
    }
    for (name, dependency) in section {
        let mut whole = Table::new();
        let own = dependency.as_table().cloned().unwrap_or_default();
        if own.contains_key("workspace") || own.contains_key("path") {
            match known.get(name) {
                Some(Value::Table(inherited)) => whole.clone_from(inherited),
                Some(version) => drop(whole.insert("version".to_owned(), version.clone())),
                None => {}
            }
        } else if let Value::String(version) = &*dependency {
            whole.insert("version".to_owned(), version.clone().into());
        }
        for (key, value) in own {
            match (key.as_str(), whole.get_mut("features")) {
                ("workspace" | "path", _) => {}
                ("features", Some(Value::Array(inherited))) => {
                    inherited.extend(value.as_array().cloned().unwrap_or_default());
                }
                _ => drop(whole.insert(key, value)),
            }
        }
        if let Some(Value::String(path)) = whole.get_mut("path") {
            let folder = path.rsplit('/').next().unwrap_or_default();
            *path = if is_sdk { folder.to_owned() } else { format!("../{folder}") };
        }
        *dependency = Value::Table(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> String {
        all().find(|file| file.path == path).unwrap().text
    }

    /// Nothing is inherited, nothing leads out of the SDK, and what a project never builds is not
    /// named.
    #[test]
    fn manifests_stand_alone() {
        let manifests: Vec<File> = all().filter(|file| file.path.ends_with("Cargo.toml")).collect();
        assert_eq!(manifests.len(), 11);
        for File { path, text } in &manifests {
            let manifest: Table = text.parse().unwrap();
            assert_eq!(manifest["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
            assert!(!text.contains("workspace"), "{path}:\n{text}");
            assert!(!text.contains("crates/"), "{path}:\n{text}");
            for never in ["fjall", "sqlx", "tokio", "proptest", "wit-bindgen"] {
                assert!(!text.contains(never), "{path} names {never}:\n{text}");
            }
            let folder = path.strip_suffix("Cargo.toml").unwrap();
            assert!(all().any(|file| file.path == format!("{folder}src/lib.rs")), "{path}");
        }
        let sdk: Table = file("sdk/Cargo.toml").parse().unwrap();
        let macros = &sdk["dependencies"]["indelible-sdk-macros"]["path"];
        assert_eq!(macros.as_str(), Some("sdk-macros"));
        let records: Table = file("sdk/records/Cargo.toml").parse().unwrap();
        let store = &records["dependencies"]["indelible-store"];
        assert_eq!(store["path"].as_str(), Some("../store"));
        assert_eq!(store["default-features"].as_bool(), Some(false));
    }
}
