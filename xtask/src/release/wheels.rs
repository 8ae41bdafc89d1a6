//! The Python distributions: a source distribution, and a wheel for each platform, which zig links for old releases of
//! the C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::artifacts::{self, PYTHON};
use super::distributions::{PROJECTS, smoke_test};
use super::source;
use crate::python::{Venv, Version, only};
use crate::steps::{Finished, Steps, in_ci};
use crate::workplace::{names, remove_folder};
use crate::{Result, Workplace, pins, process};

/// A platform that a wheel is built for.
pub(super) struct Platform {
    /// The target of Rust.
    target: &'static str,
    /// The oldest C library, as the wheel's name has it.
    pub(super) library: &'static str,
    /// The machine, as the wheel's name has it.
    pub(super) machine: &'static str,
}

/// The platforms whose wheels are built on Linux. Wheels for macOS and Windows are built there, by the workflow.
pub(super) const PLATFORMS: &[Platform] = &[
    Platform { target: "x86_64-unknown-linux-gnu", library: "manylinux_2_17", machine: "x86_64" },
    Platform { target: "x86_64-unknown-linux-gnu", library: "manylinux_2_28", machine: "x86_64" },
    Platform { target: "x86_64-unknown-linux-musl", library: "musllinux_1_2", machine: "x86_64" },
    Platform { target: "aarch64-unknown-linux-gnu", library: "manylinux_2_17", machine: "aarch64" },
    Platform { target: "aarch64-unknown-linux-gnu", library: "manylinux_2_28", machine: "aarch64" },
    Platform { target: "aarch64-unknown-linux-musl", library: "musllinux_1_2", machine: "aarch64" },
];

/// The newest Python that `release.yml` installs for the dry run. It installs the older ones too.
const NEWEST_IN_WORKFLOW: Version = (3, 15);

/// Builds the distributions.
pub(super) fn build(steps: &mut Steps, clone: &Workplace, venv: &Venv<'_>, version: &str) {
    for (folder, name) in PROJECTS {
        steps.run(&format!("the source distribution of {name}, built without git"), || {
            source_distribution(clone, venv, folder, name)
        });
    }
    steps.run("the wheels of the source distributions", || {
        let mut own = Venv::of_program(clone, ".venv-from-source", venv.program("python"));
        let wheels = PROJECTS.iter().map(|(_, name)| only("whl", &from_source(clone, name)));
        try_wheels(&mut own, &wheels.collect::<Result<Vec<_>>>()?, version)
    });
    steps.run("Rust's targets", || add_targets(clone));
    for platform in PLATFORMS {
        for (folder, name) in PROJECTS {
            let Platform { library, machine, .. } = platform;
            steps.run(&format!("the wheel of {name}: {library}, {machine}"), || {
                wheel(clone, venv, folder, platform)
            });
        }
    }
}

/// Installs the wheels with each Python, and runs the package's own test.
pub(super) fn run(steps: &mut Steps, clone: &Workplace, version: &str) {
    for &(major, minor) in pins::PYTHONS.iter().chain(pins::NEWER_PYTHONS) {
        for platform in PLATFORMS.iter().filter(|platform| platform.runs_here()) {
            let name = format!("the {} wheels with Python {major}.{minor}", platform.library);
            steps.try_run(&name, || {
                let mut venv = Venv::of_python(clone, (major, minor));
                if !venv.is_possible() {
                    let missing = format!("Python {major}.{minor} is not installed");
                    return not_installed(missing, (major, minor), in_ci());
                }
                let wheels = PROJECTS.iter().map(|(_, name)| platform.wheel_of(clone, name));
                try_wheels(&mut venv, &wheels.collect::<Result<Vec<_>>>()?, version)?;
                Ok(Finished::Passed)
            });
        }
    }
    steps.try_run("wheels for other machines and for musl", || {
        let others = PLATFORMS.iter().filter(|platform| !platform.runs_here());
        let others = others.map(|one| format!("{}_{}", one.library, one.machine));
        Ok(Finished::Notice(format!(
            "built and audited, but not run: {}",
            others.collect::<Vec<_>>().join(", ")
        )))
    });
}

/// Installs the wheels of all projects beside NumPy, and runs the short test.
fn try_wheels(venv: &mut Venv<'_>, wheels: &[PathBuf], version: &str) -> Result<()> {
    venv.ready()?;
    venv.install(&[pins::NUMPY])?;
    for wheel in wheels {
        venv.install_wheel(wheel)?;
    }
    smoke_test(venv.python(), version)
}

/// Returns a notice for a missing Python, or an error in CI if the workflow installs it.
pub(super) fn not_installed(missing: String, python: Version, in_ci: bool) -> Result<Finished> {
    match in_ci && python <= NEWEST_IN_WORKFLOW {
        true => Err(format!("{missing}; release.yml should install it")),
        false => Ok(Finished::Notice(missing)),
    }
}

impl Platform {
    /// Returns whether this machine's Python can load the wheel.
    pub(super) fn runs_here(&self) -> bool {
        cfg!(all(target_os = "linux", target_env = "gnu"))
            && self.machine == std::env::consts::ARCH
            && self.library.starts_with("manylinux")
    }

