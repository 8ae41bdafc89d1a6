//! The virtual environment `.venv`: made with a Python of this machine, filled from PyPI, and with
//! the project's own wheels.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Result, Workplace, pins, process};

/// The oldest Python that the wheel supports.
const OLDEST: (u32, u32) = pins::PYTHONS[0];

/// Tried last where `PYTHON` names none.
const UNNUMBERED: &[&str] = &["python3", "python"];

/// A release of Python: 3 and 11.
pub(crate) type Version = (u32, u32);

/// `.venv`, or the environment of one more Python, with pip, and uv where it could be had.
pub(crate) struct Venv<'a> {
    workplace: &'a Workplace,
    directory: PathBuf,
    /// The directory of its programs.
    programs: PathBuf,
    uv: Option<PathBuf>,
    /// The Python that it has to be of, if that is not free.
    of: Option<Version>,
    /// The Python that it is of.
    version: Version,
}

impl<'a> Venv<'a> {
    /// The environment, which may not be there yet.
    pub(crate) fn of(workplace: &'a Workplace) -> Self {
        Self::named(workplace, ".venv".to_owned(), None)
    }

    /// The environment of one Python, `.venv-3.13`, which may not be there yet.
    pub(crate) fn of_python(workplace: &'a Workplace, (major, minor): Version) -> Self {
        Self::named(workplace, format!(".venv-{major}.{minor}"), Some((major, minor)))
    }

    fn named(workplace: &'a Workplace, name: String, of: Option<Version>) -> Self {
        let directory = workplace.root.join(name);
        let programs = directory.join(if cfg!(windows) { "Scripts" } else { "bin" });
        Self { workplace, directory, programs, uv: None, of, version: OLDEST }
    }

    /// Uses the environment that is there, or makes it.
    pub(crate) fn made(workplace: &'a Workplace) -> Result<Self> {
        let mut venv = Self::of(workplace);
        venv.ready()?;
        Ok(venv)
    }

