//! Checks that the template builds outside the repository, as a copy made by the commands of its own README.

use std::{env, fs, process::Command};

use crate::python::Venv;
use crate::steps::Finished;
use crate::{Result, Workplace, pins, process};

/// The line of the README that names the clone. Here it names this repository.
const CLONE: &str = "CLONE=";

/// Runs the README's commands in an empty folder outside the repository.
pub(crate) fn build_outside(workplace: &Workplace, venv: &Venv<'_>) -> Result<Finished> {
    if cfg!(windows) {
        return Ok(Finished::Notice("the README's commands are for a shell of Unix".into()));
    }
    let readme = workplace.root.join("examples/template/README.md");
    let readme = fs::read_to_string(&readme).map_err(|e| format!("{}: {e}", readme.display()))?;
    let commands = commands(&readme, &workplace.root.display().to_string())?;
    let folder = env::temp_dir().join(format!("dlbridge-template-{}", std::process::id()));
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let pinned = [pins::NUMPY, pins::MATURIN].iter().chain(pins::TEST_TOOLS);
    let constraints = folder.join("constraints.txt");
    fs::write(&constraints, pinned.copied().collect::<Vec<_>>().join("\n")).map_err(failed)?;
    let mut shell = Command::new("sh");
    shell.args(["-exc", &commands]).current_dir(&folder);
    // pip builds dlbridge without optimisation, and what it compiles serves the template too.
    shell.env("CARGO_TARGET_DIR", workplace.target.join("template"));
    shell.env("MATURIN_PEP517_ARGS", "--profile dev");
    shell.env("PIP_CONSTRAINT", &constraints);
    // `python3` is then a Python that is new enough.
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = venv.program("python").parent().map(ToOwned::to_owned);
    let path = programs.into_iter().chain(env::split_paths(&path));
    shell.env("PATH", env::join_paths(path).map_err(|e| e.to_string())?);
    let result = process::run(&mut shell);
    let _ = fs::remove_dir_all(&folder);
    result.map(|()| Finished::Passed)
}

/// The commands in a README's `sh` blocks, with the path of the clone put in.
fn commands(readme: &str, clone: &str) -> Result<String> {
    let mut inside = false;
    let mut named = false;
    let mut commands = String::new();
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside && line.starts_with(CLONE) {
            named = true;
            commands += &format!("{CLONE}'{clone}'\n");
        } else if inside {
            commands += &format!("{line}\n");
        }
    }
    match named {
        true => Ok(commands),
        false => Err(format!("the template's README needs a line `{CLONE}...` in an `sh` block")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_readme_are_those_of_its_sh_blocks() {
        let readme = "a\n```sh\nCLONE=~/x\ncp $CLONE y\n```\nb\n```rs\nc\n```\n```sh\nd\n```\n";
        assert_eq!(commands(readme, "/r").unwrap(), "CLONE='/r'\ncp $CLONE y\nd\n");
        assert!(commands("```sh\nd\n```\n", "/r").unwrap_err().contains("CLONE="));
    }
}
