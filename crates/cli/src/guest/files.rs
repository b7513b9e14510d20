//! The files of a new project: its own, and the SDK's sources. The SDK is included because it is on
//! no registry; with it the project needs nothing else of ours.

use super::sources;

pub(super) struct File {
    /// Relative to the project.
    pub(super) path: String,
    pub(super) text: String,
}

/// The project's own files, in which `{...}` is filled in.
const OWN: [(&str, &str); 5] = [
    (".cargo/config.toml", include_str!("../../template/config.toml.in")),
    (".gitignore", include_str!("../../template/gitignore.in")),
    ("Cargo.toml", include_str!("../../template/Cargo.toml.in")),
    ("README.md", include_str!("../../template/README.md.in")),
    ("src/lib.rs", include_str!("../../template/lib.rs")),
];

/// All files of a project of this name.
pub(super) fn all(name: &str) -> impl Iterator<Item = File> {
    let fills = [("{name}", name.to_owned()), ("{crate}", name.replace('-', "_"))];
    let own = OWN.iter().map(move |(path, text)| {
        // Rust files are not filled in: they have braces of their own.
        let fills = if path.ends_with(".rs") { &[][..] } else { &fills[..] };
        let text =
            fills.iter().fold((*text).to_owned(), |text, (gap, fill)| text.replace(gap, fill));
        File { path: (*path).to_owned(), text }
    });
    own.chain(sources::all())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No gap is left to fill in.
    #[test]
    fn gaps_are_filled() {
        for file in all("order-saga").filter(|file| !file.path.ends_with(".rs")) {
            for gap in ["{name}", "{crate}"] {
                assert!(!file.text.contains(gap), "{gap} in {}", file.path);
            }
        }
    }
}
