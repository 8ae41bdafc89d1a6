//! Builds extensions written with dlbridge and with its peers, for a Python environment of their own.
//!
//! Every package has a `Cargo.lock` and a workspace of its own, so that a build of dlbridge does not download its
//! peers. Packages from PyPI are installed in the separate environment.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::python::Venv;
use crate::{Result, Workplace, pins, process};

/// A folder of such extensions.
pub(crate) struct Peers<'a> {
    workplace: &'a Workplace,
    /// The folder for all built files.
    directory: PathBuf,
}

/// The folder of the packages, from the root.
pub(crate) const SOURCES: &str = "peers";

/// The prefix of the modules' names.
const PREFIX: &str = "with_";

impl<'a> Peers<'a> {
    /// Makes the folder `name` in the target directory.
    pub(crate) fn new(workplace: &'a Workplace, name: &str) -> Result<Self> {
        let peers = Self { workplace, directory: workplace.target.join(name) };
        let modules = peers.modules();
        let _ = fs::remove_dir_all(&modules);
        fs::create_dir_all(&modules).map_err(|e| format!("{}: {e}", modules.display()))?;
        Ok(peers)
    }

    /// Returns the folder for all built files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the folder of the extension modules.
    pub(crate) fn modules(&self) -> PathBuf {
        self.directory.join("modules")
    }

    /// Returns the Python of the environment.
    pub(crate) fn python(&self) -> PathBuf {
        let programs = if cfg!(windows) { "Scripts" } else { "bin" };
        let python = self.directory.join("venv").join(programs).join("python");
        python.with_extension(env::consts::EXE_EXTENSION)
    }

    /// Makes the environment with the Python of the project's own, and installs numpy, the frameworks, the named
    /// requirements of `pins::interop`, and more requirements.
    pub(crate) fn ready_venv(&self, venv: &Venv, named: &[&str], more: &[&str]) -> Result<()> {
        if !process::succeeds(Command::new(self.python()).args(["-c", "import pip"])) {
            let mut make = venv.python();
            process::run(make.args(["-m", "venv", "--clear"]).arg(self.directory.join("venv")))?;
        }
        let is_named = |requirement: &&str| named.iter().any(|n| is_for(requirement, n));
        let requirements: Vec<String> = [pins::NUMPY]
            .into_iter()
            .chain(pins::FRAMEWORKS.iter().map(|f| f.requirement))
            .chain(pins::interop().filter(is_named))
            .map(str::to_owned)
            .chain(more.iter().map(|requirement| (*requirement).to_owned()))
            .collect();
        self.install(venv, &requirements)
    }

    /// Installs into the environment: requirements, and options that both uv and pip accept.
    pub(crate) fn install(&self, venv: &Venv, what: &[impl AsRef<std::ffi::OsStr>]) -> Result<()> {
        let mut with_uv = venv.python();
        with_uv.args(["-m", "uv", "pip", "install", "--python"]).arg(self.python());
        process::run(with_uv.args(what)).or_else(|error| {
            println!("{error}; now with pip");
            let mut with_pip = self.workplace.command(self.python());
            process::run(with_pip.args(["-m", "pip", "install"]).args(what))
        })
    }

    /// Builds a package, and copies its extension module to the folder of the modules.
    pub(crate) fn build(&self, package: &str, python: PathBuf) -> Result<()> {
        let manifest = format!("{SOURCES}/{package}/Cargo.toml");
        let release = self.cargo(&manifest, |build| {
            build.env("PYO3_PYTHON", python).env("PYO3_BUILD_EXTENSION_MODULE", "1");
        })?;
        let module = format!("{PREFIX}{}", package.replace('-', "_"));
        let built = release.join(format!("{DLL_PREFIX}{module}{DLL_SUFFIX}"));
        fs::copy(&built, self.module(&module))
            .map(drop)
            .map_err(|e| format!("{}: {e}", built.display()))
    }