    /// Returns the wheel of a project for this platform.
    pub(super) fn wheel_of(&self, clone: &Workplace, project: &str) -> Result<PathBuf> {
        let folder = artifacts::folder(clone).join(PYTHON);
        let start = format!("{project}-");
        let ours = |name: &String| {
            name.starts_with(&start)
                && name.ends_with(&format!("_{}.whl", self.machine))
                && name.contains(self.library)
        };
        let found: Vec<_> = names(&folder).into_iter().filter(ours).collect();
        match &found[..] {
            [one] => Ok(folder.join(one)),
            _ => Err(format!(
                "{} has {} wheels of {project} for {} on {}, not one",
                folder.display(),
                found.len(),
                self.library,
                self.machine
            )),
        }
    }
}

fn add_targets(clone: &Workplace) -> Result<()> {
    let mut targets: Vec<_> = PLATFORMS.iter().map(|platform| platform.target).collect();
    targets.dedup();
    process::run(clone.command("rustup").args(["target", "add"]).args(targets))
}

/// Builds the wheel of a project.
fn wheel(clone: &Workplace, venv: &Venv<'_>, folder: &str, platform: &Platform) -> Result<()> {
    let to = artifacts::folder(clone).join(PYTHON);
    process::run(&mut build_of(clone, venv, folder, platform, &to)?)
}

/// Returns the command that builds the wheel of a project. The files in it have the time of the commit.
pub(super) fn build_of(
    clone: &Workplace,
    venv: &Venv<'_>,
    folder: &str,
    platform: &Platform,
    to: &Path,
) -> Result<Command> {
    let mut build = clone.command(venv.program("maturin"));
    // maturin runs zig as a module of Python.
    venv.put_on_path(&mut build)?;
    build.current_dir(clone.root.join(folder));
    build.args(["build", "--release", "--locked", "--zig", "--target", platform.target]);
    build.args(["--compatibility", platform.library, "--out"]).arg(to);
    build.envs(source::time(clone).map(|time| ("SOURCE_DATE_EPOCH", time)));
    Ok(build)
}

/// Makes the source distribution of a project, and builds it where git finds no repository.
fn source_distribution(clone: &Workplace, venv: &Venv<'_>, folder: &str, name: &str) -> Result<()> {
    let archives = artifacts::folder(clone).join(PYTHON);
    let mut sdist = clone.command(venv.program("maturin"));
    sdist.current_dir(clone.root.join(folder));
    sdist.envs(source::time(clone).map(|time| ("SOURCE_DATE_EPOCH", time)));
    process::run(sdist.arg("sdist").arg("--out").arg(&archives))?;
    let archive = source_archive(&archives, name)?;
    let to = from_source(clone, name);
    remove_folder(&to)?;
    let mut wheel = venv.python();
    venv.put_on_path(&mut wheel)?;
    wheel.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]);
    wheel.arg("--wheel-dir").arg(to).arg(archive);
    // pip unpacks outside of the repository; a git that looks for one fails.
    wheel.env("GIT_DIR", "/no/repository");
    // This build shows that the archive is complete. The wheels of the later steps are built in the profile of a release,
    // and take most of the time; this profile takes a fraction of it, and its debug assertions run in the short test.
    wheel.env("MATURIN_PEP517_ARGS", "--profile dev");
    process::run(&mut wheel)
}

/// Returns the folder of the wheel from a source distribution, elsewhere than the wheels that are released.
fn from_source(clone: &Workplace, name: &str) -> PathBuf {
    clone.target.join("from-source").join(name)
}

fn source_archive(folder: &Path, name: &str) -> Result<PathBuf> {
    let start = format!("{name}-");
    let mut names = names(folder).into_iter();
    let found = names.find(|file| file.starts_with(&start) && file.ends_with(".tar.gz"));
    let found = found.map(|name| folder.join(name)).filter(|path| fs::metadata(path).is_ok());
    found.ok_or_else(|| format!("{} lacks a source distribution of {name}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_python_fails_only_where_the_workflow_installs_it() {
        let result = |python, in_ci| not_installed("Python is not installed".into(), python, in_ci);
        for (python, in_ci) in [((3, 11), false), ((3, 15), false), ((3, 16), true)] {
            assert!(matches!(result(python, in_ci), Ok(Finished::Notice(_))), "{python:?}");
        }
        for python in [(3, 11), (3, 15)] {
            let error = result(python, true).unwrap_err();
            assert!(error.starts_with("Python is not installed; release.yml"), "{error}");
        }
    }

    #[test]
    fn workflow_installs_the_required_pythons() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let workflow = fs::read_to_string(root.join(".github/workflows/release.yml")).unwrap();
        let installs = |name: &str| workflow.lines().any(|line| line.trim() == name);
        for &(major, minor) in pins::PYTHONS.iter().chain(pins::NEWER_PYTHONS) {
            let required = (major, minor) <= NEWEST_IN_WORKFLOW;
            assert_eq!(installs(&format!("{major}.{minor}")), required, "{major}.{minor}");
        }
        for recipe in crate::free_threaded::RECIPES {
            let name = recipe.program.trim_start_matches("python");
            assert_eq!(installs(name), recipe.version <= NEWEST_IN_WORKFLOW, "{name}");
        }
    }
}
