//! `cargo xtask wheels`: builds the wheels for this machine, or takes those of a folder, checks them, and tries them in an
//! environment of their own. A release needs it for machines that Linux cannot build for, or cannot run.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::{env, fs, path};

use crate::python::Venv;
use crate::release::distributions::{PROJECTS, smoke_test};
use crate::release::{audit, places};
use crate::workplace::remove_folder;
use crate::{Result, Workplace, pins, process};

/// The folder of the built wheels, in the target directory.
const BUILT: &str = "wheels/release";

/// The options of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// The folder with wheels; without it, they are built.
    pub(crate) from: Option<PathBuf>,
}

/// Builds or takes the wheels, checks them, installs them beside NumPy, and makes a round trip.
pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<()> {
    let version = places::declared(&workplace.root)?;
    let venv = Venv::made(workplace)?;
    let from = match &options.from {
        Some(folder) => path::absolute(folder).map_err(|e| format!("--from: {e}"))?,
        None => build(workplace, &venv)?,
    };
    venv.install(pins::AUDIT_TOOLS)?;
    audit::check_any(workplace, &venv, &from)?;
    let folder = workplace.target.join("wheels").join("venv");
    let mut make = venv.python();
    process::run(make.args(["-m", "venv", "--clear"]).arg(&folder))?;
    let programs = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = programs.join("python").with_extension(env::consts::EXE_EXTENSION);
    let install = |what: &[&OsStr]| {
        let mut pip = workplace.command(&python);
        process::run(pip.args(["-m", "pip", "install", "--quiet"]).args(what))
    };
    install(&[pins::for_python(pins::NUMPY, venv.version()).as_ref()])?;
    // pip takes the wheel that fits this machine, and fails if there is none.
    let offline =
        ["--no-deps", "--no-index", "--only-binary", ":all:", "--find-links"].map(OsStr::new);
    let projects = PROJECTS.iter().map(|(_, name)| OsStr::new(name));
    let what: Vec<_> = offline.into_iter().chain([from.as_os_str()]).chain(projects).collect();
    install(&what)?;
    smoke_test(workplace.command(python), &version.of_python())
}

/// Builds the wheels, and returns the folder with them and no others.
fn build(workplace: &Workplace, venv: &Venv<'_>) -> Result<PathBuf> {
    venv.install(&[pins::MATURIN])?;
    let to = workplace.target.join(BUILT);
    let failed = |error| format!("{}: {error}", to.display());
    remove_folder(&to)?;
    fs::create_dir_all(&to).map_err(failed)?;
    for (project, _) in PROJECTS {
        let wheel = venv.build_project(project)?;
        fs::copy(&wheel, to.join(wheel.file_name().unwrap_or_default())).map_err(failed)?;
    }
    Ok(to)
}