    /// Makes the environment, if it is not there.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let wanted = match self.of {
            Some(version) => Some(Interpreter::of(version).ok_or_else(|| missing(version))?),
            None => env::var_os("PYTHON").map(|p| Interpreter::named(&p)).transpose()?,
        };
        let current = Interpreter::ask(self.program("python").as_os_str());
        let usable = current.as_ref().is_some_and(|current| {
            wanted.as_ref().map_or(current.version >= OLDEST, |w| w.version == current.version)
        });
        self.version = match current.filter(|_| usable) {
            Some(current) => current.version,
            None => {
                let python = wanted.map_or_else(Interpreter::find, Ok)?;
                self.make(&python)?;
                python.version
            }
        };
        if !process::succeeds(self.python().args(["-c", "import pip"])) {
            process::run(self.python().args(["-m", "ensurepip"]))?;
        }
        self.uv = self.ready_uv();
        Ok(())
    }

    fn make(&self, python: &Interpreter) -> Result<()> {
        let (major, minor) = python.version;
        println!(
            "making {} with Python {major}.{minor} ({})",
            self.directory.display(),
            python.path
        );
        let mut make = self.workplace.command(&python.path);
        process::run(make.args(["-m", "venv", "--clear"]).arg(&self.directory)).map_err(|error| {
            // Half an environment would be taken for a whole one the next time.
            let _ = fs::remove_dir_all(&self.directory);
            format!(
                "{error}. If Python says that `ensurepip` is missing, install the package that \
                 has it (on Debian and Ubuntu: python{major}.{minor}-venv), or set PYTHON"
            )
        })
    }

    /// uv in the pinned version. Without it everything works, but slowly.
    fn ready_uv(&self) -> Option<PathBuf> {
        let uv = self.program("uv");
        let version = process::answer(self.workplace.command(&uv).arg("--version"));
        let pinned = pins::UV.trim_start_matches("uv==");
        if version.is_some_and(|v| v.split_whitespace().nth(1) == Some(pinned)) {
            return Some(uv);
        }
        match process::run(self.python().args(["-m", "pip", "install", "--quiet", pins::UV])) {
            Ok(()) => Some(uv),
            Err(error) => {
                println!("{error}; pip is used instead");
                None
            }
        }
    }

    /// A program of the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    /// The environment's Python, in the root.
    pub(crate) fn python(&self) -> Command {
        self.workplace.command(self.program("python"))
    }

    /// Cargo as a crate that uses PyO3 needs it: it builds for this Python, and does not link it.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = self.workplace.cargo(arguments);
        cargo.env("PYO3_PYTHON", self.program("python"));
        cargo.env("PYO3_BUILD_EXTENSION_MODULE", "1");
        cargo
    }

    /// The Python that it is of, once it is [`ready`](Self::ready).
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Installs what is named: requirements, in the newest release for this Python, and options that uv and pip both know.
    pub(crate) fn install(&self, what: &[impl AsRef<OsStr>]) -> Result<()> {
        let newest = |what: &'_ OsStr| match what.to_str() {
            Some(text) => pins::for_python(text, self.version).into(),
            None => what.to_owned(),
        };
        let what: Vec<_> = what.iter().map(|what| newest(what.as_ref())).collect();
        if let Some(uv) = &self.uv {
            let mut install = self.workplace.command(uv);
            install.args(["pip", "install", "--python"]).arg(self.program("python")).args(&what);
            // pip may know an index or a proxy that uv does not.
            match process::run(&mut install) {
                Ok(()) => return Ok(()),
                Err(error) => println!("{error}; now with pip"),
            }
        }
        process::run(self.python().args(["-m", "pip", "install"]).args(what))
    }

    /// Builds the Python project in a directory of the repository, and installs its wheel in place of
    /// whatever was installed under its name.
    pub(crate) fn install_project(&self, directory: &str) -> Result<()> {
        let wheel = self.build_project(directory)?;
        self.install_wheel(&wheel)
    }

    /// As [`install_project`](Self::install_project), built quickly, with all that is checked while debugging.
    pub(crate) fn install_example(&self, directory: &str) -> Result<()> {
        let wheel = self.build(directory, "dev", None)?;
        self.install_wheel(&wheel)
    }

    /// Installs a wheel in place of whatever was installed under its name.
    pub(crate) fn install_wheel(&self, wheel: &Path) -> Result<()> {
        self.install(&[OsStr::new("--no-deps"), OsStr::new("--force-reinstall"), wheel.as_os_str()])
    }

    /// Where the wheel of a Python project is built.
    fn wheels(&self, directory: &str) -> PathBuf {
        let name = if directory == "." { "dlbridge" } else { directory };
        self.workplace.target.join("wheels").join(name)
    }

    /// The wheel that was built last of the Python project in a directory of the repository.
    pub(crate) fn built(&self, directory: &str) -> Result<PathBuf> {
        only("whl", &self.wheels(directory))
    }

    /// The wheel of the Python project in a directory of the repository, built in release mode.
    pub(crate) fn build_project(&self, directory: &str) -> Result<PathBuf> {
        self.build(directory, "release", None)
    }

    /// The wheel of an example with one feature alone, built quickly.
    pub(crate) fn build_example_with(&self, directory: &str, feature: &str) -> Result<PathBuf> {
        self.build(directory, "dev", Some(feature))
    }

    fn build(&self, directory: &str, profile: &str, feature: Option<&str>) -> Result<PathBuf> {
        let wheels = self.wheels(&[&[directory], feature.as_slice()].concat().join("-"));
        // Whatever lies there afterwards is what was built now.
        let _ = fs::remove_dir_all(&wheels);
        let mut build = self.workplace.command(self.program("maturin"));
        build.current_dir(self.workplace.root.join(directory));
        build.args(["build", "--profile", profile, "--locked"]);
        build.args(
            feature.iter().flat_map(|feature| ["--no-default-features", "--features", feature]),
        );
        build.arg("--interpreter").arg(self.program("python"));
        process::run(build.arg("--out").arg(&wheels))?;
        only("whl", &wheels)
    }

    /// Compares the stub of an example with the one that its code gives.
    pub(crate) fn compare_stub(&self, example: &str) -> Result<()> {
        let name = example.rsplit('/').next().unwrap_or(example);
        let stubs = self.workplace.target.join("stubs");
        let _ = fs::remove_dir_all(&stubs);
        let mut generate = self.workplace.command(self.program("maturin"));
        generate.current_dir(self.workplace.root.join(example));
        generate.args(["generate-stubs", "--features", "stubs", "--locked", "--interpreter"]);
        process::run(generate.arg(self.program("python")).arg("--out").arg(&stubs))?;
        let read = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let kept = self.workplace.root.join(example).join(format!("{name}.pyi"));
        match read(stubs.join(name).join("__init__.pyi"))? == read(kept.clone())? {
            true => Ok(()),
            false => Err(format!(
                "{} is another stub than the code gives; its README says how it is made",
                kept.display()
            )),
        }
    }

    /// Builds a source distribution, and a wheel of that: quickly, since what counts is that no file is missing.
    pub(crate) fn try_source_distribution(&self) -> Result<()> {
        let directory = self.workplace.target.join("sdist");
        let archives = directory.join("archives");
        let _ = fs::remove_dir_all(&archives);
        let mut sdist = self.workplace.command(self.program("maturin"));
        process::run(sdist.arg("sdist").arg("--out").arg(&archives))?;
        let mut wheel = self.python();
        wheel.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]);
        wheel.arg("--wheel-dir").arg(&archives).arg(only("gz", &archives)?);
        // The build backend is found by its name on the path.
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [self.programs.clone()].into_iter().chain(env::split_paths(&path));
        wheel.env("PATH", env::join_paths(path).map_err(|e| e.to_string())?);
        // The dependencies are those of the examples, which are built in this profile too.
        wheel.env("MATURIN_PEP517_ARGS", "--profile dev");
        wheel.env("CARGO_TARGET_DIR", &self.workplace.target);
        process::run(&mut wheel)
    }

    /// The directory that holds `dlpack/dlpack.h`: `DLPACK_INCLUDE`, or the pinned wheel's, which
    /// is downloaded once.
    pub(crate) fn dlpack_include(&self) -> Result<PathBuf> {
        if let Some(given) = env::var_os("DLPACK_INCLUDE") {
            return Ok(given.into());
        }
        let version = pins::DLPACK_HEADER.rsplit('=').next().unwrap_or_default();
        let directory = self.workplace.target.join("dlpack").join(version);
        let include = directory.join("tvm_ffi").join("include");
        let header = include.join("dlpack").join("dlpack.h");
        if header.is_file() {
            return Ok(include);
        }
        let mut download = self.python();
        download.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
        process::run(download.arg(pins::DLPACK_HEADER).arg("--dest").arg(&directory))?;
        let mut unpack = self.python();
        unpack.args(["-m", "zipfile", "-e"]).arg(only("whl", &directory)?).arg(&directory);
        process::run(&mut unpack)?;
        if header.is_file() {
            Ok(include)
        } else {
            Err(format!("{} has no dlpack/dlpack.h", pins::DLPACK_HEADER))
        }
    }
}

