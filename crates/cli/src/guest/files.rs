//! The files of a new project: its own, and the SDK's sources. The SDK is included because it is on
//! no registry; with it the project needs nothing else of ours.

pub(super) struct File {
    /// Relative to the project.
    pub(super) path: String,
    pub(super) text: String,
}

/// The project's own files, in which `{...}` is filled in.
const OWN: [(&str, &str); 7] = [
    (".cargo/config.toml", include_str!("../../template/config.toml.in")),
    (".gitignore", include_str!("../../template/gitignore.in")),
    ("Cargo.toml", include_str!("../../template/Cargo.toml.in")),
    ("README.md", include_str!("../../template/README.md.in")),
    ("sdk/Cargo.toml", include_str!("../../template/sdk.toml.in")),
    ("sdk/macros/Cargo.toml", include_str!("../../template/macros.toml.in")),
    ("src/lib.rs", include_str!("../../template/lib.rs")),
];

/// The sources of a crate, by their paths in its `src`.
macro_rules! sources {
    ($folder:literal: $($path:literal)+) => {
        &[$(($path, include_str!(concat!("../../../", $folder, "/src/", $path)))),+]
    };
}

/// `crates/sdk/src`.
const SDK: &[(&str, &str)] = sources!("sdk":
    "alloc.rs"
    "bindings.rs"
    "context.rs"
    "error.rs"
    "function.rs"
    "http/mod.rs"
    "http/reconcile.rs"
    "http/response.rs"
    "join_set.rs"
    "lib.rs"
    "log.rs"
    "payload.rs"
    "promise.rs"
    "random.rs"
    "rt.rs"
    "select.rs"
    "several.rs"
    "signal.rs"
    "time.rs"
);

/// `crates/sdk-macros/src`.
const MACROS: &[(&str, &str)] = sources!("sdk-macros":
    "duration.rs"
    "function.rs"
    "function_tests.rs"
    "lib.rs"
    "options.rs"
    "remote.rs"
    "signature.rs"
);

/// All files of a project of this name.
pub(super) fn all(name: &str) -> impl Iterator<Item = File> {
    let fills = [
        ("{name}", name.to_owned()),
        ("{crate}", name.replace('-', "_")),
        ("{version}", env!("CARGO_PKG_VERSION").to_owned()),
        ("{rust}", env!("CARGO_PKG_RUST_VERSION").to_owned()),
    ];
    let own = OWN.iter().map(move |(path, text)| {
        // Rust files are not filled in: they have braces of their own.
        let fills = if path.ends_with(".rs") { &[][..] } else { &fills[..] };
        let text =
            fills.iter().fold((*text).to_owned(), |text, (gap, fill)| text.replace(gap, fill));
        File { path: (*path).to_owned(), text }
    });
    let brought = |folder: &'static str| {
        move |(path, text): &(&str, &str)| File {
            path: format!("{folder}/{path}"),
            text: (*text).to_owned(),
        }
    };
    own.chain(SDK.iter().map(brought("sdk/src")))
        .chain(MACROS.iter().map(brought("sdk/macros/src")))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test lists the sources")]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { found.extend(sources(&path)) } else { found.push(path) }
        }
        found
    }

    /// The list has all sources of the SDK.
    #[test]
    fn the_sdk_is_complete() {
        for (name, listed) in [("sdk", SDK), ("sdk-macros", MACROS)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
            let mut found: Vec<String> = sources(&folder)
                .iter()
                .map(|path| path.strip_prefix(&folder).unwrap().display().to_string())
                .collect();
            found.sort();
            let listed: Vec<&str> = listed.iter().map(|(path, _)| *path).collect();
            assert_eq!(found, listed, "{name}: the list in files.rs is not up to date");
        }
    }

    /// The included manifests have the dependencies of the real ones.
    #[test]
    fn the_manifests_agree() {
        for (name, brought) in [("sdk", "sdk/Cargo.toml"), ("sdk-macros", "sdk/macros/Cargo.toml")]
        {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            let real = fs::read_to_string(path.join("Cargo.toml")).unwrap();
            let brought = all("x").find(|file| file.path == brought).unwrap().text;
            assert_eq!(dependencies(&brought), dependencies(&real), "{name}");
        }
    }

    /// The names in `[dependencies]`.
    fn dependencies(manifest: &str) -> Vec<&str> {
        let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let mut names: Vec<&str> = section
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split([' ', '.', '=']).next())
            .filter(|name| !name.is_empty() && !name.starts_with('#'))
            .collect();
        names.sort_unstable();
        names
    }

    /// No gap is left to fill in.
    #[test]
    fn gaps_are_filled() {
        for file in all("order-saga").filter(|file| !file.path.ends_with(".rs")) {
            for gap in ["{name}", "{crate}", "{version}", "{rust}"] {
                assert!(!file.text.contains(gap), "{gap} in {}", file.path);
            }
        }
    }
}
