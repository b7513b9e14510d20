//! Compiled components on disk: used when they are right, made again when they are not.

#![expect(clippy::disallowed_methods, reason = "these tests look into a folder, and break it")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::guest_kit::{Script, Source, options, start};
use bytes::Bytes;
use indelible_journal::{ComponentDigest, Payload};
use indelible_runtime::guest::{Artifacts, GuestOptions, Guests, LoadError, Program, Stop};

/// What tells a process started by a test which folder to look at.
const FOLDER_VARIABLE: &str = "INDELIBLE_TEST_ARTIFACTS";

fn guests_in(folder: &Path, options: GuestOptions) -> Arc<Guests> {
    Guests::new(options, Artifacts::folder(folder).unwrap()).expect("the options are sound")
}

/// A folder with the artifact of one guest.
struct Deployed {
    folder: tempfile::TempDir,
    bytes: Bytes,
    digest: ComponentDigest,
}

impl Deployed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bytes = Bytes::from(Source::echo().component());
        let guests = guests_in(folder.path(), options());
        let digest = guests.deploy_check(&bytes).expect("it is a guest").digest;
        assert_eq!((guests.readings().compiled, guests.readings().mapped), (1, 0));
        Self { folder, bytes, digest }
    }

    fn file(&self, extension: &str) -> PathBuf {
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        let mut of_kind = files.filter(|path| path.extension().is_some_and(|e| e == extension));
        of_kind.next().expect("there is one")
    }

    /// Loads in a new engine, as a new process would: how many were compiled, mapped and found
    /// damaged.
    fn load(&self) -> (u64, u64, u64) {
        let guests = guests_in(self.folder.path(), options());
        let bytes = || Ok::<_, Infallible>(self.bytes.clone());
        let program = guests.load(self.digest, bytes).expect("it can be loaded");
        check_runs(&guests, &program);
        let readings = guests.readings();
        (readings.compiled, readings.mapped, readings.artifacts_damaged)
    }
}

fn check_runs(guests: &Guests, program: &Arc<Program>) {
    let mut guest = start(guests, program, &Script::new());
    assert_eq!(guest.resume(), Stop::Returned(Ok(Payload::empty())));
}

/// D8: compiled once, at deployment.
#[test]
fn another_process_maps_what_this_one_compiled() {
    let deployed = Deployed::new();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guest_artifacts::in_another_process", "--nocapture"])
        .env(FOLDER_VARIABLE, deployed.folder.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    assert!(output.contains("it was mapped"), "{output}");
}

/// The other process; alone, it does nothing.
#[test]
fn in_another_process() {
    let Ok(folder) = std::env::var(FOLDER_VARIABLE) else { return };
    let guests = guests_in(Path::new(&folder), options());
    let digest = ComponentDigest::of(&Source::echo().component());
    let program = guests.load(digest, || Err::<Bytes, _>("nobody needs the bytes")).unwrap();
    check_runs(&guests, &program);
    assert_eq!((guests.readings().compiled, guests.readings().mapped), (0, 1));
    println!("it was mapped");
}

#[test]
fn what_is_right_is_mapped_and_what_is_wrong_is_made_again() {
    let deployed = Deployed::new();
    assert_eq!(deployed.load(), (0, 1, 0));

    let break_and_load = |what: &str, damaged, breaking: &dyn Fn()| {
        breaking();
        assert_eq!(deployed.load(), (1, 0, damaged), "{what}");
        assert_eq!(deployed.load(), (0, 1, 0), "{what}, and then replaced");
    };
    let artifact = deployed.file("cwasm");
    let seal = deployed.file("seal");
    let length = fs::metadata(&artifact).unwrap().len();
    for at in [0, 100, length / 2, length - 1] {
        break_and_load("a flipped bit", 1, &|| {
            let mut bytes = fs::read(&artifact).unwrap();
            bytes[usize::try_from(at).unwrap()] ^= 1;
            fs::write(&artifact, bytes).unwrap();
        });
    }
    for keep in [0, 1, length / 2, length - 1] {
        break_and_load("a file cut short", 1, &|| {
            fs::OpenOptions::new().write(true).open(&artifact).unwrap().set_len(keep).unwrap();
        });
    }
    break_and_load("no artifact", 0, &|| fs::remove_file(&artifact).unwrap());
    break_and_load("no seal", 1, &|| fs::remove_file(&seal).unwrap());
    break_and_load("a seal of something else", 1, &|| {
        let mut bytes = fs::read(&seal).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&seal, bytes).unwrap();
    });
    break_and_load("a seal of another version", 1, &|| {
        fs::write(&seal, b"indelible artifact 2\n").unwrap();
    });
    break_and_load("an artifact that wasmtime does not take", 1, &|| {
        use sha2::Digest as _;
        let other = b"sealed rightly, but not an artifact";
        fs::write(&artifact, other).unwrap();
        let hash = sha2::Sha256::digest(other);
        fs::write(&seal, [&b"indelible artifact 1\n"[..], &hash].concat()).unwrap();
    });
    let left = fs::read_dir(deployed.folder.path()).unwrap().count();
    assert_eq!(left, 2, "an artifact and its seal, and nothing aside");
}

