//! The tests of the workspace, as `verify` runs them: two test binaries at a time, each in its crate's
//! folder as with `cargo test`. Most tests wait (for the disk, for a process that was killed), and one
//! binary alone leaves a core idle.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it times its tests")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::executables::{Executable, built};

/// How many binaries run at a time.
const AT_A_TIME: usize = 2;

/// A binary that has ended.
struct Ended<'a> {
    test: &'a Executable,
    took: Duration,
    output: std::io::Result<Output>,
}

/// Runs every test binary, then the examples in documentation; false if a test failed. What a binary
/// printed is printed as a whole when it has ended. A failure does not keep the others from running.
pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let mut tests = built(root, &["test", "--no-run"])?;
    tests.retain(Executable::is_test);
    // A binary that has more code in it has more to test, as a rule: what takes longest begins first.
    tests.sort_by_key(|test| fs::metadata(&test.executable).map_or(0, |file| file.len()));
    tests.reverse();
    let mut failed = Vec::new();
    each(&tests, |Ended { test, took, output }| {
        let (crate_name, seconds) = (test.crate_name(), took.as_secs_f64());
        let output = output.with_context(|| format!("cannot run the tests of {crate_name}"))?;
        writeln!(err, "Running the tests of {crate_name} ({seconds:.1} s)")?;
        err.write_all(&output.stdout)?;
        err.write_all(&output.stderr)?;
        if !output.status.success() {
            failed.push(crate_name);
        }
        Ok(())
    })?;
    let docs = Command::new("cargo")
        .args(["test", "--locked", "--workspace", "--doc"])
        .current_dir(root)
        .status()?;
    for name in &failed {
        writeln!(err, "error: tests of {name} failed")?;
    }
    Ok(failed.is_empty() && docs.success())
}

/// Runs all of them, and hands over each that has ended.
fn each<'a>(
    tests: &'a [Executable],
    mut ended: impl FnMut(Ended<'a>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let (next, send) = (&next, send.clone());
            scope.spawn(move || {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = Instant::now();
                    let output = test.command().output();
                    let took = begin.elapsed();
                    if send.send(Ended { test, took, output }).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().try_for_each(&mut ended)
    })
}
