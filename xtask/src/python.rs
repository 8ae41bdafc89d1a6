//! The virtual environment `.venv`: made with a Python of this machine, with packages from PyPI and the project's
//! own wheels. The module `interpreters` finds the Pythons.

mod interpreters;

pub(crate) use interpreters::{Version, is_free_threaded, of_pyenv};

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{Result, Workplace, pins, process};
use interpreters::{Interpreter, OLDEST, missing};

/// The Python that an environment requires.
enum Wanted {
    /// The one that `PYTHON` names, or any.
    Any,
    /// One of this version, with the GIL.
    Version(Version),
    /// This one.
    Program(PathBuf),
}

/// `.venv`, or the environment of another Python, with pip, and uv if it could be installed.
pub(crate) struct Venv<'a> {
    workplace: &'a Workplace,
    directory: PathBuf,
    /// The directory of its programs.
    programs: PathBuf,
    uv: Option<PathBuf>,
    wanted: Wanted,
    /// The environment's Python.
    version: Version,
}

impl<'a> Venv<'a> {
    /// Returns the environment `.venv`, which may not exist yet.
    pub(crate) fn of(workplace: &'a Workplace) -> Self {
        Self::named(workplace, ".venv".to_owned(), Wanted::Any)
    }

    /// Returns the environment of one Python, `.venv-3.13`, which may not exist yet.
    pub(crate) fn of_python(workplace: &'a Workplace, (major, minor): Version) -> Self {
        let name = format!(".venv-{major}.{minor}");
        Self::named(workplace, name, Wanted::Version((major, minor)))
    }

    /// Returns the environment of a Python given by its path, which may not exist yet.
    pub(crate) fn of_program(workplace: &'a Workplace, name: &str, python: PathBuf) -> Self {
        Self::named(workplace, name.to_owned(), Wanted::Program(python))
    }

    fn named(workplace: &'a Workplace, name: String, wanted: Wanted) -> Self {
        let directory = workplace.root.join(name);
        let programs = directory.join(if cfg!(windows) { "Scripts" } else { "bin" });
        Self { workplace, directory, programs, uv: None, wanted, version: OLDEST }
    }

    /// Uses the existing environment, or makes it.
    pub(crate) fn made(workplace: &'a Workplace) -> Result<Self> {
        let mut venv = Self::of(workplace);
        venv.ready()?;
        Ok(venv)
    }