#[test]
fn a_folder_that_cannot_be_written_costs_time_and_nothing_else() {
    let deployed = Deployed::new();
    let folder = deployed.folder.path().join("gone");
    let guests = guests_in(&folder, options());
    fs::remove_dir(&folder).unwrap();
    let program = guests.load(deployed.digest, || Ok::<_, Infallible>(deployed.bytes.clone()));
    check_runs(&guests, &program.expect("it can be loaded"));
    let readings = guests.readings();
    assert_eq!((readings.compiled, readings.artifacts_unwritten), (1, 1));
}

#[test]
fn a_program_is_loaded_once_however_many_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let guests = guests_in(folder.path(), options());
    let bytes = Bytes::from(Source::echo().component());
    let digest = ComponentDigest::of(&bytes);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let bytes = || Ok::<_, Infallible>(bytes.clone());
                guests.load(digest, bytes).expect("it can be loaded");
            });
        }
    });
    let readings = guests.readings();
    assert_eq!((readings.compiled, readings.mapped, readings.programs_loaded), (1, 0, 1));
}

#[test]
fn the_least_recently_wanted_program_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let guests = guests_in(folder.path(), GuestOptions { programs_max: 2, ..options() });
    let sources = [Source::echo(), Source::waits(), Source::endless()];
    let components = sources.map(|source| Bytes::from(source.component()));
    let load = |index: usize| {
        let bytes = components[index].clone();
        let digest = ComponentDigest::of(&bytes);
        guests.load(digest, || Ok::<_, Infallible>(bytes)).expect("it can be loaded")
    };
    let held = load(0);
    load(1);
    load(0);
    load(2);
    assert_eq!((guests.readings().compiled, guests.readings().programs_loaded), (3, 2));
    load(0);
    assert_eq!(guests.readings().mapped, 0, "it was still there");
    load(1);
    assert_eq!(guests.readings().mapped, 1, "it was not");
    check_runs(&guests, &held);

    guests.forget(held.digest());
    load(0);
    assert_eq!(guests.readings().compiled, 4, "nothing of it was left");
    check_runs(&guests, &held);
}

#[test]
fn wrong_or_missing_bytes_are_errors() {
    let guests = guests_in(tempfile::tempdir().unwrap().path(), options());
    let digest = ComponentDigest::of(b"one");
    let error = guests.load(digest, || Ok::<_, Infallible>(Bytes::from("two"))).unwrap_err();
    assert!(matches!(error, LoadError::Digest { .. }), "{error}");
    let error = guests.load(digest, || Err("the disk is on fire")).unwrap_err();
    assert!(matches!(error, LoadError::Bytes { source: "the disk is on fire", .. }));
    let error = guests.load(digest, || Ok::<_, Infallible>(Bytes::from("one"))).unwrap_err();
    assert!(matches!(error, LoadError::Unfit { .. }), "{error}");
    assert_eq!(guests.readings().programs_loaded, 0);
}
