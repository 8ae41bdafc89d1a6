//! The two Python distributions: their projects, and a short test of what is installed.

use std::env;
use std::process::Command;

use crate::seeded_faults::KIT;
use crate::{Result, process};

/// The Python projects: their folder, and their name in the names of archives, which pip accepts as well.
pub(crate) const PROJECTS: &[(&str, &str)] = &[(".", "dlbridge"), (KIT, "dlbridge_conformance")];

/// Imports both distributions, compares their versions, and exchanges a tensor with NumPy.
const SMOKE: &str = "import sys, dlbridge.tests, dlbridge_conformance.crafter; \
    from importlib.metadata import version; \
    found = {name: version(name) for name in ('dlbridge', 'dlbridge-conformance')}; \
    assert set(found.values()) == {dlbridge.__version__, sys.argv[1]} == {sys.argv[1]}, found; \
    sys.exit(dlbridge.tests.run('numpy'))";

/// Runs the short test with a Python that has both distributions, in this version, and NumPy.
pub(crate) fn smoke_test(mut python: Command, version: &str) -> Result<()> {
    // Not in the root, whose folder `python` is not the package that the wheel installs.
    python.current_dir(env::temp_dir());
    process::run(python.args(["-c", SMOKE, version]))
}
