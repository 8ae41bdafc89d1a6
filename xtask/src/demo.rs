//! `cargo xtask demo`: from a fresh clone to the image and the interop table.

use std::path::PathBuf;

use crate::python::Venv;
use crate::{Result, Workplace, pins, process};

#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    /// Frameworks to install before the run. Those of an earlier run stay installed.
    pub(crate) with: Vec<&'static pins::Framework>,
    /// The folder for the images, relative to the directory of the task.
    pub(crate) out: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { with: Vec::new(), out: "out".into() }
    }
}

pub(crate) fn run(workplace: &Workplace, options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out).map_err(|e| format!("--out: {e}"))?;
    let venv = Venv::made(workplace)?;
    let frameworks = options.with.iter().map(|f| f.requirement);
    let requirements: Vec<_> = [pins::NUMPY, pins::MATURIN].into_iter().chain(frameworks).collect();
    venv.install(&requirements)?;
    venv.install_project(".")?;
    venv.install_project("examples/image_pipeline")?;
    println!();
    let mut pipeline = venv.python();
    process::run(pipeline.arg("examples/image_pipeline/run.py").arg("--out").arg(out))
}
