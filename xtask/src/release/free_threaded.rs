//! The wheels of the package for Pythons without the GIL, each built, audited and tried with its Python. They are not
//! uploaded.

use std::path::Path;

use super::artifacts::{self, FREE_THREADED};
use super::audit;
use super::wheels::{PLATFORMS, Platform, build_of, not_installed};
use crate::free_threaded::{RECIPES, Recipe};
use crate::python::{Venv, only};
use crate::steps::{Finished, Steps, in_ci};
use crate::{Result, Workplace, pins, process};

/// The C library of the wheels.
const LIBRARY: &str = "manylinux_2_28";

/// A round trip through NumPy, without the GIL.
const SMOKE: &str = "import sys, dlbridge, dlbridge.tests; \
    assert dlbridge.__version__ == sys.argv[1], dlbridge.__version__; \
    result = dlbridge.tests.run('numpy'); \
    assert not sys._is_gil_enabled(), 'the GIL is on'; sys.exit(result)";

/// Runs the steps.
pub(super) fn run(steps: &mut Steps, clone: &Workplace, venv: &Venv<'_>, version: &str) {
    for recipe in RECIPES {
        steps.try_run(&format!("the {} wheel with {}", recipe.tags, recipe.program), || {
            try_recipe(clone, venv, version, recipe)
        });
    }
}

/// Builds and tries a wheel. Returns a notice if its Python is missing, or an error in CI if the workflow installs it.
fn try_recipe(
    clone: &Workplace,
    venv: &Venv<'_>,
    version: &str,
    recipe: &Recipe,
) -> Result<Finished> {
    let Some(python) = recipe.python() else {
        let missing = format!("{} is not installed, so its wheel was not built", recipe.program);
        return not_installed(missing, recipe.version, in_ci());
    };
    let is_ours = |platform: &&Platform| platform.library == LIBRARY && platform.runs_here();
    let Some(platform) = PLATFORMS.iter().find(is_ours) else {
        return Ok(Finished::Notice(
            "this machine cannot run the wheel, so it was not built".to_owned(),
        ));
    };
    let folder = artifacts::folder(clone).join(FREE_THREADED).join(recipe.tags);
    let mut build = build_of(clone, venv, ".", platform, &folder)?;
    process::run(build.arg("--interpreter").arg(&python).args(["--features", recipe.features]))?;
    let wheel = only("whl", &folder)?;
    has_tags(&wheel, recipe.tags)?;
    audit::check_free_threaded(clone, venv, &wheel, platform)?;
    let mut own = Venv::of_program(clone, &format!(".venv-{}", recipe.program), python);
    own.ready()?;
    own.install(&[pins::NUMPY])?;
    own.install_wheel(&wheel)?;
    let mut smoke = own.python();
    // Not in the root, whose folder `python` is not the package that the wheel installs.
    process::run(smoke.current_dir(std::env::temp_dir()).args(["-c", SMOKE, version]))?;
    Ok(Finished::Passed)
}

fn has_tags(wheel: &Path, tags: &str) -> Result<()> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    match name.contains(&format!("-{tags}-")) {
        true => Ok(()),
        false => Err(format!("{name} does not have the tags {tags}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_of_other_tags_is_refused() {
        let wheel = Path::new("a/dlbridge-0.1.0-cp314-cp314t-manylinux_2_28_x86_64.whl");
        assert_eq!(has_tags(wheel, "cp314-cp314t"), Ok(()));
        assert!(has_tags(wheel, "cp314-cp314").is_err());
    }

    #[test]
    fn library_is_one_of_the_platforms() {
        assert!(PLATFORMS.iter().any(|p| p.library == LIBRARY && p.machine == "x86_64"));
    }
}
