//! The Pythons of this machine, and the environments that uv makes from `uv.lock`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::step::{Result, Step};

/// Makes the environments.
const UV: &str = "uv==0.13.8";

/// The releases of Python that the package is tested with. The first is the oldest that it supports.
pub(crate) const VERSIONS: &[&str] = &["3.11", "3.12", "3.13", "3.14", "3.15"];

/// A virtual environment in the root.
pub(crate) struct Venv {
    root: PathBuf,
    folder: PathBuf,
    uv: PathBuf,
}

impl Venv {
    /// Makes `.venv` with the Python that `PYTHON` names, or the oldest of this machine, and installs a dependency group of
    /// `pyproject.toml`.
    pub(crate) fn new(root: &Path, group: &str) -> Result<Self> {
        let python = match env::var_os("PYTHON") {
            Some(python) => python.into(),
            None => oldest()?,
        };
        Self::of(root, ".venv", &python, group)
    }

    /// Makes an environment of another Python.
    pub(crate) fn of(root: &Path, name: &str, python: &Path, group: &str) -> Result<Self> {
        let venv = Self { root: root.into(), folder: root.join(name), uv: ready_uv(root, python)? };
        println!("{}: the group `{group}`, with {}", venv.folder.display(), python.display());
        let mut sync = venv.uv(&[
            "sync",
            "--quiet",
            "--frozen",
            "--inexact",
            "--no-default-groups",
            "--group",
            group,
        ]);
        sync.arg("--python").arg(python).env("UV_PROJECT_ENVIRONMENT", &venv.folder);
        ran(&mut sync)?;
        Ok(venv)
    }

    /// Returns a uv command in the root.
    fn uv(&self, arguments: &[&str]) -> Command {
        let mut uv = Command::new(&self.uv);
        uv.args(arguments).current_dir(&self.root).env_remove("VIRTUAL_ENV");
        uv
    }

    /// Returns a program of the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let programs = self.folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
        programs.join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    /// Returns a step that runs the environment's Python.
    pub(crate) fn python(&self, name: impl Into<String>, line: &str) -> Step {
        Step::of(name, &self.program("python"), line)
    }

    /// Returns the step that installs distributions that `uv.lock` lacks.
    pub(crate) fn pip(&self, what: &str) -> Step {
        let install = format!("pip install --quiet {what} --python");
        Step::of(format!("install: {what}"), &self.uv, &install)
            .arg(self.program("python"))
            .needed()
    }

    /// Returns the steps that build the wheel of a project in `target/wheels` and install it.
    pub(crate) fn installs(&self, project: &str, options: &str) -> [Step; 2] {
        let wheels = wheels(&self.root, project);
        let _ = fs::remove_dir_all(&wheels);
        let build = format!("build --locked {options}");
        let maturin = self.program("maturin");
        let build =
            Step::of(format!("wheel: {project}"), &maturin, &build).dir(&self.root.join(project));
        let build = build.arg("--interpreter").arg(self.program("python")).arg("--out").arg(wheels);
        [build.needed(), self.installs_built(project)]
    }

    /// Returns the step that installs the wheel of a project that was built last.
    pub(crate) fn installs_built(&self, project: &str) -> Step {
        // uv would take an older wheel of the same version from its cache.
        let install = "pip install --quiet --no-deps --no-index --reinstall --no-cache";
        Step::of(format!("install: {project}"), &self.uv, install)
            .arg("--python")
            .arg(self.program("python"))
            .arg("--find-links")
            .arg(wheels(&self.root, project))
            .arg(distribution(project))
            .needed()
    }
}

/// Returns the folder of the wheel of a project.
fn wheels(root: &Path, project: &str) -> PathBuf {
    root.join("target/wheels").join(if project == "." { "dlbridge" } else { project })
}

/// Returns the name of a project's distribution.
fn distribution(project: &str) -> String {
    match project {
        "." => "dlbridge".into(),
        "conformance" => "dlbridge-conformance".into(),
        "tests/arguments" => "typed-arguments".into(),
        "examples/operators" => "rust-operators".into(),
        other => other.rsplit('/').next().unwrap_or(other).replace('_', "-"),
    }
}

/// Returns the path of uv, and installs it first if it is missing.
fn ready_uv(root: &Path, python: &Path) -> Result<PathBuf> {
    let folder = root.join("target/uv");
    let uv = folder.join(if cfg!(windows) { "Scripts/uv.exe" } else { "bin/uv" });
    let version = UV.trim_start_matches("uv==");
    if answer(Command::new(&uv).arg("--version")).is_some_and(|found| found.contains(version)) {
        return Ok(uv);
    }
    ran(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder)).map_err(|error| {
        format!("{error}; if `ensurepip` is missing, install the package `python3-venv`")
    })?;
    let pip = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    ran(Command::new(folder.join(pip)).args(["-m", "pip", "install", "--quiet", UV]))?;
    Ok(uv)
}

/// Returns the oldest supported Python of this machine. A newer one accepts all code that an older one accepts.
fn oldest() -> Result<PathBuf> {
    let found = VERSIONS.iter().find_map(|version| find(version));
    found
        .ok_or_else(|| format!("no Python from {} on was found; name one with PYTHON", VERSIONS[0]))
}

/// Returns the newest supported Python of this machine whose libraries are in `uv.lock`.
pub(crate) fn newest() -> Option<(&'static str, PathBuf)> {
    // TensorFlow and Paddle have no wheels for newer ones.
    VERSIONS[..3].iter().rev().find_map(|version| Some((*version, find(version)?)))
}

/// Returns the Python of a version with the GIL, by its name on the path or from pyenv.
pub(crate) fn find(version: &str) -> Option<PathBuf> {
    let named = PathBuf::from(format!("python{version}"));
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = env::var_os("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    let releases = fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let releases = releases
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("{version}.")));
    let paths = releases.map(|entry| entry.path().join("bin/python"));
    let question = "import sys, sysconfig; \
        assert not sysconfig.get_config_var('Py_GIL_DISABLED'); print('%d.%d' % sys.version_info[:2], sys.executable)";
    [named, "python3".into(), "python".into()].into_iter().chain(paths).find_map(|python| {
        let found = answer(Command::new(python).args(["-c", question]))?;
        let (of, path) = found.trim().split_once(' ')?;
        (of == version).then(|| path.into())
    })
}

/// Runs a command to its end.
pub(crate) fn ran(command: &mut Command) -> Result<()> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// Returns the output of a command, or `None` if it failed.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sets the Python for which PyO3 compiles. All steps have the same, so that none repeats a build of another.
pub(crate) fn for_pyo3(step: Step, venv: &Venv) -> Step {
    step.env("PYO3_PYTHON", venv.program("python")).env("PYO3_BUILD_EXTENSION_MODULE", "1")
}
