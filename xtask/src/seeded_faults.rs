//! `cargo xtask seeded-faults`: makes deliberate faults in dlbridge, one at a time, and checks that the conformance kit
//! finds each. A kit that finds nothing proves nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::python::Venv;
use crate::{Result, Workplace, pins, process, workplace};

/// The conformance kit: a distribution of Python.
pub(crate) const KIT: &str = "conformance";

/// The folder with the faults: patches whose first line says what is wrong.
const FAULTS: &str = "conformance/faults";

/// A fault as a patch.
struct Fault {
    what: String,
    /// The file that it changes.
    file: String,
    /// The patch, from the root.
    patch: String,
}

impl Fault {
    /// Reads a patch of `git diff` below a line that says what is wrong.
    fn read(root: &Path, name: &str) -> Result<Self> {
        let patch = format!("{FAULTS}/{name}");
        let text = fs::read_to_string(root.join(&patch)).map_err(|e| format!("{patch}: {e}"))?;
        let what = text.lines().next().unwrap_or_default().to_owned();
        let mut files = text.lines().filter_map(|line| line.strip_prefix("+++ b/"));
        match (files.next(), files.next()) {
            (Some(file), None) if !what.is_empty() => {
                Ok(Self { what, file: file.to_owned(), patch })
            }
            _ => Err(format!(
                "{patch}: expected a line that says what is wrong, and one changed file"
            )),
        }
    }

    /// All faults, in the order of their names.
    fn all(root: &Path) -> Result<Vec<Self>> {
        let names = workplace::names(&root.join(FAULTS));
        let patches = names.iter().filter(|name| name.ends_with(".patch"));
        patches.map(|name| Self::read(root, name)).collect()
    }
}

/// The page with the outcome.
const PAGE: &str = "docs/conformance-faults.md";

const INTRODUCTION: &str = "\
# Deliberate faults

`cargo xtask seeded-faults` makes each of these faults in a copy of dlbridge, builds it, and runs the
conformance kit on it. It wrote this page. A fault that only MAY rules detect counts as missed.

| fault | file | rules that detect it |
|---|---|---|
";

/// The number of rules that the page names for each fault.
const NAMED: usize = 4;

/// Writes the page with the rules that detect each fault. Returns true if no fault was missed.
pub(crate) fn run(workplace: &Workplace) -> Result<bool> {
    let (rows, complete) = tried(workplace)?;
    let page = workplace.root.join(PAGE);
    fs::write(&page, format!("{INTRODUCTION}{rows}")).map_err(|e| format!("{PAGE}: {e}"))?;
    Ok(complete)
}

/// Returns true if no fault was missed. Does not write the page.
pub(crate) fn check(workplace: &Workplace) -> Result<bool> {
    Ok(tried(workplace)?.1)
}

/// Runs the kit on dlbridge without a fault and with each fault. Returns the rows of the page, and true if no fault was
/// missed.
fn tried(workplace: &Workplace) -> Result<(String, bool)> {
    let venv = Venv::made(workplace)?;
    venv.install(&[pins::MATURIN])?;
    venv.install_project(KIT)?;
    let copy = workplace.target.join("seeded");
    let _ = fs::remove_dir_all(&copy);
    process::run(workplace.command("git").args(["clone", "--quiet", "."]).arg(&copy))?;
    let (mut missed, mut untried) = (Vec::new(), Vec::new());
    let mut rows = String::new();
    println!("\n=== without a fault");
    let broken = broken_rules(workplace, &venv, &copy)?;
    if !broken.is_empty() {
        return Err(format!("the kit reports broken rules without a fault: {}", broken.join(", ")));
    }
    let faults = Fault::all(&workplace.root)?;
    for Fault { what, file, patch } in &faults {
        println!("\n=== {what}");
        let apply = |options: &[&str]| {
            let mut git = workplace.command("git");
            git.arg("-C").arg(&copy).arg("apply").args(options);
            process::run(git.arg(workplace.root.join(patch)))
        };
        apply(&[])?;
        let broken = broken_rules(workplace, &venv, &copy);
        apply(&["--reverse"])?;
        let broken = match broken {
            Ok(broken) => broken,
            Err(error) => {
                println!("{error}");
                untried.push(what);
                continue;
            }
        };
        println!("broken: {}", broken.join(", "));
        if broken.is_empty() {
            missed.push(what);
        }
        writeln!(rows, "| {what} | [`{file}`](../{file}) | {} |", named(&broken))
            .expect("a string");
    }
    let found = faults.len() - missed.len() - untried.len();
    println!("\n{found} of {} faults found", faults.len());
    for (outcome, faults) in [("missed", &missed), ("not tried", &untried)] {
        faults.iter().for_each(|what| println!("{outcome}: {what}"));
    }
    Ok((rows, missed.is_empty() && untried.is_empty()))
}

