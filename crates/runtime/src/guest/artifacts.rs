//! Compiled components on disk: compiled once at deployment, mapped into memory by every later
//! process. Also the one place with unsafe code: an artifact is machine code, and loading it means
//! trusting it.

#![expect(unsafe_code, reason = "loading compiled code is trusting it; see `map`")]
#![expect(clippy::disallowed_methods, reason = "this is the shell over the artifacts' folder")]

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use indelible_journal::ComponentDigest;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::compilers::in_own_threads;
use super::guests::Guests;

/// What a seal begins with: its version. The SHA-256 of the artifact follows.
const SEAL_VERSION: &[u8] = b"indelible artifact 1\n";

/// Where compiled components are kept. They are a cache: all can be deleted at any time, and an
/// artifact that is missing, damaged or of another version of wasmtime is compiled again.
///
/// In the folder are, for each component and each setup of the compiler, `DIGEST-SETUP.cwasm`, the
/// artifact, and `DIGEST-SETUP.seal`, which holds its hash.
#[derive(Debug)]
pub struct Artifacts {
    folder: Option<PathBuf>,
    /// Makes names of temporary files unique within the process.
    written: AtomicU64,
}

impl Artifacts {
    /// Keeps nothing: each process compiles for itself.
    pub fn memory() -> Self {
        Self { folder: None, written: AtomicU64::new(0) }
    }

    /// Keeps them in this folder, which is created. Only the server may have the right to write
    /// there: the code in it runs with the server's own rights.
    pub fn folder(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        // Delete the unfinished files of a process that died.
        for file in fs::read_dir(&folder)?.flatten() {
            if file.path().extension().is_some_and(|extension| extension == "tmp") {
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(Self { folder: Some(folder), written: AtomicU64::new(0) })
    }

    /// Removes all artifacts of a component. A failure costs only space.
    pub(super) fn remove(&self, digest: ComponentDigest) {
        let Some(folder) = &self.folder else { return };
        let prefix = format!("{digest}-");
        let Ok(files) = fs::read_dir(folder) else { return };
        for file in files.flatten() {
            if file.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(file.path());
            }
        }
    }

    fn place(&self, engine: &Engine, digest: ComponentDigest) -> Option<ArtifactFiles> {
        let folder = self.folder.as_ref()?;
        // The same for engines that can load each other's artifacts. wasmtime checks this, too; in
        // the name it lets an upgraded server and its predecessor share a folder.
        let mut setup = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut setup);
        let name = format!("{digest}-{:016x}", setup.finish());
        Some(ArtifactFiles {
            artifact: folder.join(format!("{name}.cwasm")),
            seal: folder.join(format!("{name}.seal")),
        })
    }

    /// Writes aside, syncs and renames, so that a file is whole or absent.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let aside = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&aside).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| fs::rename(&aside, path));
        if renamed.is_err() {
            let _ = fs::remove_file(&aside);
        }
        renamed
    }
}

struct ArtifactFiles {
    artifact: PathBuf,
    seal: PathBuf,
}

fn seal_of(artifact: &[u8]) -> Vec<u8> {
    let mut seal = SEAL_VERSION.to_vec();
    seal.extend_from_slice(&Sha256::digest(artifact));
    seal
}

impl Guests {
    pub(super) fn compile(&self, bytes: &[u8]) -> wasmtime::Result<Component> {
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        in_own_threads(|| Component::from_binary(&self.engine, bytes))
    }

    /// Keeps a compiled component. If that fails, the component runs all the same.
    pub(super) fn keep(&self, digest: ComponentDigest, component: &Component) {
        let Some(kept) = self.artifacts.place(&self.engine, digest) else { return };
        let written = component.serialize().map_err(io::Error::other).and_then(|artifact| {
            self.artifacts.write(&kept.artifact, &artifact)?;
            // The seal is written last: it must not be there without the artifact that it seals.
            self.artifacts.write(&kept.seal, &seal_of(&artifact))
        });
        if written.is_err() {
            self.counts.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The component from its kept artifact, if there is one and its seal is right.
    pub(super) fn mapped(&self, digest: ComponentDigest) -> Option<Component> {
        let kept = self.artifacts.place(&self.engine, digest)?;
        // Read once in whole, to check it. The pages that are read are those that get mapped.
        let artifact = fs::read(&kept.artifact).ok()?;
        let sound = fs::read(&kept.seal).is_ok_and(|seal| seal == seal_of(&artifact));
        drop(artifact);
        let component = if sound { map(&self.engine, &kept.artifact).ok() } else { None };
        let count = if component.is_some() { &self.counts.mapped } else { &self.counts.damaged };
        count.fetch_add(1, Ordering::Relaxed);
        component
    }
}

/// Maps an artifact whose seal was just found right.
fn map(engine: &Engine, artifact: &Path) -> wasmtime::Result<Component> {
    // SAFETY: the file must be what `Component::serialize` made, and must not change while it is
    // mapped. The folder belongs to the server alone and is created so that other users cannot
    // write there (one who can could replace the server's own files and binary as well); within the
    // server, only `keep` writes artifacts, and it never changes a file in place but renames a
    // whole one over it, which leaves existing maps as they are. The seal excludes damage by
    // accident: bits that rotted, and files cut short by a crash. That the artifact is for this
    // version and setup of wasmtime is checked by wasmtime itself.
    unsafe { Component::deserialize_file(engine, artifact) }
}

/// Loads an artifact that was just compiled by a process of this server's own.
pub(super) fn trusted(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: it must be what `Engine::precompile_component` made. The bytes came through a pipe
    // whose other end only the compiler's process has, which is this program and ended well. That
    // the artifact is for this version and setup of wasmtime is checked by wasmtime itself.
    unsafe { Component::deserialize(engine, artifact) }
}
