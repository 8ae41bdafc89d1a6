//! `cargo xtask nightly`: everything that takes too long for each change, for Linux. `docs/nightly.md` has a row for each
//! step with its last result, which a run writes. Without names, the steps run that have not passed on this commit.

mod crates;
mod package;

use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) use package::gpu_test;

use crate::ci::{self, fuzz};
use crate::python::{Venv, answer};
use crate::site;
use crate::step::{Report, Result, Step};
use crate::test::pytest;

const PAGE: &str = "docs/nightly.md";

/// Returns the steps of a name, or the reason why they cannot run here.
type Steps = fn(&Path, &Venv) -> Result<Vec<Step>>;

/// The steps, in the order of the page.
const STEPS: &[(&str, Steps)] = &[
    ("features", crates::features),
    ("oldest-rust", crates::oldest_rust),
    ("oldest-dependencies", crates::oldest_dependencies),
    ("compile-errors", crates::compile_errors),
    ("miri-operators", crates::miri_operators),
    ("miri-big-endian", crates::miri_big_endian),
    ("miri-adapters", crates::miri_adapters),
    ("address-sanitizer", crates::address_sanitizer),
    ("thread-sanitizer", crates::thread_sanitizer),
    ("loom", crates::loom),
    ("valgrind", crates::valgrind),
    ("fuzz", |root, venv| Ok(fuzz(root, venv, 300))),
    ("adapters", crates::all_adapters),
    ("devices", crates::devices),
    ("package", |root, venv| Ok(pytest(root, venv, "tests/python", &[], ""))),
    ("pythons", package::pythons),
    ("oldest-torch", package::oldest_torch),
    ("free-threaded", package::free_threaded),
    ("gpu-stand-in", package::gpu_stand_in),
    ("examples", package::examples),
    ("c-examples", package::c_examples),
    ("getting-started", package::getting_started),
    ("kit-tests", |root, venv| Ok(pytest(root, venv, "conformance/tests", &[], ""))),
    ("kit", package::kit),
    ("matrix", |_, venv| script(venv, "matrix", "-m dlbridge_conformance.matrix --quiet")),
    ("findings", |_, venv| script(venv, "findings", "conformance/reports/reproduce.py")),
    ("seeded-faults", |_, venv| script(venv, "seeded-faults", "xtask/seeded_faults.py")),
    ("bench-tests", |_, venv| script(venv, "bench-tests", "-m pytest --quiet bench")),
    ("sizes", |_, venv| script(venv, "sizes", "bench/run.py sizes")),
    ("speed", |_, venv| script(venv, "speed", "bench/run.py speed --quick")),
    ("compare", |_, venv| script(venv, "compare", "bench/run.py compare")),
    ("ports", |_, venv| script(venv, "ports", "bench/run.py ports")),
    ("operators-cost", |_, venv| script(venv, "operators-cost", "bench/run.py operators")),
    ("platforms", crates::platforms),
    ("dependencies", crates::dependencies),
    ("vulnerabilities", crates::vulnerabilities),
    ("release", package::release),
];

/// Runs the named steps, or those that have not passed on this commit, and writes their rows.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<bool> {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|(step, _)| step != *name)) {
        let known: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("no step `{unknown}`; known: {}", known.join(", ")));
    }
    let venv = Venv::new(root, "nightly")?;
    let report = Report::new(root)?;
    // What most steps use.
    let mut begin = vec![ci::nightly_toolchain()];
    begin.extend([".", "conformance"].into_iter().flat_map(|it| venv.installs(it, "--release")));
    begin.extend(site::built(root, &venv));
    if !report.run(begin) {
        return Err("what the steps use could not be built".into());
    }
    let is_wanted = |name: &str| names.contains(&name) || (names.is_empty() && !is_done(name));
    let mut wanted: Vec<_> = STEPS.iter().filter(|(name, _)| is_wanted(name)).collect();
    // First those that did not pass the last time.
    wanted.sort_by_key(|(name, _)| result_of(name).1 == "passed");
    let mut all_ran = true;
    for (name, steps) in wanted {
        println!("\n{name}");
        let result = match steps(root, &venv) {
            Ok(steps) => (if report.run(steps) { "passed" } else { "failed" }).to_owned(),
            Err(reason) => format!("not run: {reason}"),
        };
        all_ran &= !result.starts_with("not run");
        println!("{name}: {result}");
        write_row(name, &result)?;
    }
    Ok(report.summary() && all_ran)
}

/// Returns true if a step passed on a commit that differs from the working tree in the page alone.
fn is_done(name: &str) -> bool {
    let (commit, result) = result_of(name);
    let mut diff = Command::new("git");
    diff.args(["diff", "--quiet", &commit, "--", ".", &format!(":!{PAGE}")]);
    result == "passed" && diff.status().is_ok_and(|status| status.success())
}

/// Returns the commit and the result in the row of a step.
fn result_of(name: &str) -> (String, String) {
    let page = fs::read_to_string(PAGE).unwrap_or_default();
    let start = format!("| {name} |");
    let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    let [_, _, _, commit, result, _] = cells[..] else { return Default::default() };
    (commit.to_owned(), result.to_owned())
}

/// Writes the page with the new row of a step. The other steps keep their rows.
fn write_row(name: &str, result: &str) -> Result<()> {
    let page = fs::read_to_string(PAGE).map_err(|e| format!("{PAGE}: {e}"))?;
    let head = page.lines().take_while(|line| !line.starts_with("| ---"));
    let mut lines: Vec<_> = head.map(str::to_owned).collect();
    lines.push("| --- | --- | --- | --- |".to_owned());
    for (step, _) in STEPS {
        let start = format!("| {step} |");
        let row = page.lines().find(|line| line.starts_with(&start)).map(str::to_owned);
        lines.push(match row {
            _ if *step == name => format!("{start} {} | {} | {result} |", today(), commit()),
            Some(row) => row,
            None => format!("{start} | | not run |"),
        });
    }
    fs::write(PAGE, lines.join("\n") + "\n").map_err(|e| format!("{PAGE}: {e}"))
}

fn today() -> String {
    let date = answer(Command::new("date").args(["-u", "+%F"])).unwrap_or_default();
    date.trim().to_owned()
}

fn commit() -> String {
    let commit = answer(Command::new("git").args(["rev-parse", "--short=8", "HEAD"]));
    commit.unwrap_or_default().trim().to_owned()
}

/// A step that may take hours.
fn script(venv: &Venv, name: &str, line: &str) -> Result<Vec<Step>> {
    Ok(vec![venv.python(name, line).minutes(360)])
}

/// Installs Debian's packages, unless a command succeeds.
fn debian(unless: &str, packages: &str) -> Step {
    let install = "apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends";
    Step::sh(format!("Debian: {packages}"), &format!("{unless} || ({install} {packages})"))
}

/// Lets a step find the programs of `target/tools`.
fn with_tools(root: &Path, step: Step) -> Step {
    let path = std::env::var("PATH").unwrap_or_default();
    step.env("PATH", format!("{}:{path}", root.join("target/tools/bin").display()))
}
