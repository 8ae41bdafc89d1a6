//! `cargo xtask gpu-test`: runs the suite of `tests/gpu` on this machine's GPU. Without a GPU, it prints that, and runs
//! the same code on a stand-in for the driver with host memory, whose result does not count for a GPU.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::python::Venv;
use crate::steps::Finished;
use crate::{Result, Workplace, c_examples, pins, process};

/// The folder of the suite.
pub(crate) const SUITE: &str = "tests/gpu";

/// The stand-in, and the name that the driver's library has.
const STAND_IN: &str = "tests/python/cuda_driver.c";
const LIBRARY: &str = "libcuda.so.1";

/// The options of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Fewer repeats, and smaller copies.
    pub(crate) quick: bool,
    /// The libraries that are checked, if not all.
    pub(crate) only: Option<String>,
    /// The file for the results.
    pub(crate) json: Option<PathBuf>,
}

pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<()> {
    let venv = Venv::made(workplace)?;
    venv.install(&[pins::MATURIN])?;
    let wheel = venv.build_project(".")?;
    let python = interpreter(&venv);
    let results = workplace.target.join("gpu.json");
    let json = options.json.as_ref().unwrap_or(&results);
    // Removes the results of an earlier run, so that the file read below is from this run.
    let _ = fs::remove_file(json);
    process::run(&mut suite(workplace, &python, &wheel, options, json))?;
    let found = fs::read_to_string(json).map_err(|e| format!("{}: {e}", json.display()))?;
    if !is_without_device(&found) {
        return Ok(());
    }
    println!("\nNow on the stand-in, whose result does not count for a GPU:");
    if let Finished::Notice(reason) = on_stand_in(workplace, &venv)? {
        println!("notice: {reason}");
    }
    Ok(())
}

/// Runs the suite on the stand-in, with the wheel that was built last.
pub(crate) fn on_stand_in(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    if let Some(reason) = no_stand_in() {
        return Ok(Finished::Notice(reason));
    }
    let json = workplace.target.join("gpu.stand-in");
    let (python, wheel) = (venv.program("python"), venv.built(".")?);
    let mut tried = suite(workplace, &python, &wheel, &Options::default(), &json);
    process::run(tried.arg("--stand-in").arg(compiled(workplace)?))?;
    Ok(Finished::Passed)
}

/// Returns the command that runs the suite.
fn suite(
    workplace: &Workplace,
    python: &Path,
    wheel: &Path,
    options: &Options,
    json: &Path,
) -> Command {
    let mut suite = workplace.command(python);
    suite.arg(SUITE).arg("--wheel").arg(wheel).arg("--json").arg(json);
    suite.args(options.quick.then_some("--quick"));
    if let Some(names) = &options.only {
        suite.args(["--only", names]);
    }
    suite
}

/// Returns the Python whose libraries are checked. `.venv` has the libraries for the other tests.
fn interpreter(venv: &Venv<'_>) -> PathBuf {
    env::var_os("PYTHON").map_or_else(|| venv.program("python"), PathBuf::from)
}

/// Returns true if the suite found no device.
fn is_without_device(results: &str) -> bool {
    results.lines().any(|line| line.trim().trim_end_matches(',') == "\"ran\": false")
}

/// Returns the reason if the stand-in does not work here.
fn no_stand_in() -> Option<String> {
    let reason = "the stand-in for the driver needs Linux";
    (!cfg!(target_os = "linux")).then(|| reason.to_owned())
}

/// Compiles the stand-in under the name of the driver's library.
fn compiled(workplace: &Workplace) -> Result<PathBuf> {
    let folder = workplace.target.join("gpu");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let library = folder.join(LIBRARY);
    let mut compile = c_examples::c_compiler(workplace);
    compile.args(["-shared", "-fPIC", "-pthread"]).arg(format!("-Wl,-soname,{LIBRARY}"));
    compile.args([OsStr::new("-o"), library.as_os_str(), OsStr::new(STAND_IN)]);
    process::run(&mut compile)?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    #[test]
    fn results_without_a_device_are_detected() {
        assert!(is_without_device("{\n \"ran\": false,\n \"hardware\": false\n}"));
        assert!(!is_without_device("{\n \"ran\": true,\n \"hardware\": false\n}"));
        assert!(!is_without_device("{\n \"reason\": \"\\\"ran\\\": false\"\n}"));
    }

    #[test]
    fn command_has_the_options() {
        let workplace = Workplace { root: root(), target: root().join("target") };
        let options = Options { quick: true, only: Some("torch".into()), ..Default::default() };
        let [python, wheel, json] = ["p", "w.whl", "r.json"].map(Path::new);
        let suite = suite(&workplace, python, wheel, &options, json);
        let arguments: Vec<_> = suite.get_args().collect();
        let expected =
            [SUITE, "--wheel", "w.whl", "--json", "r.json", "--quick", "--only", "torch"];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn suite_and_stand_in_exist() {
        assert!(root().join(SUITE).join("__main__.py").is_file());
        assert!(root().join(STAND_IN).is_file());
    }
}