/// The wheel in a directory that holds one.
fn only(extension: &str, directory: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.filter(|p| p.extension() == Some(OsStr::new(extension)));
    match &found.collect::<Vec<_>>()[..] {
        [one] => Ok(one.clone()),
        some => Err(format!("{} holds {} .{extension}, not one", directory.display(), some.len())),
    }
}

/// Of the Pythons that the wheel is tested with, the oldest and the newest that this machine has, without that of `.venv`.
pub(crate) fn others(venv: &Venv<'_>) -> Vec<Version> {
    let here = |version: &Version| *version == venv.version || Interpreter::of(*version).is_some();
    let newest = pins::PYTHONS.iter().rev().copied().find(here);
    let mut others: Vec<_> = [OLDEST].into_iter().filter(here).chain(newest).collect();
    others.dedup();
    others.retain(|version| *version != venv.version);
    others
}

/// Says that a Python is missing.
fn missing((major, minor): Version) -> String {
    format!("Python {major}.{minor} is not installed")
}

/// The Pythons of a version that pyenv has.
pub(crate) fn of_pyenv((major, minor): Version) -> impl Iterator<Item = PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or(home.map(|h| h.join(".pyenv")));
    let versions = pyenv.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let versions = versions.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let prefix = format!("{major}.{minor}.");
    let matching = versions.filter(move |path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    });
    matching.map(|path| path.join("bin/python"))
}

