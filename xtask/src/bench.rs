//! `cargo xtask bench`: measures dlbridge and its peers, and writes `docs/benchmarks.md`. Also compares the instruction
//! budgets, for `cargo xtask test`.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::peers::Peers;
use crate::python::Venv;
use crate::steps::Finished;
use crate::{Result, Workplace, build_cost, debian, pins, process};

/// The options of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Fewer rounds and a smaller file; does not change the page.
    pub(crate) quick: bool,
    /// Only count instructions, and compare them with the budgets.
    pub(crate) instructions: bool,
    /// Only build extensions, and write the table of their time and size.
    pub(crate) build: bool,
    /// Store the counts as the budgets, or the sizes of builds.
    pub(crate) write: bool,
    /// Only write the page, from the stored results.
    pub(crate) render: bool,
}

/// The packages of `peers` that Cargo builds; nanobind is C++, the floor is C.
const PACKAGES: &[&str] = &["dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "dlpack-rs", "rust-numpy"];

/// Installed beside numpy and the frameworks of the tests.
const INSTALLED: &[&str] = &["apache-tvm-ffi", "nanobind", "pandas", "polars"];

/// Full optimisation for C and C++, as Cargo's packages set it for themselves.
const OPTIMISED: &[&str] = &["-O3", "-flto=auto", "-DNDEBUG"];

/// The frameworks with rows that have an instruction budget: the groups of `benches/python/repeat.py` beside NumPy's.
const COUNTED: &[&str] = &["torch", "jax"];

const RESULTS: &str = "benches/results.json";
const BUDGETS: &str = "benches/budgets.json";

/// The Python of the budgets: each release has another interpreter, with other counts.
const COUNTED_WITH: &str = "3.11";

pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<()> {
    let venv = Venv::made(workplace)?;
    if options.render {
        return process::run(venv.python().arg("benches/report/run.py").args(PAGE).arg("--render"));
    }
    venv.install(&[pins::NUMPY, pins::MATURIN])?;
    if options.build && !options.write {
        return build_cost::run(workplace, &venv);
    }
    if options.build {
        return done(build_cost::sizes(workplace, &venv, true)?);
    }
    if options.instructions {
        let counted = pins::FRAMEWORKS.iter().filter(|f| COUNTED.contains(&f.name));
        venv.install(&counted.map(|f| f.requirement).collect::<Vec<_>>())?;
        venv.install_project(".")?;
        return done(instructions(workplace, &venv, options.write)?);
    }
    if !cfg!(target_os = "linux") {
        return Err("the benchmarks need Linux, for the clock of a thread and /proc".into());
    }
    let peers = Peers::new(workplace, "benches")?;
    peers.ready_venv(&venv, INSTALLED, pins::BENCHES)?;
    let wheel = venv.build_project(".")?;
    let wheel = [OsStr::new("--no-deps"), OsStr::new("--force-reinstall"), wheel.as_os_str()];
    peers.install(&venv, &wheel)?;
    for package in PACKAGES {
        peers.build(package, peers.python())?;
    }
    peers.compile_nanobind(OPTIMISED)?;
    peers.compile_c("benches/python/floor/floor.c", venv.dlpack_include()?, OPTIMISED)?;
    let program = peers.build_program("benches/rust", "rust-benches", &[])?;
    let mut measure = workplace.command(peers.python());
    measure.env("PYTHONPATH", peers.modules()).arg("benches/report/run.py");
    measure.arg("--rust").arg(program).arg("--scratch").arg(peers.directory());
    if options.quick {
        // Too few rounds to publish the results.
        let quick = |name| peers.directory().join("quick").with_extension(name);
        let page = workplace.root.join(PAGE[3]);
        std::fs::copy(&page, quick("md")).map_err(|e| format!("{}: {e}", page.display()))?;
        measure.arg("--quick").arg("--results").arg(quick("json"));
        measure.arg("--page").arg(quick("md")).arg("--plot").arg(quick("svg"));
    } else {
        measure.args(PAGE);
    }
    process::run(&mut measure)
}

/// Returns the reason why nothing was measured as an error.
fn done(finished: Finished) -> Result<()> {
    match finished {
        Finished::Passed => Ok(()),
        Finished::Notice(reason) => Err(reason),
    }
}

/// The files of the results, the page and the plot.
const PAGE: [&str; 6] =
    ["--results", RESULTS, "--page", "docs/benchmarks.md", "--plot", "docs/benchmarks.svg"];

/// Counts the instructions of the paths with a budget. The wheel and numpy are already installed.
pub(crate) fn instructions(workplace: &Workplace, venv: &Venv, write: bool) -> Result<Finished> {
    let question = "import sys; print('%d.%d' % sys.version_info[:2])";
    let python = process::answer(venv.python().args(["-c", question])).unwrap_or_default();
    if python != COUNTED_WITH || !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(Finished::Notice(format!(
            "the instruction budgets are for Python {COUNTED_WITH} on Linux and x86-64, and were not \
             compared with Python {python} here; PYTHON chooses another"
        )));
    }
    debian::with_valgrind(workplace, "the instruction budgets were not compared", || {
        count(workplace, venv, write)
    })
}

/// Builds the programs, and counts their instructions.
fn count(workplace: &Workplace, venv: &Venv, write: bool) -> Result<()> {
    let peers = Peers::new(workplace, "instructions")?;
    peers.build("dlbridge", venv.program("python"))?;
    let alone = ["--no-default-features"];
    let program: PathBuf = peers.build_program("benches/rust", "rust-benches", &alone)?;
    let mut count = venv.python();
    count.env("PYTHONPATH", peers.modules()).arg("benches/report/budgets.py");
    count.arg("--rust").arg(program).arg("--scratch").arg(peers.directory());
    count.args(["--budgets", BUDGETS]).args(write.then_some("--write"));
    process::run(&mut count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{self, is_for};

    #[test]
    fn every_requirement_is_pinned() {
        for project in INSTALLED {
            assert!(pins::interop().any(|r| is_for(r, project)), "{project}");
        }
        assert!(pins::BENCHES.iter().all(|requirement| requirement.contains("==")));
    }

    #[test]
    fn every_counted_framework_is_pinned() {
        for name in COUNTED {
            assert!(pins::FRAMEWORKS.iter().any(|f| f.name == *name), "{name}");
        }
    }

    #[test]
    fn every_package_is_built() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let folder = root.join(peers::SOURCES);
        let all = crate::workplace::names(&folder);
        let packages = all.iter().filter(|name| folder.join(name).join("Cargo.toml").exists());
        let mut built = PACKAGES.to_vec();
        built.sort();
        assert_eq!(packages.collect::<Vec<_>>(), built);
    }
}
