//! Follows pages for newcomers from top to bottom, each in an empty folder outside the repository: runs the commands of
//! its `sh` blocks, and saves its programs under the names on the page.

use std::path::Path;
use std::{env, fs, process::Command};

use crate::python::Venv;
use crate::steps::Finished;
use crate::{Result, Workplace, pins, process};

/// The pages, from the root, each with a short name.
pub(crate) const PAGES: &[(&str, &str)] = &[
    ("template", "examples/template/README.md"),
    ("python", "docs/getting-started/python.md"),
    ("rust", "docs/getting-started/rust.md"),
    ("pyo3", "docs/getting-started/pyo3.md"),
    ("c", "docs/getting-started/c.md"),
];

/// The line of a page that sets the path of the clone. The script sets it to this repository.
const CLONE: &str = "CLONE=";

/// The start of the line before a program: the file name comes next, in backticks.
const SAVE: &str = "Save this as `";

/// Ends a program in the script. No page has such a line.
const END: &str = "END OF THE PROGRAM";

/// Follows a page in an empty folder.
pub(crate) fn follow(
    workplace: &Workplace,
    venv: &Venv<'_>,
    (name, page): (&str, &str),
) -> Result<Finished> {
    if cfg!(windows) {
        return Ok(Finished::Notice("the page's commands need a Unix shell".into()));
    }
    let text = fs::read_to_string(workplace.root.join(page)).map_err(|e| format!("{page}: {e}"))?;
    let script =
        script(&text, &workplace.root.display().to_string()).map_err(|e| format!("{page}: {e}"))?;
    let folder = env::temp_dir().join(format!("dlbridge-{name}-{}", std::process::id()));
    let result = in_folder(workplace, venv, &folder, &script);
    let _ = fs::remove_dir_all(&folder);
    result.map(|()| Finished::Passed)
}

fn in_folder(workplace: &Workplace, venv: &Venv<'_>, folder: &Path, script: &str) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let pinned = [pins::NUMPY, pins::MATURIN].iter().chain(pins::TEST_TOOLS);
    let constraints = folder.join("constraints.txt");
    fs::write(&constraints, pinned.copied().collect::<Vec<_>>().join("\n")).map_err(failed)?;
    let file = folder.join("commands.sh");
    fs::write(&file, script).map_err(failed)?;
    let mut shell = Command::new("sh");
    shell.arg("-ex").arg(&file).current_dir(folder);
    // pip builds dlbridge without optimisation, and the next page reuses the build.
    shell.env("CARGO_TARGET_DIR", workplace.target.join("template"));
    shell.env("MATURIN_PEP517_ARGS", "--profile dev");
    // The programs only run once.
    shell.env("CARGO_PROFILE_DEV_DEBUG", "0");
    shell.env("PIP_CONSTRAINT", &constraints);
    shell.env("DLPACK_INCLUDE", venv.dlpack_include()?);
    // So that `python3` is new enough.
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = venv.program("python").parent().map(ToOwned::to_owned);
    let path = programs.into_iter().chain(env::split_paths(&path));
    shell.env("PATH", env::join_paths(path).map_err(|e| e.to_string())?);
    process::run(&mut shell)
}

/// Returns the commands of a page and its programs as one shell script, with the path of the clone.
fn script(page: &str, clone: &str) -> Result<String> {
    let mut script = String::new();
    let mut named = false;
    // The language of the block, and the file to save it in.
    let mut block: Option<(&str, Option<&str>)> = None;
    let mut save = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(language), None) => {
                let file = (language != "sh").then(|| save.take()).flatten();
                if let Some(file) = file {
                    script += &format!("cat > {file} <<'{END}'\n");
                }
                block = Some((language, file));
            }
            (Some(_), Some((_, file))) => {
                if file.is_some() {
                    script += &format!("{END}\n");
                }
                block = None;
            }
            (None, Some(("sh", _))) if line.starts_with(CLONE) => {
                named = true;
                script += &format!("{CLONE}'{clone}'\n");
            }
            (None, Some(("sh", _) | (_, Some(_)))) => script += &format!("{line}\n"),
            (None, Some(_)) => {}
            (None, None) => {
                if let Some(name) = line.strip_prefix(SAVE).and_then(|rest| rest.split('`').next())
                {
                    save = Some(name);
                }
            }
        }
    }
    match (named, save) {
        (true, None) => Ok(script),
        (false, _) => Err(format!("needs a line `{CLONE}...` in an `sh` block")),
        (_, Some(file)) => Err(format!("no block follows `{SAVE}{file}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_of_sh_blocks() {
        let page = "a\n```sh\nCLONE=~/x\ncp $CLONE y\n```\nb\n```rs\nc\n```\n```sh\nd\n```\n";
        assert_eq!(script(page, "/r").unwrap(), "CLONE='/r'\ncp $CLONE y\nd\n");
        assert!(script("```sh\nd\n```\n", "/r").unwrap_err().contains("CLONE="));
    }

    #[test]
    fn program_is_saved_under_the_name_on_the_page() {
        let page = "```sh\nCLONE=x\n```\nSave this as `a/b.rs`:\n\n```rust\nc\n\nd\n```\n```sh\ne\n```\n```rust\nf\n```\n";
        let expected = format!("CLONE='/r'\ncat > a/b.rs <<'{END}'\nc\n\nd\n{END}\ne\n");
        assert_eq!(script(page, "/r").unwrap(), expected);
    }

    #[test]
    fn name_without_a_program_is_refused() {
        let page = "```sh\nCLONE=x\n```\nSave this as `a`:\n";
        assert!(script(page, "/r").unwrap_err().contains("Save this as `a"));
    }

    #[test]
    fn every_page_can_be_followed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (_, page) in PAGES {
            let text = fs::read_to_string(root.join(page)).unwrap();
            assert!(script(&text, "/r").is_ok(), "{page}");
        }
    }
}