/// Returns the first rules, and the number of the others.
fn named(broken: &[String]) -> String {
    let (first, rest) = broken.split_at(broken.len().min(NAMED));
    let mut names: Vec<String> = first.iter().map(|id| format!("`{id}`")).collect();
    if !rest.is_empty() {
        names.push(format!("{} more", rest.len()));
    }
    if names.is_empty() { "**not detected**".to_owned() } else { names.join(", ") }
}

/// Builds the extension of a copy, and returns the rules that the kit finds broken in it.
fn broken_rules(workplace: &Workplace, venv: &Venv<'_>, copy: &Path) -> Result<Vec<String>> {
    let mut build = venv.cargo(&["build", "--quiet", "--package", "dlbridge-python"]);
    build.env("RUSTFLAGS", "-Awarnings").arg("--manifest-path").arg(copy.join("Cargo.toml"));
    build.arg("--target-dir").arg(workplace.target.join("seeded-target"));
    process::run(&mut build)?;
    let library = workplace.target.join("seeded-target/debug/lib_core.so");
    let module = copy.join("python/dlbridge/_core.abi3.so");
    fs::copy(&library, &module).map_err(|e| format!("{}: {e}", library.display()))?;
    let report = copy.join("report.xml");
    // An old report would hide that the kit itself ended early.
    let _ = fs::remove_file(&report);
    let mut kit = venv.python();
    kit.args(["-m", "dlbridge_conformance", "dlbridge", "--quiet", "--junit"]).arg(&report);
    kit.env("PYTHONPATH", copy.join("python"));
    let ended = kit.output().map_err(|e| format!("the kit: {e}"))?;
    let report = fs::read_to_string(&report).map_err(|_| {
        format!("the kit wrote no report: {}", String::from_utf8_lossy(&ended.stderr))
    })?;
    Ok(broken_in(&report))
}

/// Returns the names of the test cases with a failure or an error in a report of the kit.
fn broken_in(junit: &str) -> Vec<String> {
    let cases = junit.split("<testcase ").skip(1);
    let broken = cases.filter(|case| case.contains("<failure ") || case.contains("<error "));
    let name = |case: &str| Some(case.split_once(" name=\"")?.1.split_once('"')?.0.to_owned());
    broken.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_errors_are_broken_rules() {
        let junit = r#"<testsuites><testsuite name="dlbridge">
            <testcase classname="a" name="P-ONE" time="1"/>
            <testcase classname="a" name="P-TWO" time="1"><failure type="MUST failed">x</failure></testcase>
            <testcase classname="a" name="C-ONE"><skipped message="y"/></testcase>
            <testcase classname="a" name="C-TWO"><error type="MUST crashed">z</error></testcase>"#;
        assert_eq!(broken_in(junit), ["P-TWO", "C-TWO"]);
    }

    #[test]
    fn every_fault_applies_and_is_on_the_page() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        let faults = Fault::all(root).unwrap();
        assert!(!faults.is_empty());
        for Fault { what, file, patch } in faults {
            let mut git = std::process::Command::new("git");
            git.arg("-C").arg(root).args(["apply", "--check"]).arg(root.join(&patch));
            assert!(git.status().unwrap().success(), "{patch} does not apply");
            assert!(page.contains(&format!("| {what} | [`{file}`]")), "{patch} is not in {PAGE}");
        }
    }
}
