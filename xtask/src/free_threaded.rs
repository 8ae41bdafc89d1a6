//! `cargo xtask free-threaded`: builds the wheels for a Python without the GIL, and runs the tests of threads with it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::{env, fs};

use crate::common::ARGUMENTS;
use crate::python::{Venv, Version, is_free_threaded};
use crate::python_tests::{FREE_THREADED, PACKAGE};
use crate::seeded_faults::KIT;
use crate::workplace::names;
use crate::{Result, Workplace, pins, process};

/// The wheel of the package for a Python without the GIL.
pub(crate) struct Recipe {
    /// The oldest Python that it is for.
    pub(crate) version: Version,
    /// The name of that Python.
    pub(crate) program: &'static str,
    /// The tags of the wheel.
    pub(crate) tags: &'static str,
    /// The features of the build.
    pub(crate) features: &'static str,
}

/// The wheels, the newest last.
pub(crate) const RECIPES: &[Recipe] = &[
    Recipe {
        version: (3, 14),
        program: "python3.14t",
        tags: "cp314-cp314t",
        features: "free-threaded",
    },
    Recipe {
        version: (3, 15),
        program: "python3.15t",
        tags: "cp315-abi3.abi3t",
        features: "free-threaded,pyo3/abi3t-py315",
    },
];

/// The libraries that the tests use beside NumPy, and the program that runs them.
const LIBRARIES: &[&str] = &["ml_dtypes", "pandas", "pillow", "pyarrow", "pytest"];

/// Builds the wheels with the Python that `PYTHON` names, or the first of [`RECIPES`] that is installed, and runs the
/// tests.
pub(crate) fn run(workplace: &Workplace) -> Result<()> {
    let python = python()?;
    let mut venv = Venv::of_program(workplace, ".venv-free-threaded", python);
    venv.ready()?;
    let recipe = recipe(venv.version())?;
    venv.install(&requirements())?;
    let wheels = workplace.target.join("wheels").join("free-threaded");
    let _ = fs::remove_dir_all(&wheels);
    for (project, features) in [(".", recipe.features), (KIT, ""), (ARGUMENTS, "")] {
        let mut build = workplace.command(venv.program("maturin"));
        build.current_dir(workplace.root.join(project));
        build.args(["build", "--release", "--locked", "--interpreter"]).arg(venv.program("python"));
        if !features.is_empty() {
            build.args(["--features", features]);
        }
        process::run(build.arg("--out").arg(&wheels))?;
    }
    let built = names(&wheels);
    if !built.iter().any(|name| name.starts_with("dlbridge-") && name.contains(recipe.tags)) {
        return Err(format!(
            "none of these wheels has the tags {}: {}",
            recipe.tags,
            built.join(", ")
        ));
    }
    let mut install = ["--no-deps", "--force-reinstall"].map(OsString::from).to_vec();
    install.extend(built.iter().map(|name| wheels.join(name).into_os_string()));
    venv.install(&install)?;
    for folder in [PACKAGE, ARGUMENTS] {
        let mut tests = venv.python();
        // The modules of the kit and of the tests declare that they need the GIL. A file whose tests are all
        // skipped is an error of pytest.
        tests.env("PYTHON_GIL", "0").args(["-m", "pytest"]);
        process::run(tests.arg(format!("{folder}/{FREE_THREADED}")))?;
    }
    Ok(())
}

impl Recipe {
    /// Returns the Python of the wheel, if it is installed.
    pub(crate) fn python(&self) -> Option<PathBuf> {
        is_free_threaded(OsStr::new(self.program)).then(|| self.program.into())
    }
}

/// Returns the Python that `PYTHON` names, or that of a recipe.
fn python() -> Result<PathBuf> {
    let Some(named) = env::var_os("PYTHON") else {
        let names: Vec<_> = RECIPES.iter().map(|recipe| recipe.program).collect();
        let found = RECIPES.iter().find_map(Recipe::python);
        return found.ok_or_else(|| {
            format!("found none of {}; set PYTHON to a Python without the GIL", names.join(", "))
        });
    };
    match is_free_threaded(&named) {
        true => Ok(named.into()),
        false => Err(format!(
            "PYTHON is {}, which has the GIL or cannot be run; set it to a Python such as {}",
            named.to_string_lossy(),
            RECIPES[0].program
        )),
    }
}

/// Returns the recipe of the wheel for a Python.
fn recipe((major, minor): Version) -> Result<&'static Recipe> {
    let mut recipes = RECIPES.iter().rev();
    recipes.find(|recipe| recipe.version <= (major, minor)).ok_or_else(|| {
        format!("Python {major}.{minor} without the GIL is too old; use {}", RECIPES[0].program)
    })
}

/// Returns the pinned requirements.
fn requirements() -> Vec<&'static str> {
    let pinned = pins::FRAMEWORKS.iter().map(|framework| framework.requirement);
    let pinned = pinned.chain(pins::SMALL.iter().copied()).chain(pins::TEST_TOOLS.iter().copied());
    let ours =
        pinned.filter(|pin| LIBRARIES.iter().any(|name| pin.split("==").next() == Some(*name)));
    [pins::NUMPY, pins::MATURIN].into_iter().chain(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_pinned() {
        assert_eq!(requirements().len(), LIBRARIES.len() + 2, "{:?}", requirements());
    }

    #[test]
    fn later_python_has_the_wheel_of_the_stable_abi() {
        assert_eq!(recipe((3, 14)).unwrap().tags, "cp314-cp314t");
        assert_eq!(recipe((3, 15)).unwrap().tags, "cp315-abi3.abi3t");
        assert_eq!(recipe((3, 16)).unwrap().tags, "cp315-abi3.abi3t");
        assert!(recipe((3, 13)).is_err());
    }

    #[test]
    fn page_has_the_recipes() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = fs::read_to_string(root.join("docs/free-threaded.md")).unwrap();
        for recipe in RECIPES {
            let command = format!("-i {} --features {}`", recipe.program, recipe.features);
            assert!(page.contains(&command) && page.contains(recipe.tags), "{command}");
        }
    }
}
