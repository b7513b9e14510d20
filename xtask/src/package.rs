//! `cargo xtask package`: the binary that `cargo install` makes of a clean clone runs the demo
//! elsewhere, when the clone is gone. It tests what is committed, not the work tree.
#![expect(clippy::disallowed_methods, reason = "xtask is a shell: it clones and copies")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// As the README runs it; with a seed, so that a failure can be repeated.
const DEMO: [&str; 3] = ["demo", "--seed", "7"];

/// The beginning of the table that the README shows.
const TABLE: &str = "As the payment services counted";

pub(crate) fn run(root: &Path, err: &mut dyn Write) -> anyhow::Result<bool> {
    let folder = root.join("target").join("package");
    fs::create_dir_all(&folder)?;
    let clone = folder.join("clone");
    let away = folder.join("clone.away");
    // The last run moved the clone away.
    if away.is_dir() && !clone.exists() {
        fs::rename(&away, &clone)?;
    }
    writeln!(err, "package: a clean clone")?;
    let changed = output(Command::new("git").args(["status", "--porcelain"]).current_dir(root))?;
    if !changed.is_empty() {
        let files = changed.lines().count();
        writeln!(
            err,
            "NOTE: {files} files are changed and not committed: those changes are not in it"
        )?;
    }
    if !clone.is_dir() {
        let mut git = Command::new("git");
        run_it(git.args(["clone", "--quiet", "--no-checkout"]).arg(root).arg(&clone))?;
    }
    // Only what changed is written, so that cargo builds only that.
    let git = |arguments: &[&str]| run_it(Command::new("git").args(arguments).current_dir(&clone));
    // `HEAD` by name: a commit that is on no branch is not fetched otherwise.
    git(&["fetch", "--quiet", "origin", "HEAD"])?;
    git(&["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"])?;
    git(&["clean", "--quiet", "-dffx"])?;
    let readme = fs::read_to_string(clone.join("README.md"))?;

    writeln!(err, "package: cargo install --path crates/cli")?;
    let installed = folder.join("installed");
    // Not optimised, in the target folder that has the dependencies compiled already: the same
    // code, minutes earlier.
    let mut install = Command::new("cargo");
    install.args(["install", "--quiet", "--locked", "--debug", "--force", "--no-track", "--path"]);
    install.arg(clone.join("crates/cli")).arg("--root").arg(&installed);
    run_it(install.arg("--target-dir").arg(root.join("target")).current_dir(&folder))?;

    writeln!(err, "package: the demo, without the clone")?;
    // The clone stays moved away: while its files exist, cargo takes the clone's libraries for the
    // work tree's, and does not notice that the work tree differs.
    fs::rename(&clone, &away)?;
    let shown = elsewhere(&installed.join("bin/indelible"))?;
    writeln!(err, "{}", shown.trim_end())?;
    let (promised, own) = (of_indelible(&readme), of_indelible(&shown));
    ensure!(!promised.is_empty(), "the README does not show what the demo counts: `{TABLE}`");
    ensure!(own == promised, "the README shows {promised:#?}");
    Ok(true)
}

/// The rows of the demo's table without the last column, which varies: it counts what a plain retry
/// loop did.
fn of_indelible(text: &str) -> Vec<String> {
    let table = text.lines().skip_while(|line| !line.starts_with(TABLE)).skip(1);
    let rows = table.take_while(|line| line.ends_with(|c: char| c.is_ascii_digit()));
    rows.filter_map(|row| row.rsplit_once(' ')).map(|(own, _)| own.trim_end().to_owned()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The comparison uses the names of rows, and what Indelible did.
    #[test]
    fn rows_of_a_table() {
        let text = "one 1 1\nAs the payment services counted  Indelible  a loop\n\
                    orders         60      60\ncards charged once  60  5\nSeed 7.\nmore 1 1\n";
        assert_eq!(of_indelible(text), ["orders         60", "cards charged once  60"]);
        assert_eq!(of_indelible("orders 60 60\n"), [""; 0]);
    }
}
