//! `cargo xtask compare`: the same functions written with dlbridge and with its peers, built, run on
//! the same inputs, and the tables of `docs/comparison.md` written anew.
//!
//! Every package of `comparison` has a `Cargo.lock` and a workspace of its own, so that nobody who
//! builds dlbridge downloads its peers; what is installed from PyPI is in an environment of its own.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use crate::python::Venv;
use crate::{Result, Workplace, pins, process};

/// The packages that Cargo builds; nanobind is C++.
const PACKAGES: &[&str] = &["dlbridge", "dlpark", "dlpk", "pyo3-dlpack", "rust-numpy"];

/// What is installed beside numpy and the frameworks of the tests.
const INSTALLED: &[&str] = &["tensorflow-cpu", "paddlepaddle", "nanobind"];

pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    let venv = Venv::ready(workplace)?;
    let comparison = Comparison::new(workplace)?;
    comparison.ready_venv(&venv)?;
    for package in PACKAGES {
        comparison.build(package, comparison.python())?;
    }
    comparison.compile_nanobind()?;
    let mut tables = workplace.command(comparison.python());
    tables.env("PYTHONPATH", comparison.modules()).arg("comparison/run.py");
    tables.args(["--page", "docs/comparison.md", "--evidence", "comparison/evidence.json"]);
    process::run(&mut tables)
}

/// Builds the extension that uses rust-numpy, for tests of dlbridge beside it. Returns the folder that it is in.
pub(crate) fn rust_numpy(workplace: &Workplace, venv: &Venv) -> Result<PathBuf> {
    let comparison = Comparison::new(workplace)?;
    comparison.build("rust-numpy", venv.program("python"))?;
    Ok(comparison.modules())
}

struct Comparison<'a> {
    workplace: &'a Workplace,
    /// Everything that the comparison makes.
    directory: PathBuf,
}

impl<'a> Comparison<'a> {
    fn new(workplace: &'a Workplace) -> Result<Self> {
        let comparison = Self { workplace, directory: workplace.target.join("comparison") };
        let modules = comparison.modules();
        let _ = fs::remove_dir_all(&modules);
        fs::create_dir_all(&modules).map_err(|e| format!("{}: {e}", modules.display()))?;
        Ok(comparison)
    }

    /// The folder of the extension modules.
    fn modules(&self) -> PathBuf {
        self.directory.join("modules")
    }

    fn programs(&self) -> PathBuf {
        self.directory.join("venv").join(if cfg!(windows) { "Scripts" } else { "bin" })
    }

    fn python(&self) -> PathBuf {
        self.programs().join("python").with_extension(env::consts::EXE_EXTENSION)
    }

    /// The environment with the frameworks, made by the project's own.
    fn ready_venv(&self, venv: &Venv) -> Result<()> {
        if !process::succeeds(Command::new(self.python()).args(["-c", "import pip"])) {
            let mut make = venv.python();
            process::run(make.args(["-m", "venv", "--clear"]).arg(self.directory.join("venv")))?;
        }
        let named = |requirement: &&&str| INSTALLED.iter().any(|n| is_for(requirement, n));
        let requirements: Vec<&str> = [pins::NUMPY]
            .into_iter()
            .chain(pins::FRAMEWORKS.iter().map(|f| f.requirement))
            .chain(pins::INTEROP.iter().filter(named).copied())
            .collect();
        let mut with_uv = venv.python();
        with_uv.args(["-m", "uv", "pip", "install", "--python"]).arg(self.python());
        process::run(with_uv.args(&requirements)).or_else(|error| {
            println!("{error}; now with pip");
            let mut with_pip = self.workplace.command(self.python());
            process::run(with_pip.args(["-m", "pip", "install"]).args(&requirements))
        })
    }

    /// Builds a package, and puts its extension module where Python finds it.
    fn build(&self, package: &str, python: PathBuf) -> Result<()> {
        let manifest = format!("comparison/{package}/Cargo.toml");
        let mut format = self.workplace.cargo(&["fmt", "--check", "--manifest-path"]);
        process::run(format.arg(&manifest))?;
        let mut build = self.workplace.cargo(&["build", "--release", "--locked"]);
        build.env("CARGO_TARGET_DIR", self.directory.join("cargo"));
        build.env("PYO3_PYTHON", python).env("PYO3_BUILD_EXTENSION_MODULE", "1");
        process::run(build.args(["--manifest-path", &manifest]))?;
        let module = format!("with_{}", package.replace('-', "_"));
        let built = format!("{DLL_PREFIX}{module}{DLL_SUFFIX}");
        let built = self.directory.join("cargo").join("release").join(built);
        fs::copy(&built, self.module(&module))
            .map(drop)
            .map_err(|e| format!("{}: {e}", built.display()))
    }

    /// The file of an extension module.
    fn module(&self, name: &str) -> PathBuf {
        let extension = if cfg!(windows) { "pyd" } else { "so" };
        self.modules().join(name).with_extension(extension)
    }

    /// Compiles nanobind and the functions in one go, without CMake.
    fn compile_nanobind(&self) -> Result<()> {
        let question = "import nanobind, pathlib, sysconfig
print(sysconfig.get_path('include'), pathlib.Path(nanobind.__file__).parent, sep='\\n')";
        let answer = process::answer(Command::new(self.python()).args(["-c", question]))
            .ok_or("nanobind is not installed")?;
        let (headers, nanobind) = answer.split_once('\n').ok_or("nanobind is not to be found")?;
        let nanobind = PathBuf::from(nanobind.trim());
        let include = |path: PathBuf| {
            let mut option = OsString::from("-I");
            option.push(path);
            option
        };
        let mut compile =
            self.workplace.command(env::var_os("CXX").unwrap_or_else(|| "c++".into()));
        compile.args(["-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden"]);
        compile.args(["-fno-strict-aliasing", "-DNB_COMPACT_ASSERTIONS"]);
        if cfg!(target_os = "macos") {
            compile.args(["-undefined", "dynamic_lookup"]);
        }
        compile.arg(include(headers.trim().into())).arg(include(nanobind.join("include")));
        compile.arg(include(nanobind.join("ext").join("robin_map").join("include")));
        compile.arg(nanobind.join("src").join("nb_combined.cpp"));
        compile.arg("comparison/nanobind/functions.cpp");
        process::run(compile.arg("-o").arg(self.module("with_nanobind")))
    }
}

/// Whether a requirement is for a project: `nanobind==3.1.0` for `nanobind`.
fn is_for(requirement: &str, project: &str) -> bool {
    requirement.strip_prefix(project).is_some_and(|version| version.starts_with("=="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_needed_is_pinned() {
        for project in INSTALLED {
            assert!(pins::INTEROP.iter().any(|r| is_for(r, project)), "{project}");
        }
        assert!(!is_for("nanobind-extra==1.0", "nanobind"));
    }
}