/// A Python of this machine.
struct Interpreter {
    version: (u32, u32),
    /// What it says its own path is.
    path: String,
}

impl Interpreter {
    /// The oldest that is new enough, or an error if none is. A newer one accepts all code that an older one accepts.
    fn find() -> Result<Self> {
        if let Some(python) = pins::PYTHONS.iter().find_map(|version| Self::of(*version)) {
            return Ok(python);
        }
        let mut too_old = Vec::new();
        for name in UNNUMBERED {
            match Self::ask(OsStr::new(name)) {
                Some(python) if python.version >= OLDEST => return Ok(python),
                Some(python) => too_old.push(python.described()),
                None => {}
            }
        }
        too_old.dedup();
        let found = if too_old.is_empty() { "no Python".into() } else { too_old.join(", ") };
        Err(format!("found {found}; {}", Self::needed()))
    }

    /// One of this version, by its name or among those of pyenv, whose own scripts know one version alone.
    fn of(version: Version) -> Option<Self> {
        let (major, minor) = version;
        let named = PathBuf::from(format!("python{major}.{minor}"));
        let candidates = [named].into_iter().chain(of_pyenv(version));
        let mut found = candidates.filter_map(|path| Self::ask(path.as_os_str()));
        found.find(|python| python.version == version)
    }

    /// The one that `PYTHON` names.
    fn named(name: &OsStr) -> Result<Self> {
        let shown = name.to_string_lossy();
        match Self::ask(name) {
            Some(python) if python.version >= OLDEST => Ok(python),
            Some(python) => {
                Err(format!("PYTHON is {shown}: {}; {}", python.described(), Self::needed()))
            }
            None => Err(format!("PYTHON is {shown}, which cannot be run; {}", Self::needed())),
        }
    }

    /// `None` if it cannot be run. (The name alone proves nothing: it may be a version manager's
    /// script for a version that is not active.)
    fn ask(name: &OsStr) -> Option<Self> {
        let question = "import sys; print(*sys.version_info[:2], sys.executable)";
        Self::parse(&process::answer(Command::new(name).args(["-c", question]))?)
    }

    fn parse(answer: &str) -> Option<Self> {
        let mut parts = answer.splitn(3, ' ');
        let version = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { version, path: parts.next()?.to_owned() })
    }

    fn described(&self) -> String {
        format!("Python {}.{} at {}", self.version.0, self.version.1, self.path)
    }

    fn needed() -> String {
        format!("{}.{} or later is needed; set PYTHON to its path", OLDEST.0, OLDEST.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_interpreters() {
        let python = Interpreter::parse("3 9 /a b/python").unwrap();
        assert_eq!(python.described(), "Python 3.9 at /a b/python");
        assert!(python.version < OLDEST);
        assert!(Interpreter::parse("3 10 /p").unwrap().version < OLDEST);
        assert!(Interpreter::parse("3 13 /p").unwrap().version >= OLDEST);
        assert!(Interpreter::parse("Python 2").is_none());
    }
}
