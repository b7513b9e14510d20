//! `cargo xtask package`: what `cargo install` makes of a clean clone runs the demo elsewhere, when
//! the clone is gone. What is committed counts, not what is in the work tree.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it clones and copies")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// The story of a demo, in short: what it claims it counts itself, and fails if it is not so.
const DEMO: [&str; 7] = ["demo", "--orders", "12", "--kills", "2", "--seed", "7"];

pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let folder = root.join("target").join("package");
    fs::create_dir_all(&folder)?;
    let clone = folder.join("clone");
    let away = folder.join("clone.away");
    // A run that was interrupted left it there.
    if away.is_dir() && !clone.exists() {
        fs::rename(&away, &clone)?;
    }
    writeln!(err, "package: a clean clone")?;
    let head = output(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root))?;
    if !clone.is_dir() {
        let mut git = Command::new("git");
        run_it(git.args(["clone", "--quiet", "--no-checkout"]).arg(root).arg(&clone))?;
    }
    // Only what changed is written, so that cargo builds only that.
    let git = |arguments: &[&str]| run_it(Command::new("git").args(arguments).current_dir(&clone));
    git(&["fetch", "--quiet", "origin"])?;
    git(&["checkout", "--quiet", "--force", "--detach", head.trim()])?;
    git(&["clean", "--quiet", "-dffx"])?;

    writeln!(err, "package: cargo install --path crates/cli")?;
    let installed = folder.join("installed");
    // Not optimised, and where the dependencies are compiled already: the same code, minutes earlier.
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--debug", "--force", "--no-track", "--path"]);
    install.arg(clone.join("crates/cli")).arg("--root").arg(&installed);
    run_it(install.arg("--target-dir").arg(root.join("target")).current_dir(&folder))?;

    writeln!(err, "package: the demo, without the clone")?;
    fs::rename(&clone, &away)?;
    let shown = elsewhere(&installed.join("bin/indelible"));
    fs::rename(&away, &clone)?;
    writeln!(err, "{}", shown?.trim_end())?;
    Ok(true)
}

/// Runs the demo in an empty folder that is also the home, with nothing of the toolchain on the path.
fn elsewhere(binary: &Path) -> anyhow::Result<String> {
    let place = tempfile::tempdir()?;
    let copied = place.path().join("indelible");
    fs::copy(binary, &copied)?;
    let mut demo = Command::new(&copied);
    demo.args(DEMO).current_dir(place.path()).env_clear();
    output(demo.env("HOME", place.path()).env("PATH", "/usr/bin:/bin"))
}

fn run_it(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let (told, shown) = (output.stderr, output.stdout);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&shown),
        text(&told)
    );
    Ok(text(&shown))
}