    /// Builds a package that is a program. Returns its path.
    pub(crate) fn build_program(
        &self,
        folder: &str,
        name: &str,
        options: &[&str],
    ) -> Result<PathBuf> {
        let manifest = format!("{folder}/Cargo.toml");
        let release = self.cargo(&manifest, |build| {
            build.args(options);
        })?;
        Ok(release.join(name).with_extension(env::consts::EXE_EXTENSION))
    }

    fn cargo(&self, manifest: &str, prepare: impl FnOnce(&mut Command)) -> Result<PathBuf> {
        let mut format = self.workplace.cargo(&["fmt", "--check", "--manifest-path"]);
        process::run(format.arg(manifest))?;
        let target = self.directory.join("cargo");
        let mut build = self.workplace.cargo(&["build", "--release", "--locked"]);
        prepare(build.env("CARGO_TARGET_DIR", &target));
        process::run(build.args(["--manifest-path", manifest]))?;
        Ok(target.join("release"))
    }

    /// Returns the file of an extension module.
    fn module(&self, name: &str) -> PathBuf {
        let extension = if cfg!(windows) { "pyd" } else { "so" };
        self.modules().join(name).with_extension(extension)
    }

    /// Compiles nanobind and a file of functions together, without CMake.
    pub(crate) fn compile_nanobind(&self, options: &[&str]) -> Result<()> {
        let question = "import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)";
        let nanobind = process::answer(Command::new(self.python()).args(["-c", question]))
            .map(PathBuf::from)
            .ok_or("nanobind is not installed")?;
        let mut compile = self.compiler("CXX", "c++")?;
        compile.args(["-std=c++17", "-fno-strict-aliasing", "-DNB_COMPACT_ASSERTIONS"]);
        compile.args(options);
        compile.arg(include(nanobind.join("include")));
        compile.arg(include(nanobind.join("ext").join("robin_map").join("include")));
        compile.arg(nanobind.join("src").join("nb_combined.cpp"));
        compile.arg(format!("{SOURCES}/nanobind/functions.cpp"));
        process::run(compile.arg("-o").arg(self.module(&format!("{PREFIX}nanobind"))))
    }

    /// Compiles an extension that is one C file and needs only `dlpack.h`.
    pub(crate) fn compile_c(&self, source: &str, headers: PathBuf, options: &[&str]) -> Result<()> {
        let name = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
        let mut compile = self.compiler("CC", "cc")?;
        compile.args(options).arg(include(headers));
        compile.arg(source);
        process::run(compile.arg("-o").arg(self.module(&format!("{PREFIX}{name}"))))
    }

    /// Returns the command of a compiler that makes an extension module for the environment's Python.
    fn compiler(&self, variable: &str, usual: &str) -> Result<Command> {
        let question = "import sysconfig; print(sysconfig.get_path('include'))";
        let headers = process::answer(Command::new(self.python()).args(["-c", question]))
            .ok_or("Python does not report the folder of its headers")?;
        let program = env::var_os(variable).unwrap_or_else(|| usual.into());
        let mut compile = self.workplace.command(program);
        compile.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]);
        if cfg!(target_os = "macos") {
            compile.args(["-undefined", "dynamic_lookup"]);
        }
        compile.arg(include(headers.into()));
        Ok(compile)
    }
}

fn include(path: PathBuf) -> OsString {
    let mut option = OsString::from("-I");
    option.push(path);
    option
}

/// Returns true if a requirement is for a project: `nanobind==3.1.0` for `nanobind`.
pub(crate) fn is_for(requirement: &str, project: &str) -> bool {
    requirement.strip_prefix(project).is_some_and(|version| version.starts_with("=="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_is_matched_by_its_whole_name() {
        assert!(is_for("nanobind==3.1.0", "nanobind"));
        assert!(!is_for("nanobind-extra==1.0", "nanobind"));
    }
}