    /// Makes the environment, if it does not exist.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let wanted = match &self.wanted {
            Wanted::Version(v) => Some(Interpreter::of(*v).ok_or_else(|| missing(*v))?),
            Wanted::Any => env::var_os("PYTHON").map(|p| Interpreter::named(&p)).transpose()?,
            Wanted::Program(python) => {
                let found = Interpreter::ask(python.as_os_str());
                Some(found.ok_or_else(|| format!("{} cannot be run", python.display()))?)
            }
        };
        let current = Interpreter::ask(self.program("python").as_os_str());
        let usable = current.as_ref().is_some_and(|current| {
            wanted.as_ref().map_or(current.version >= OLDEST && current.has_gil, |w| {
                (w.version, w.has_gil) == (current.version, current.has_gil)
            })
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
            // The next run would use an incomplete environment.
            let _ = fs::remove_dir_all(&self.directory);
            format!(
                "{error}. If Python says that `ensurepip` is missing, install the package that \
                 has it (on Debian and Ubuntu: python{major}.{minor}-venv), or set PYTHON"
            )
        })
    }

    /// Installs uv in the pinned version. Without uv everything works, but slowly.
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

    /// Returns a program of the environment.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(env::consts::EXE_EXTENSION)
    }

    /// Returns the command of the environment's Python, in the root.
    pub(crate) fn python(&self) -> Command {
        self.workplace.command(self.program("python"))
    }

    /// Makes the environment's programs the first that a command finds.
    pub(crate) fn put_on_path(&self, command: &mut Command) -> Result<()> {
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [self.programs.clone()].into_iter().chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(path).map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Returns whether this machine has the Python that the environment requires.
    pub(crate) fn is_possible(&self) -> bool {
        match &self.wanted {
            Wanted::Any => true,
            Wanted::Version(version) => Interpreter::of(*version).is_some(),
            Wanted::Program(python) => Interpreter::ask(python.as_os_str()).is_some(),
        }
    }

    /// Returns a cargo command for crates that use PyO3: it builds for this Python, and does not link it.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = self.workplace.cargo(arguments);
        self.for_crates(&mut cargo);
        cargo
    }

    /// Sets the environment of a command that compiles crates with PyO3, as for [`cargo`](Self::cargo).
    pub(crate) fn for_crates<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("PYO3_PYTHON", self.program("python"));
        command.env("PYO3_BUILD_EXTENSION_MODULE", "1")
    }

    /// Returns the environment's Python, once it is [`ready`](Self::ready).
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Installs requirements, in the newest release for this Python. `what` may have options that both uv and pip
    /// accept.
    pub(crate) fn install(&self, what: &[impl AsRef<OsStr>]) -> Result<()> {
        let newest = |what: &'_ OsStr| match what.to_str() {
            Some(text) => pins::for_python(text, self.version).into(),
            None => what.to_owned(),
        };
        let what: Vec<_> = what.iter().map(|what| newest(what.as_ref())).collect();
        if let Some(uv) = &self.uv {
            let mut install = self.workplace.command(uv);
            install.args(["pip", "install", "--python"]).arg(self.program("python")).args(&what);
            // pip's configuration may have an index or a proxy that uv lacks.
            match process::run(&mut install) {
                Ok(()) => return Ok(()),
                Err(error) => println!("{error}; now with pip"),
            }
        }
        process::run(self.python().args(["-m", "pip", "install"]).args(what))
    }

    /// Builds the Python project in a directory of the repository, and replaces the installed package of
    /// its name by its wheel.
    pub(crate) fn install_project(&self, directory: &str) -> Result<()> {
        let wheel = self.build_project(directory)?;
        self.install_wheel(&wheel)
    }

    /// Installs like [`install_project`](Self::install_project), but builds quickly, with debug assertions.
    pub(crate) fn install_example(&self, directory: &str) -> Result<()> {
        let wheel = self.build(directory, "dev", None)?;
        self.install_wheel(&wheel)
    }

    /// Replaces the installed package of a wheel's name by the wheel.
    pub(crate) fn install_wheel(&self, wheel: &Path) -> Result<()> {
        self.install(&[OsStr::new("--no-deps"), OsStr::new("--force-reinstall"), wheel.as_os_str()])
    }

    /// Returns the folder for the wheel of a Python project.
    fn wheels(&self, directory: &str) -> PathBuf {
        let name = if directory == "." { "dlbridge" } else { directory };
        self.workplace.target.join("wheels").join(name)
    }

    /// Returns the last built wheel of the Python project in a directory of the repository.
    pub(crate) fn built(&self, directory: &str) -> Result<PathBuf> {
        only("whl", &self.wheels(directory))
    }

    /// Builds the wheel of the Python project in a directory of the repository, in release mode.
    pub(crate) fn build_project(&self, directory: &str) -> Result<PathBuf> {
        self.build(directory, "release", None)
    }

    /// Builds the wheel of an example quickly, with only one feature.
    pub(crate) fn build_example_with(&self, directory: &str, feature: &str) -> Result<PathBuf> {
        self.build(directory, "dev", Some(feature))
    }

    fn build(&self, directory: &str, profile: &str, feature: Option<&str>) -> Result<PathBuf> {
        let wheels = self.wheels(&[&[directory], feature.as_slice()].concat().join("-"));
        // So that only the new wheel is in the folder afterwards.
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

    /// Compares the stub of an example with the one generated from its code.
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
                "{} differs from the stub that the code generates; its README shows how to generate it",
                kept.display()
            )),
        }
    }

    /// Builds a source distribution and a wheel from it, quickly, to check that no file is missing.
    pub(crate) fn try_source_distribution(&self) -> Result<()> {
        let directory = self.workplace.target.join("sdist");
        let archives = directory.join("archives");
        let _ = fs::remove_dir_all(&archives);
        let mut sdist = self.workplace.command(self.program("maturin"));
        process::run(sdist.arg("sdist").arg("--out").arg(&archives))?;
        let mut wheel = self.python();
        wheel.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]);
        wheel.arg("--wheel-dir").arg(&archives).arg(only("gz", &archives)?);
        // pip finds the build backend by its name on the path.
        self.put_on_path(&mut wheel)?;
        // The examples are built in this profile too, and share the dependencies.
        wheel.env("MATURIN_PEP517_ARGS", "--profile dev");
        wheel.env("CARGO_TARGET_DIR", &self.workplace.target);
        process::run(&mut wheel)
    }

    /// Returns the directory with `dlpack/dlpack.h`: `DLPACK_INCLUDE`, or that of the pinned wheel, which is
    /// downloaded once.
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
            Err(format!("{} lacks dlpack/dlpack.h", pins::DLPACK_HEADER))
        }
    }
}

/// Returns the only file with the given extension in a directory.
pub(crate) fn only(extension: &str, directory: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.filter(|p| p.extension() == Some(OsStr::new(extension)));
    match &found.collect::<Vec<_>>()[..] {
        [one] => Ok(one.clone()),
        some => {
            Err(format!("{} has {} .{extension} files, not one", directory.display(), some.len()))
        }
    }
}

/// Returns the oldest and the newest of the tested Pythons on this machine, without that of `.venv`.
pub(crate) fn others(venv: &Venv<'_>) -> Vec<Version> {
    let here = |version: &Version| *version == venv.version || Interpreter::of(*version).is_some();
    let newest = pins::PYTHONS.iter().rev().copied().find(here);
    let mut others: Vec<_> = [OLDEST].into_iter().filter(here).chain(newest).collect();
    others.dedup();
    others.retain(|version| *version != venv.version);
    others
}
